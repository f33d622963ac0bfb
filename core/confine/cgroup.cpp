// Cgroup: see cgroup.h.
#include "core/confine/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/cgroup_file.h"

namespace sbx::confine {

namespace cgf = cgroup_file;

namespace {

constexpr std::uint64_t kPageSize = 4096;      // x86-64
constexpr std::uint64_t kPidsMax = 4'194'304;  // PID_MAX_LIMIT: pids.max refuses more
constexpr std::uint64_t kCpuPeriodUs = 100'000;
constexpr std::uint32_t kLeastCpuMillis = 10;  // the kernel's least quota is 1 ms
constexpr int kTries = 32;
constexpr std::size_t kMaxIdLength = 128;

Status check_id(const std::string& id) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  const bool fits = !id.empty() && id.size() <= kMaxIdLength;
  if (fits && std::all_of(id.begin(), id.end(), good)) return {};
  return Error(Errc::kInternal, text::cat("cgroup id \"", text::escape(id), "\" is malformed"));
}

/// Whether to write what seems to be on already. The kernel shows a controller as on a little
/// before its files are there; a write waits until they are, but also for groups that others are
/// removing.
enum class Force : std::uint8_t { kNo, kYes };

/// Makes sure that children of the v2 group `path` have `controllers`.
Status turn_on(const std::string& path,
               std::span<const std::string_view> controllers,
               Force force) {
  SBX_ASSIGN(const UniqueFd dir, fs::open_dir(path));
  SBX_ASSIGN(const std::string on, cgf::read(dir.get(), path, "cgroup.subtree_control"));
  const auto words = text::split(on, ' ');
  std::string missing;
  for (const std::string_view controller : controllers) {
    if (force == Force::kYes || std::find(words.begin(), words.end(), controller) == words.end()) {
      missing += text::cat(missing.empty() ? "+" : " +", controller);
    }
  }
  if (missing.empty()) return {};
  auto done = cgf::write(dir.get(), path, "cgroup.subtree_control", missing);
  if (!done.ok() && done.error().sys_errno() == EBUSY) {
    // cgroups(7), "no internal processes".
    return std::move(done).error().with_hint(
        text::cat("processes in ",
                  path,
                  " are in the way; move them to a group below it: mkdir ",
                  path,
                  "/init; for p in $(cat ",
                  path,
                  "/cgroup.procs); do echo $p > ",
                  path,
                  "/init/cgroup.procs; done"));
  }
  return done;
}

/// Makes the group `path`; in v2 also the one above it.
Status make_group(const ControllerPlace& place, const std::string& path) {
  const fs::OwnerUmask mask;
  // Another sbx that ends removes the empty "sbx" just when we have made it: then once more.
  for (int i = 0; i < kTries; ++i) {
    if (place.version == CgroupVersion::kV2 && ::mkdir(place.dir.c_str(), 0755) != 0 &&
        errno != EEXIST) {
      return sys_error(text::cat("make cgroup ", place.dir), errno);
    }
    if (::mkdir(path.c_str(), 0755) == 0) return {};
    if (errno != ENOENT) break;
  }
  const int err = errno;
  Error error = sys_error(text::cat("make cgroup ", path), err);
  if (err == EAGAIN || err == ENOSPC) {  // cgroup.max.descendants; no ids left
    return std::move(error).with_hint("there are too many cgroups: rmdir those no longer needed");
  }
  return error;
}

Error not_held(std::string_view limit,
               const std::string& group,
               const char* file,
               std::string_view asked,
               std::string_view got) {
  return Error(Errc::kUnsupported,
               text::cat(limit,
                         " limit: ",
                         group,
                         "/",
                         file,
                         " says ",
                         got,
                         " after ",
                         asked,
                         " was written"))
      .with_hint(text::cat("ask for a smaller ", limit, " limit"));
}

Status write_and_compare(int dir,
                         const std::string& path,
                         const char* file,
                         const std::string& value,
                         std::string_view limit) {
  SBX_TRY(cgf::write(dir, path, file, value));
  SBX_ASSIGN(const std::string got, cgf::read(dir, path, file));
  if (got != value) return not_held(limit, path, file, value, got);
  return {};
}

}  // namespace

