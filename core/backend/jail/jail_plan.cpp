// Jail plan: see jail_plan.h.
//
// Theory of operation. The order of the steps is security:
//   1. a fresh tmpfs is the root; nothing of the host is in it but what a step puts there
//   2. the host's /usr, the allowed part of /etc and a handful of device nodes, all read-only
//   3. the scratch space, the only thing the job may write
//   4. what the user adds: files of sbx's own, inputs, mounts; parents before children
//   5. proc, with what tells of the host or talks to its kernel masked or read-only
//   6. no further user namespaces, host name, loopback
//   7. the root becomes read-only and is entered; the host's tree goes.
#include "core/backend/jail/jail_plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/confine/caps.h"
#include "core/confine/limit_plan.h"

namespace sbx::jail {

namespace {

using confine::Bind;
using confine::BindKind;
using confine::BindMode;
using confine::MakeDir;
using confine::MakeFile;
using confine::MakeLink;
using confine::Mask;

constexpr Bytes kRootSize{uint64_t{48} << 20};
constexpr Bytes kDefaultScratch{uint64_t{1} << 30};
constexpr uint64_t kBytesPerInode = 4096;
constexpr uint64_t kMinInodes = 4096;

constexpr auto kDevices = std::to_array<std::string_view>(
    {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"});

constexpr auto kMasked = std::to_array<std::string_view>({"/proc/acpi",
                                                          "/proc/asound",
                                                          "/proc/kallsyms",
                                                          "/proc/kcore",
                                                          "/proc/keys",
                                                          "/proc/latency_stats",
                                                          "/proc/sched_debug",
                                                          "/proc/scsi",
                                                          "/proc/sysrq-trigger",
                                                          "/proc/timer_list"});
constexpr auto kFrozen =
    std::to_array<std::string_view>({"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"});

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    "sbx:x:1000:1000:sbx:/home/sbx:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
constexpr std::string_view kGroup = "root:x:0:\ntty:x:5:\nsbx:x:1000:\nnogroup:x:65534:\n";
constexpr std::string_view kNsswitch =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
    "protocols: files\nservices: files\nethers: files\nrpc: files\n";

size_t depth(std::string_view path) {
  return static_cast<size_t>(std::count(path.begin(), path.end(), '/'));
}

bool is_below(std::string_view path, std::string_view dir) {
  return path.size() > dir.size() && path.starts_with(dir) && path[dir.size()] == '/';
}

/// Collects steps and remembers what exists inside, so that parents are made exactly once and
/// nothing is ever made inside a host tree.
class Builder {
 public:
  Builder(const backend::LaunchRequest& request, const JailFacts& facts)
      : request_(request), profile_(*request.profile), facts_(facts) {}

  Result<JailPlan> build();

 private:
  void add(confine::Step step) { plan_.steps.push_back(std::move(step)); }
  void add_dir(const std::string& path, uint32_t mode = 0755, int32_t owner = confine::kKeepOwner);
  Status add_parents(const std::string& path);
  Status add_file(const std::string& path, std::string content, uint32_t mode);
  Status add_bind(Bind bind);
  Status add_host_tree();
  void add_devices();
  void add_scratch();
  Status add_inputs();
  Status add_mounts();
  Status add_workdir();
  void add_proc();
  Status add_limits();
  std::string through_links(const std::string& path) const;
  const std::string* covering_bind(const std::string& path) const;

  const backend::LaunchRequest& request_;
  const profile::Profile& profile_;
  const JailFacts& facts_;
  JailPlan plan_;
  std::set<std::string, std::less<>> made_;
  std::vector<std::string> binds_;    // targets of host trees
  std::vector<std::string> scratch_;  // directories the job owns
};

void Builder::add_dir(const std::string& path, uint32_t mode, int32_t owner) {
  if (made_.insert(path).second) add(MakeDir{path, mode, owner});
}

const std::string* Builder::covering_bind(const std::string& path) const {
  const auto found = std::find_if(binds_.begin(), binds_.end(), [&path](const std::string& bind) {
    return is_below(path, bind);
  });
  return found == binds_.end() ? nullptr : &*found;
}

/// Where `path` lies when a link that we made (/lib, /var/tmp) leads the way.
std::string Builder::through_links(const std::string& path) const {
  for (const confine::Step& step : plan_.steps) {
    const auto* link = std::get_if<MakeLink>(&step);
    if (link == nullptr || !is_below(path, link->path)) continue;
    const std::string rest = path.substr(link->path.size());
    if (link->target.starts_with('/')) return link->target + rest;
    return text::cat(link->path.substr(0, link->path.rfind('/') + 1), link->target, rest);
  }
  return path;
}

Status Builder::add_parents(const std::string& path) {
  if (covering_bind(path) != nullptr) return {};
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (made_.contains(parent)) continue;
    const bool is_jobs = std::any_of(scratch_.begin(), scratch_.end(), [&parent](const auto& dir) {
      return is_below(parent, dir);
    });
    add_dir(parent, 0755, is_jobs && facts_.has_id_range ? int32_t{kJobId} : confine::kKeepOwner);
  }
  return {};
}

Status Builder::add_file(const std::string& path, std::string content, uint32_t mode) {
  if (const std::string* bind = covering_bind(path); bind != nullptr) {
    return Error(Errc::kUsage, text::cat(path, " would have to be made in the host's ", *bind));
  }
  SBX_TRY(add_parents(path));
  if (!made_.insert(path).second) {
    return Error(Errc::kUsage, text::cat(path, " exists inside already"));
  }
  add(MakeFile{path, std::move(content), mode});
  return {};
}

/// A bind and the empty object that it covers, unless its place lies in a host tree, where nothing
/// is made: then it must exist there.
Status Builder::add_bind(Bind bind) {
  if (covering_bind(bind.path) == nullptr && !made_.contains(bind.path)) {
    if (bind.kind == BindKind::kDir) {
      SBX_TRY(add_parents(bind.path));
      add_dir(bind.path);
    } else {
      SBX_TRY(add_file(bind.path, {}, 0444));
    }
  }
  if (bind.kind != BindKind::kDevice) binds_.push_back(bind.path);
  add(std::move(bind));
  return {};
}

Status Builder::add_host_tree() {
  add_dir("/etc");
  for (const auto* entries : {&facts_.tree.top, &facts_.tree.etc}) {
    for (const HostEntry& entry : *entries) {
      if (entry.kind == EntryKind::kLink) {
        SBX_TRY(add_parents(entry.path));
        made_.insert(entry.path);
        add(MakeLink{entry.path, entry.text});
      } else if (entry.is_copied) {
        SBX_TRY(add_file(entry.path, entry.text, 0444));
      } else {
        Bind bind;
        bind.source = entry.path;
        bind.path = entry.path;
        bind.kind = entry.kind == EntryKind::kDir ? BindKind::kDir : BindKind::kFile;
        SBX_TRY(add_bind(std::move(bind)));
      }
    }
  }
  SBX_TRY(add_file("/etc/passwd", std::string(kPasswd), 0444));
  SBX_TRY(add_file("/etc/group", std::string(kGroup), 0444));
  SBX_TRY(add_file("/etc/nsswitch.conf", std::string(kNsswitch), 0444));
  SBX_TRY(add_file("/etc/hostname", profile_.hostname + "\n", 0444));
  SBX_TRY(add_file("/etc/hosts",
                   text::cat("127.0.0.1 localhost ", profile_.hostname, "\n::1 localhost\n"),
                   0444));
  return add_file("/etc/resolv.conf", {}, 0444);
}

void Builder::add_devices() {
  add_dir("/dev");
  for (const std::string_view device : kDevices) {
    Bind bind;
    bind.source = device;
    bind.path = device;
    bind.kind = BindKind::kDevice;
    bind.mode = BindMode::kReadWrite;
    (void)add_bind(std::move(bind));
  }
  add_dir("/dev/pts");
  add(confine::DevPts{"/dev/pts"});
  add(MakeLink{"/dev/ptmx", "pts/ptmx"});
  add(MakeLink{"/dev/fd", "/proc/self/fd"});
  add(MakeLink{"/dev/stdin", "/proc/self/fd/0"});
  add(MakeLink{"/dev/stdout", "/proc/self/fd/1"});
  add(MakeLink{"/dev/stderr", "/proc/self/fd/2"});
  add_dir("/dev/shm");
}

void Builder::add_scratch() {
  for (const std::string_view dir : {"/work", "/tmp", "/home", "/home/sbx", "/var", "/run"}) {
    add_dir(std::string(dir));
  }
  add(MakeLink{"/var/tmp", "/tmp"});
  made_.insert("/var/tmp");
  // Pages of a tmpfs count as memory, so a larger scratch space could never be filled.
  Bytes size = profile_.limits.disk.value_or(profile_.limits.memory.value_or(kDefaultScratch));
  if (facts_.memory_total != 0) size.v = std::min(size.v, facts_.memory_total);
  const int32_t owner = facts_.has_id_range ? int32_t{kJobId} : confine::kKeepOwner;
  confine::Scratch scratch;
  scratch.size = size;
  scratch.inodes = std::max(size.v / kBytesPerInode, kMinInodes);
  scratch.dirs = {{"/work", 0755, owner},
                  {"/tmp", 01777, confine::kKeepOwner},
                  {"/dev/shm", 01777, confine::kKeepOwner},
                  {"/home/sbx", 0755, owner}};
  for (const confine::ScratchDir& dir : scratch.dirs)
    scratch_.push_back(dir.path);
  add(std::move(scratch));
}

Status Builder::add_inputs() {
  for (const backend::InputFile& file : request_.files) {
    SBX_TRY(add_file(file.path, file.content, 0444));
  }
  for (const backend::InputMount& input : request_.inputs) {
    Bind bind;
    bind.source = input.host_path;
    bind.path = text::cat("/work/", input.name);
    bind.kind = input.is_dir ? BindKind::kDir : BindKind::kFile;
    if (facts_.has_id_range) {
      bind.source_fd = static_cast<int32_t>(plan_.sources.size());
      plan_.sources.push_back({input.host_path, {}, input.is_dir, true, BindMode::kReadOnly, 0});
    }
    const std::string path = bind.path;
    if (made_.contains(path)) return Error(Errc::kUsage, text::cat(path, " exists inside already"));
    SBX_TRY(add_bind(std::move(bind)));
    if (facts_.has_id_range) plan_.sources.back().step = plan_.steps.size() - 1;
  }
  plan_.inputs = request_.inputs;
  return {};
}

Status Builder::add_mounts() {
  constexpr auto kReserved = std::to_array<std::string_view>(
      {"/", "/dev", "/etc", "/home/sbx", "/proc", "/run/sbx", "/tmp", "/var/tmp", "/usr", "/work"});
  std::vector<size_t> order(profile_.mounts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return depth(profile_.mounts[a].target) < depth(profile_.mounts[b].target);
  });
  for (const size_t index : order) {
    const profile::Mount& mount = profile_.mounts[index];
    const std::string target = through_links(mount.target);
    if (std::find(kReserved.begin(), kReserved.end(), target) != kReserved.end() ||
        is_below(target, "/proc") || (is_below(target, "/dev") && !is_below(target, "/dev/shm"))) {
      return Error(Errc::kUsage, text::cat("mount target ", target, " belongs to the sandbox"))
          .with_hint("choose another target, for example /data");
    }
    const bool is_dir = facts_.mount_is_dir[index];
    Bind bind;
    bind.source = mount.source;
    bind.beneath = mount.beneath;
    bind.path = target;
    bind.kind = is_dir ? BindKind::kDir : BindKind::kFile;
    bind.mode =
        mount.mode == profile::MountMode::kReadWrite ? BindMode::kReadWrite : BindMode::kReadOnly;
    if (facts_.has_id_range) {
      bind.source_fd = static_cast<int32_t>(plan_.sources.size());
      plan_.sources.push_back({bind.source, bind.beneath, is_dir, false, bind.mode, 0});
    }
    SBX_TRY(add_bind(std::move(bind)));
    if (facts_.has_id_range) plan_.sources.back().step = plan_.steps.size() - 1;
  }
  return {};
}

/// A working directory below the job's own space is made; any other must exist (checked inside).
Status Builder::add_workdir() {
  const std::string& dir = profile_.workdir;
  const bool is_jobs = std::any_of(scratch_.begin(), scratch_.end(), [&dir](const auto& scratch) {
    return is_below(dir, scratch);
  });
  if (is_jobs) return add_parents(dir + "/.");
  return {};
}

void Builder::add_proc() {
  add_dir("/proc");
  add(confine::Proc{"/proc"});
  if (!profile_.nesting) add(confine::ForbidUserNamespaces{});
  for (const std::string_view path : kMasked)
    add(Mask{std::string(path)});
  for (const std::string_view path : kFrozen)
    add(confine::Freeze{std::string(path)});
}

Status Builder::add_limits() {
  const profile::Limits& limits = profile_.limits;
  confine::LimitWishes wishes;
  wishes.memory = {limits.memory, profile_.is_explicit("limits.memory")};
  wishes.pids = {limits.pids, profile_.is_explicit("limits.pids")};
  wishes.cpu_millis = {limits.cpu_millis, profile_.is_explicit("limits.cpus")};
  wishes.open_files = limits.open_files;
  wishes.best_effort = limits.best_effort;
  wishes.nproc_is_per_userns = facts_.nproc_is_per_userns;
  SBX_ASSIGN(confine::LimitPlan decided, confine::plan_limits(wishes, facts_.cgroups));
  if (limits.disk.has_value() && limits.memory.has_value() && *limits.memory < *limits.disk) {
    return Error(Errc::kUnsupported,
                 text::cat("limits.disk ",
                           to_string(*limits.disk),
                           " is above limits.memory ",
                           to_string(*limits.memory),
                           ": the files of a run are kept in memory and count as such"))
        .with_hint("raise --memory to at least the value of --disk");
  }
  plan_.cgroup = std::move(decided.cgroup);
  plan_.cgroup.id = request_.id;
  plan_.expected = std::move(decided.expected);
  plan_.warnings = std::move(decided.warnings);
  plan_.rules.rlimits = confine::prepare_rlimits(decided.rlimits);
  return {};
}

Result<JailPlan> Builder::build() {
  plan_.id = request_.id;
  plan_.has_id_range = facts_.has_id_range;
  plan_.own_uid = facts_.own_uid;
  plan_.own_gid = facts_.own_gid;
  plan_.binary = facts_.binary;
  plan_.rules.uid = kJobId;
  plan_.rules.gid = kJobId;
  plan_.rules.is_changing_ids = facts_.has_id_range;
  plan_.rules.is_nesting = profile_.nesting;
  plan_.rules.is_using_landlock = facts_.landlock_abi >= 2 && !profile_.nesting;
  SBX_ASSIGN(plan_.rules.capabilities, confine::parse_capabilities(profile_.capabilities));
  // Until its exec a child of PID 1 is the host's sbx file. Where the job's id could write that
  // file and Landlock does not shut it off, PID 1 runs from a read-only clone instead.
  if (facts_.is_binary_writable && !plan_.rules.is_using_landlock) {
    plan_.init = InitMode::kExecClone;
  }
  SBX_TRY(add_limits());
  add(confine::NewRoot{kRootSize});
  SBX_TRY(add_host_tree());
  add_devices();
  add_scratch();
  SBX_TRY(add_inputs());
  SBX_TRY(add_mounts());
  SBX_TRY(add_workdir());
  add_proc();
  add(confine::Hostname{profile_.hostname});
  add(confine::Loopback{});
  add(confine::EnterRoot{});
  return std::move(plan_);
}

}  // namespace

Result<JailPlan> make_plan(const backend::LaunchRequest& request, JailFacts facts) {
  Builder builder(request, facts);
  Result<JailPlan> plan = builder.build();
  if (plan.ok()) plan.value().layout = std::move(facts.cgroups);
  return plan;
}

std::string to_text(const JailPlan& plan) {
  std::string out = text::cat("jail ", plan.id, "\n");
  if (plan.has_id_range) {
    out += "ids 65536 of a range that belongs to nobody; the job is 1000 inside\n";
  } else {
    out += text::cat("ids 1000 inside is ", plan.own_uid, ":", plan.own_gid, "\n");
  }
  out += plan.init == InitMode::kFork ? "init fork\n" : "init exec from a read-only clone\n";
  for (const confine::InForce& limit : plan.expected) {
    out += text::cat("limit ",
                     limit.limit,
                     " ",
                     limit.value,
                     " by ",
                     limit.mechanism,
                     limit.approximate ? " (approximate)\n" : "\n");
  }
  for (const confine::Step& step : plan.steps)
    out += text::cat(confine::to_text(step), "\n");
  const agent::PayloadRules& rules = plan.rules;
  out += text::cat("job uid ",
                   rules.uid,
                   " gid ",
                   rules.gid,
                   "; no_new_privs; ",
                   rules.capabilities == 0 ? "no capabilities" : "capabilities",
                   "; seccomp ",
                   rules.is_nesting ? "nesting" : "default",
                   rules.is_using_landlock ? "; landlock\n" : "\n");
  for (int number = 0; number < 64; ++number) {
    if ((rules.capabilities >> number & 1) != 0) {
      out += text::cat("capability ", confine::capability_name(number), "\n");
    }
  }
  return out;
}

}  // namespace sbx::jail
