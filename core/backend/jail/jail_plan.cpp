// Jail plan: see jail_plan.h.
//
// Theory of operation. After the base (base_plan.h), in an order that is security:
//   1. the scratch space, the only thing the job may write
//   2. what the user adds: files of sbx's own, inputs, mounts; parents before children
//   3. what it may see of its cgroups, read-only
//   4. no further user namespaces; then what of proc can be written becomes read-only
//   5. the host name; the root becomes read-only and is entered; the host's tree goes.
#include "core/backend/jail/jail_plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/backend/jail/assemble.h"
#include "core/backend/jail/base_plan.h"
#include "core/backend/jail/planner.h"
#include "core/base/text.h"
#include "core/confine/caps.h"
#include "core/confine/idmap.h"

namespace sbx::jail {

namespace {

using confine::Bind;
using confine::BindKind;
using confine::BindMode;

// Without capabilities only sysctls of the sandbox's own namespaces could be written at all.
constexpr auto kFrozen = std::to_array<std::string_view>({"/proc/sys"});
constexpr auto kFrozenForCapable =
    std::to_array<std::string_view>({"/proc/bus", "/proc/fs", "/proc/irq"});

// Places that the sandbox makes itself: no mount may cover them.
constexpr auto kReserved = std::to_array<std::string_view>(
    {"/", "/dev", "/dev/shm", "/etc", "/proc", "/run/sbx", "/tmp", "/work"});
constexpr auto kReservedOfHost = std::to_array<std::string_view>({"/home/sbx", "/usr"});

bool is_reserved(std::string_view target) {
  return std::find(kReserved.begin(), kReserved.end(), target) != kReserved.end() ||
         is_below(target, "/proc") || (is_below(target, "/dev") && !is_below(target, "/dev/shm"));
}

bool is_reserved_of_host(std::string_view target) {
  return std::find(kReservedOfHost.begin(), kReservedOfHost.end(), target) != kReservedOfHost.end();
}

}  // namespace

void Planner::add_scratch() {
  confine::Scratch scratch;
  scratch.size = disk_.size;
  scratch.inodes = disk_.inodes;
  scratch.dirs = {{"/tmp", 01777, confine::kKeepOwner}, {"/dev/shm", 01777, confine::kKeepOwner}};
  if (request_.root.has_value()) {  // kept with everything else in the root
    plan_.job_dirs.emplace_back("/work");
    if (!is_image()) plan_.job_dirs.emplace_back("/home/sbx");
    for (const std::string& dir : plan_.job_dirs) {
      builder_.add_jobs_dir(dir);
    }
  } else {
    scratch.dirs.insert(scratch.dirs.begin(), {"/work", 0755, job_owner_});
    if (!is_image()) scratch.dirs.push_back({"/home/sbx", 0755, job_owner_});
  }
  builder_.add_scratch(std::move(scratch));
}

/// sbx's own files are in the base but for those in the job's space.
void Planner::decide_base() {
  plan_.base.hostname = profile_.hostname;
  for (const backend::InputFile& file : request_.files) {
    if (!is_below(file.path, "/work")) plan_.base.files.push_back(file);
  }
}

/// Whether a step would make something in the root itself: it cannot be the kept one then. Nor with
/// a host name of its own, or every name would leave a root behind.
bool Planner::is_changing_root() const {
  if (plan_.base.hostname != BaseContent().hostname) return true;
  const auto steps = builder_.steps().subspan(base_size_);
  return std::any_of(steps.begin(), steps.end(), [this](const confine::Step& step) {
    const auto is_ours = [this](const std::string& path) { return !builder_.is_jobs(path); };
    if (const auto* dir = std::get_if<confine::MakeDir>(&step)) return is_ours(dir->path);
    if (const auto* file = std::get_if<confine::MakeFile>(&step)) return is_ours(file->path);
    if (const auto* link = std::get_if<confine::MakeLink>(&step)) return is_ours(link->path);
    return false;
  });
}

/// A bind of something of the user's. With an id range the parent opens it: the job's ids may not
/// be able to.
Status Planner::add_source(Bind bind, bool is_input) {
  if (!facts_.basics.has_id_range()) return builder_.add_bind(std::move(bind));
  SourceMount source;
  source.path = bind.source;
  source.beneath = bind.beneath;
  source.is_dir = bind.kind == BindKind::kDir;
  source.is_input = is_input;
  source.is_device = bind.kind == BindKind::kDevice;
  source.mode = bind.mode;
  bind.source_fd = static_cast<int32_t>(plan_.sources.size());
  SBX_TRY(builder_.add_bind(std::move(bind)));
  plan_.sources.push_back(std::move(source));
  return {};
}

Status Planner::add_inputs() {
  for (const backend::InputFile& file : request_.files) {
    if (is_below(file.path, "/work")) SBX_TRY(builder_.add_file(file.path, file.content));
  }
  for (const backend::InputMount& input : request_.inputs) {
    Bind bind;
    bind.source = input.host_path;
    bind.path = text::cat("/work/", input.name);
    bind.kind = input.is_dir ? BindKind::kDir : BindKind::kFile;
    if (builder_.exists(bind.path)) {
      return Error(Errc::kUsage, text::cat(bind.path, " exists inside already"));
    }
    SBX_TRY(add_source(std::move(bind), true));
    plan_.inputs.push_back(input);
  }
  return {};
}

Status Planner::add_mounts() {
  std::vector<size_t> order(profile_.mounts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto depth = [this](size_t index) {
    const std::string& target = profile_.mounts[index].target;
    return std::count(target.begin(), target.end(), '/');
  };
  std::stable_sort(
      order.begin(), order.end(), [&depth](size_t a, size_t b) { return depth(a) < depth(b); });
  for (const size_t index : order) {
    const profile::Mount& mount = profile_.mounts[index];
    const std::string target = builder_.through_links(mount.target);
    const bool is_of_host = is_reserved_of_host(target) || is_reserved_of_host(mount.target);
    if (is_reserved(target) || is_reserved(mount.target) || (is_of_host && !is_image())) {
      return Error(Errc::kUsage,
                   text::cat("mount target ", mount.target, " belongs to the sandbox"))
          .with_hint("choose another target, for example /data");
    }
    if (mount.mode == profile::MountMode::kOverlay) {
      SBX_TRY(add_overlay(mount, target, facts_.mount_is_dir[index]));
      continue;
    }
    Bind bind;
    bind.source = mount.source;
    bind.beneath = mount.beneath;
    bind.path = target;
    bind.kind = facts_.mount_is_dir[index] ? BindKind::kDir : BindKind::kFile;
    bind.mode =
        mount.mode == profile::MountMode::kReadWrite ? BindMode::kReadWrite : BindMode::kReadOnly;
    SBX_TRY(add_source(std::move(bind), false));
  }
  return {};
}

Status Planner::add_devices() {
  if (request_.devices.empty()) return {};
  // One directory is thrown away with a jail, and /dev of a root that is kept is another one.
  if (is_image() || request_.root.has_value() || request_.devices.size() > 1) {
    return Error(Errc::kUnsupported,
                 "devices in a root that is kept, or of an image, or more than one");
  }
  for (const std::string& device : request_.devices) {
    if (!is_below(device, "/dev") || device.find('/', 5) != std::string::npos) {
      return Error(Errc::kUsage, text::cat(device, " is no device in /dev"));
    }
    Bind bind;
    bind.source = device;
    bind.path = device;
    bind.kind = BindKind::kDevice;
    bind.mode = BindMode::kReadWrite;
    SBX_TRY(add_source(std::move(bind), false));
  }
  return {};
}

/// A working directory below the job's own space is made; any other must exist (checked inside),
/// but in an image, which may be written to.
void Planner::add_workdir() {
  const std::string& workdir = profile_.workdir;
  if (builder_.is_jobs(workdir)) {
    builder_.add_parents(workdir + "/.");
  } else if (is_image() && !builder_.exists(workdir)) {
    builder_.add(confine::Lead{workdir, confine::PlaceKind::kDir, true});
  }
}

/// Programs of an image may rely on them.
void Planner::add_volumes() {
  if (!is_image()) return;
  for (const std::string& volume : request_.image->volumes) {
    if (!volume.starts_with('/') || builder_.exists(volume) || builder_.is_jobs(volume)) continue;
    builder_.add(confine::Lead{volume, confine::PlaceKind::kDir, true});
  }
}

void Planner::freeze_proc() {
  if (!profile_.nesting) builder_.add(confine::ForbidUserNamespaces{});
  for (const std::string_view path : kFrozen) {
    builder_.add(confine::Freeze{std::string(path)});
  }
  const bool has_capabilities = plan_.rules.capabilities != 0 || plan_.rules.root_capabilities != 0;
  if (!has_capabilities && !profile_.nesting) return;
  for (const std::string_view path : kFrozenForCapable) {
    builder_.add(confine::Freeze{std::string(path)});
  }
}

/// Who programs are, and what they may.
Status Planner::decide_rules() {
  agent::PayloadRules& rules = plan_.rules;
  rules.uid = kJobId;
  rules.gid = kJobId;
  rules.is_changing_ids = facts_.basics.has_many_ids();
  rules.is_nesting = profile_.nesting;
  rules.is_using_landlock = is_using_landlock(facts_.basics, profile_);
  SBX_ASSIGN(rules.capabilities, confine::parse_capabilities(profile_.capabilities));
  rules.root_capabilities = rules.capabilities;
  if (!is_image()) return {};
  if (!facts_.basics.has_many_ids()) return Error(Errc::kInternal, "an image with one id only");
  rules.uid = request_.image->user.uid;
  rules.gid = request_.image->user.gid;
  rules.groups = request_.image->groups;
  if (!profile_.is_explicit("capabilities")) {
    rules.root_capabilities = confine::image_root_capabilities();
  }
  rules.may_set_id_bits =
      std::none_of(profile_.mounts.begin(), profile_.mounts.end(), [](const profile::Mount& mount) {
        return mount.mode == profile::MountMode::kReadWrite;
      });
  return {};
}

Status Planner::add_root() {
  if (!is_image()) return add_base(builder_, facts_.tree, plan_.base);
  SBX_TRY(add_image_base(builder_, plan_.base));
  builder_.begin_unknown();
  return {};
}

int32_t Planner::owner_of(const backend::LaunchRequest& request, const JailBasics& basics) {
  if (request.image.has_value()) return static_cast<int32_t>(request.image->user.uid);
  return basics.has_id_range() ? int32_t{kJobId} : confine::kKeepOwner;
}

Result<JailPlan> Planner::make() {
  plan_.id = request_.id;
  plan_.state_dir = request_.state_dir;
  plan_.is_lasting = request_.is_lasting;
  plan_.is_alone = request_.is_alone;
  plan_.basics = facts_.basics;
  plan_.init = init_mode(facts_.basics, profile_);
  plan_.is_image = is_image();
  plan_.job_owner = job_owner_;
  SBX_TRY(decide_rules());
  SBX_TRY(check_root());
  SBX_TRY(decide_limits());
  SBX_TRY(add_layers());
  decide_base();
  SBX_TRY(add_root());
  base_size_ = builder_.size();
  add_scratch();
  SBX_TRY(add_inputs());
  SBX_TRY(add_mounts());
  SBX_TRY(add_devices());
  add_volumes();
  add_workdir();
  SBX_TRY(add_cgroup_view());
  freeze_proc();
  builder_.add(confine::Hostname{profile_.hostname});
  builder_.add(request_.root.has_value() ? confine::EnterRoot{true, "/work"}
                                         : confine::EnterRoot{is_image(), {}});
  plan_.needs_own_root = is_changing_root();
  assemble(plan_, builder_.take(), base_size_);
  return std::move(plan_);
}

bool is_using_landlock(const JailBasics& basics, const profile::Profile& profile) {
  return basics.landlock_abi >= 2 && !profile.nesting;
}

InitMode init_mode(const JailBasics& basics, const profile::Profile& profile) {
  const bool is_exposed = basics.is_binary_writable && !is_using_landlock(basics, profile);
  return is_exposed ? InitMode::kExecClone : InitMode::kFork;
}

LayerOwners layer_owners(const JailBasics& basics) {
  if (basics.subids.has_value()) return {0, false, &*basics.subids};
  if (!basics.has_id_range()) return {};
  return {confine::IdRange::kStorage, true, nullptr};
}

Result<JailPlan> make_plan(const backend::LaunchRequest& request, JailFacts facts) {
  Planner planner(request, facts);
  Result<JailPlan> plan = planner.make();
  if (plan.ok()) plan.value().layout = std::move(facts.cgroups);
  return plan;
}

}  // namespace sbx::jail
