// Groups that a supervisor left when it was killed: how they are named, found and removed.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/cgroup.h"
#include "core/confine/host_text.h"

namespace sbx::confine {
namespace {

constexpr std::string_view kPrefix = "sbx-";
constexpr Millis kReapDeadline{500};

/// Inode of our pid namespace: a pid means nothing outside of its own.
Result<std::uint64_t> pid_namespace() {
  SBX_ASSIGN(const struct stat info, sys::fstatat(AT_FDCWD, "/proc/self/ns/pid", 0));
  return std::uint64_t{info.st_ino};
}

std::optional<ProcStat> stat_of(pid_t pid) {
  const auto text = fs::read_file(text::cat("/proc/", pid, "/stat"), Bytes{16384});
  if (!text.ok()) return std::nullopt;
  return parse_proc_stat(text.value());
}

/// "sbx-<pid>-<start>-<namespace>-<random>" as its three numbers.
std::optional<std::array<std::uint64_t, 3>> parse_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto fields = text::split(name.substr(kPrefix.size()), '-');
  if (fields.size() != 4) return std::nullopt;
  std::array<std::uint64_t, 3> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const char* const end = fields[i].data() + fields[i].size();
    const auto [stop, error] = std::from_chars(fields[i].data(), end, out[i]);
    if (error != std::errc() || stop != end) return std::nullopt;
  }
  return out;
}

bool is_stale(std::string_view name, std::uint64_t our_namespace) {
  const auto owner = parse_name(name);
  if (!owner) return false;
  const auto [pid, start_time, space] = *owner;
  if (space != our_namespace) return false;
  const auto now = stat_of(static_cast<pid_t>(pid));
  if (!now || now->start_time != start_time) return true;
  return now->state == 'Z' || now->state == 'X';
}

/// Names in `dir` that are stale groups, with their paths.
void find_stale(const std::string& dir,
                std::uint64_t our_namespace,
                std::map<std::string, std::string>& out) {
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  const std::unique_ptr<DIR, Close> stream(::opendir(dir.c_str()));
  if (!stream) return;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (entry->d_type == DT_DIR && name.starts_with(kPrefix) && is_stale(name, our_namespace)) {
      out.emplace(name, text::cat(dir, "/", name));
    }
  }
}

std::array<const ControllerPlace*, 6> places_of(const CgroupLayout& layout) {
  return {&layout.memory,
          &layout.pids,
          &layout.cpu,
          &layout.accounting,
          &layout.freezer,
          &layout.cpuset};
}

std::map<std::string, std::string> find_all_stale(const CgroupLayout& layout) {
  std::map<std::string, std::string> out;
  const auto space = pid_namespace();
  if (!space.ok()) return out;
  std::set<std::string_view> seen;
  for (const ControllerPlace* const place : places_of(layout)) {
    if (place->usable() && seen.insert(place->dir).second) {
      find_stale(place->dir, space.value(), out);
    }
  }
  return out;
}

}  // namespace

Result<std::string> cgroup_id() {
  SBX_ASSIGN(const std::uint64_t space, pid_namespace());
  const auto self = stat_of(::getpid());
  if (!self) return Error(Errc::kSystem, "read /proc/self/stat: no start time in it");
  return text::cat(::getpid(), "-", self->start_time, "-", space, "-", fs::random_name(6));
}

Status Cgroup::adopt(const ControllerPlace& place, const std::string& name, Role role) {
  for (Group& group : groups_) {
    if (group.parent == place.dir) {
      group.*role = true;
      return {};
    }
  }
  Group group;
  group.version = place.version;
  group.parent = place.dir;
  group.path = text::cat(place.dir, "/", name);
  SBX_ASSIGN(group.dir, fs::open_dir(group.path));
  if (place.version == CgroupVersion::kV2) {
    auto job = sys::openat(group.dir.get(), "job", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (job.ok()) group.job = std::move(job).value();
  }
  group.*role = true;
  groups_.push_back(std::move(group));
  return {};
}

std::vector<StaleCgroup> find_stale_cgroups(const CgroupLayout& layout) {
  std::vector<StaleCgroup> out;
  for (const auto& [name, path] : find_all_stale(layout)) {
    StaleCgroup& group = out.emplace_back();
    group.path = path;
    if (const auto owner = parse_name(name)) group.pid = static_cast<pid_t>((*owner)[0]);
    if (!layout.memory.usable()) continue;
    const bool is_v1 = layout.memory.version == CgroupVersion::kV1;
    const auto held = fs::read_file(
        text::cat(
            layout.memory.dir, "/", name, is_v1 ? "/memory.usage_in_bytes" : "/memory.current"),
        Bytes{64});
    if (!held.ok()) continue;
    const auto bytes = parse_count(text::trim(held.value()));
    if (bytes.ok()) group.memory = bytes.value();
  }
  return out;
}

Status remove_stale_cgroup(const CgroupLayout& layout, const std::string& name) {
  SBX_ASSIGN(const std::uint64_t space, pid_namespace());
  if (!is_stale(name, space)) {
    return Error(Errc::kDenied, text::cat("remove cgroup ", name, ": its sbx is alive"));
  }
  struct Place {
    const ControllerPlace* place;
    Cgroup::Role role;
  };
  const std::array<Place, 6> places{{{&layout.memory, &Cgroup::Group::memory},
                                     {&layout.pids, &Cgroup::Group::pids},
                                     {&layout.cpu, &Cgroup::Group::cpu},
                                     {&layout.accounting, &Cgroup::Group::accounting},
                                     {&layout.freezer, &Cgroup::Group::freezer},
                                     {&layout.cpuset, &Cgroup::Group::cpuset}}};
  Cgroup group;
  for (const auto& [place, role] : places) {
    // A group is in some places only; another sbx may be removing it as well.
    if (place->usable()) (void)group.adopt(*place, name, role);
  }
  Status done = group.kill();
  if (done.ok() || done.error().sys_errno() == ENODEV) done = group.remove_within(kReapDeadline);
  group.groups_.clear();  // what could not be removed waits for the next command
  return done;
}

std::size_t reap_stale_cgroups(const CgroupLayout& layout) {
  const std::map<std::string, std::string> stale = find_all_stale(layout);
  for (const ControllerPlace* const place : places_of(layout)) {
    // The group "sbx" of v2 when it is empty; whoever is about to use it makes it again.
    if (place->version == CgroupVersion::kV2) ::rmdir(place->dir.c_str());
  }
  std::size_t removed = 0;
  for (const auto& [name, path] : stale) {
    if (remove_stale_cgroup(layout, name).ok()) ++removed;
  }
  return removed;
}

}  // namespace sbx::confine