std::string cpus_text(std::uint32_t millis) {
  std::string text = std::to_string(millis / 1000);
  if (const std::uint32_t rest = millis % 1000; rest != 0) {
    std::string digits = std::to_string(1000 + rest).substr(1);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text;
}

Cgroup::~Cgroup() {
  if (groups_.empty()) return;
  // Nobody is left to tell; a later reap_stale_cgroups() finds what stays.
  (void)kill();
  (void)remove();
}

Cgroup::Cgroup(Cgroup&& other) noexcept
    : groups_(std::exchange(other.groups_, {})),
      join_fds_(std::exchange(other.join_fds_, {})),
      in_force_(std::exchange(other.in_force_, {})) {}

Cgroup& Cgroup::operator=(Cgroup&& other) noexcept {
  if (this != &other) {
    std::swap(groups_, other.groups_);
    std::swap(join_fds_, other.join_fds_);
    std::swap(in_force_, other.in_force_);
  }
  return *this;
}

Status Cgroup::add_group(const Want& want, const std::string& name) {
  const ControllerPlace& place = *want.place;
  if (!place.usable()) return Error(Errc::kUnsupported, place.cause).with_hint(place.fix);
  for (Group& group : groups_) {
    if (group.parent != place.dir) continue;
    group.*want.role = true;
    return {};
  }
  const std::string path = text::cat(place.dir, "/", name);
  SBX_TRY(make_group(place, path));
  Group& group = groups_.emplace_back();  // from here on the destructor undoes it
  group.version = place.version;
  group.parent = place.dir;
  group.path = path;
  group.*want.role = true;
  SBX_ASSIGN(group.dir, fs::open_dir(path));
  return {};
}

std::vector<std::string_view> Cgroup::controllers_of(const Group& group) {
  std::vector<std::string_view> controllers;
  if (group.memory) controllers.emplace_back("memory");
  if (group.pids) controllers.emplace_back("pids");
  if (group.cpu) controllers.emplace_back("cpu");
  return controllers;
}

/// v2: turns on what the group needs, above it. Only now: nobody can remove a group "sbx" that has
/// ours in it.
Status Cgroup::turn_on_controllers(const Group& group,
                                   std::span<const std::string_view> controllers) {
  if (group.version != CgroupVersion::kV2 || controllers.empty()) return {};
  const auto are_there = [&] {
    return std::all_of(controllers.begin(), controllers.end(), [&](std::string_view controller) {
      return cgf::exists(group.dir.get(), text::cat(controller, ".max").c_str());
    });
  };
  const std::string top = group.parent.substr(0, group.parent.rfind('/'));
  const auto turn_on_both = [&](Force force) -> Status {
    SBX_TRY(turn_on(top, controllers, force));
    return turn_on(group.parent, controllers, force);
  };
  Status done = turn_on_both(Force::kNo);
  if (!done.ok() && done.error().sys_errno() != ENOENT) return done;
  if (done.ok() && are_there()) return {};
  return turn_on_both(Force::kYes);
}

Result<Cgroup> Cgroup::create(const CgroupLayout& layout, const CgroupRequest& request) {
  const auto is_shown = [&request](const ControllerPlace& place) {
    return request.view && place.version == CgroupVersion::kV1;
  };
  const std::array<Want, 6> wants{{
      {request.memory.has_value() || (request.counting && layout.memory.usable()),
       &layout.memory,
       &Group::memory},
      {request.pids.has_value(), &layout.pids, &Group::pids},
      {request.cpu_millis.has_value() || is_shown(layout.cpu), &layout.cpu, &Group::cpu},
      {request.accounting || is_shown(layout.accounting), &layout.accounting, &Group::accounting},
      {is_shown(layout.cpuset), &layout.cpuset, &Group::cpuset},
      {request.freezer, &layout.freezer, &Group::freezer},
  }};
  Cgroup out;  // undoes itself on every error below
  for (const Want& want : wants) {
    if (!want.wanted) continue;
    SBX_TRY(check_id(request.id));
    SBX_TRY(out.add_group(want, text::cat("sbx-", request.id)));
  }
  for (const Group& group : out.groups_) {
    SBX_TRY(turn_on_controllers(group, controllers_of(group)));
  }
  SBX_TRY(out.set_limits(request, layout.swap));
  SBX_TRY(out.open_join_fds());
  return out;
}

Status Cgroup::set_limits(const CgroupRequest& request, SwapState swap) {
  for (const Group& group : groups_) {
    if (group.memory && request.memory) {
      SBX_TRY(limit_memory(group, *request.memory, swap));
    }
    if (group.pids && request.pids) SBX_TRY(limit_pids(group, request));
    if (group.cpu && request.cpu_millis) SBX_TRY(limit_cpu(group, *request.cpu_millis));
    if (group.cpuset) SBX_TRY(fill_cpuset(group));
  }
  return {};
}

/// A v1 group lets nobody in before it has CPUs and memory nodes (cpuset(7)): those of its parent.
Status Cgroup::fill_cpuset(const Group& group) {
  SBX_ASSIGN(const UniqueFd parent, fs::open_dir(group.parent));
  for (const char* const file : {"cpuset.cpus", "cpuset.mems"}) {
    SBX_ASSIGN(const std::string value, cgf::read(parent.get(), group.parent, file));
    SBX_TRY(cgf::write(group.dir.get(), group.path, file, value));
  }
  return {};
}

Status Cgroup::limit_memory(const Group& group, Bytes limit, SwapState swap) {
  const bool v1 = group.version == CgroupVersion::kV1;
  const int dir = group.dir.get();
  // The kernel counts pages and rounds down.
  const std::string value = std::to_string(limit.v / kPageSize * kPageSize);
  const char* const file = v1 ? "memory.limit_in_bytes" : "memory.max";
  SBX_TRY(write_and_compare(dir, group.path, file, value, "memory"));
  // v1 limits memory and swap together, v2 swap alone.
  const char* const swap_file = v1 ? "memory.memsw.limit_in_bytes" : "memory.swap.max";
  std::string mechanism = text::cat(v1 ? "cgroup v1 " : "cgroup v2 ", file);
  if (cgf::exists(dir, swap_file)) {
    SBX_TRY(write_and_compare(dir, group.path, swap_file, v1 ? value : "0", "memory"));
    mechanism += text::cat(" and ", swap_file, v1 ? "" : "=0");
  } else if (swap == SwapState::kUncounted) {
    mechanism += " (without swap)";
  } else if (swap == SwapState::kCounted) {
    return Error(Errc::kUnsupported,
                 text::cat("memory limit: swap is on, and ", group.path, " has no ", swap_file))
        .with_hint("turn swap off: swapoff -a");
  } else {
    mechanism += " (the host has no swap)";
  }
  in_force_.push_back({.limit = "memory",
                       .value = value,
                       .mechanism = std::move(mechanism),
                       .approximate = swap == SwapState::kUncounted});
  return {};
}

Status Cgroup::limit_pids(const Group& group, const CgroupRequest& request) {
  const std::uint64_t limit = *request.pids;
  if (limit > kPidsMax - request.own_processes) {
    return Error(Errc::kUnsupported, text::cat("pids limit: ", limit, " is more than Linux has"))
        .with_hint(text::cat("at most ", kPidsMax - request.own_processes));
  }
  const std::string written = std::to_string(limit + request.own_processes);
  SBX_TRY(write_and_compare(group.dir.get(), group.path, "pids.max", written, "pids"));
  in_force_.push_back({.limit = "pids",
                       .value = std::to_string(limit),
                       .mechanism = group.version == CgroupVersion::kV1 ? "cgroup v1 pids.max"
                                                                        : "cgroup v2 pids.max"});
  return {};
}

Status Cgroup::limit_cpu(const Group& group, std::uint32_t millis) {
  if (millis < kLeastCpuMillis) {
    return Error(Errc::kUnsupported, "cpus limit: less than the kernel can enforce")
        .with_hint("at least 0.01");
  }
  const int dir = group.dir.get();
  const std::uint64_t quota = std::uint64_t{millis} * kCpuPeriodUs / 1000;
  const bool v1 = group.version == CgroupVersion::kV1;
  if (v1) {
    const std::string period = std::to_string(kCpuPeriodUs);
    SBX_TRY(write_and_compare(dir, group.path, "cpu.cfs_period_us", period, "cpus"));
    const std::string value = std::to_string(quota);
    SBX_TRY(write_and_compare(dir, group.path, "cpu.cfs_quota_us", value, "cpus"));
  } else {
    const std::string value = text::cat(quota, " ", kCpuPeriodUs);
    SBX_TRY(write_and_compare(dir, group.path, "cpu.max", value, "cpus"));
  }
  in_force_.push_back({.limit = "cpus",
                       .value = cpus_text(millis),
                       .mechanism = v1 ? "cgroup v1 cpu.cfs_quota_us" : "cgroup v2 cpu.max"});
  return {};
}

Status Cgroup::open_join_fds() {
  for (const Group& group : groups_) {
    const bool v1 = group.version == CgroupVersion::kV1;
    SBX_ASSIGN(UniqueFd fd, sys::openat(group.dir.get(), v1 ? "tasks" : "cgroup.procs", O_WRONLY));
    join_fds_.push_back(std::move(fd));
  }
  return {};
}

int Cgroup::join_dir() const {
  if (groups_.size() != 1 || groups_.front().version != CgroupVersion::kV2) return -1;
  return groups_.front().dir.get();
}

const Cgroup::Group* Cgroup::find(Role role) const {
  const auto it = std::find_if(
      groups_.begin(), groups_.end(), [role](const Group& group) { return group.*role; });
  return it == groups_.end() ? nullptr : &*it;
}

std::string Cgroup::to_text() const {
  std::string out;
  for (const Group& group : groups_) {
    out +=
        text::cat("cgroup ", group.version == CgroupVersion::kV1 ? "v1 " : "v2 ", group.path, "\n");
  }
  for (const InForce& limit : in_force_) {
    out += text::cat("  ", limit.limit, " = ", limit.value, " (", limit.mechanism, ")\n");
  }
  return out;
}

}  // namespace sbx::confine
