// Cgroup control: what is done with groups while and after processes are in them.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <memory>
#include <set>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/backoff.h"
#include "core/confine/cgroup.h"
#include "core/confine/cgroup_file.h"
#include "core/confine/host_text.h"

namespace sbx::confine {

namespace cgf = cgroup_file;

namespace {

constexpr Millis kRemoveDeadline{2000};
// Each round kills everybody who was there; only a fork in between makes another one necessary.
constexpr int kKillRounds = 1000;
constexpr int kMostDepth = 16;

void read_pids(std::string_view text, std::set<pid_t>& out) {
  for (const std::string_view word : text::split(text, '\n')) {
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), pid);
    // 0: a process that our pid namespace does not show.
    if (error == std::errc() && pid > 0) out.insert(pid);
  }
}

/// Sum of "rbytes=" and "wbytes=" over the devices in io.stat.
void read_io(std::string_view text, Usage& usage) {
  usage.read_bytes = 0;
  usage.write_bytes = 0;
  for (const std::string_view line : text::split(text, '\n')) {
    for (const std::string_view word : text::split(line, ' ')) {
      const bool reads = word.starts_with("rbytes=");
      if (!reads && !word.starts_with("wbytes=")) continue;
      std::uint64_t value = 0;
      const char* const begin = word.data() + std::string_view("rbytes=").size();
      std::from_chars(begin, word.data() + word.size(), value);
      *(reads ? usage.read_bytes : usage.write_bytes) += value;
    }
  }
}

std::optional<std::uint64_t> read_number(int dir, const std::string& path, const char* file) {
  const auto text = cgf::read(dir, path, file);
  if (!text.ok()) return std::nullopt;
  const std::string& digits = text.value();
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// The empty groups below a group, whoever made them.
void remove_below(int dir, int depth) {
  auto here = sys::openat(dir, ".", O_RDONLY | O_DIRECTORY);
  if (!here.ok()) return;
  const auto close = [](DIR* stream) { ::closedir(stream); };
  const std::unique_ptr<DIR, decltype(close)> stream(::fdopendir(here.value().get()), close);
  if (!stream) return;
  (void)here.value().release();  // the stream's
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string name = static_cast<const char*>(entry->d_name);
    if (entry->d_type != DT_DIR || name == "." || name == "..") continue;
    if (::unlinkat(dir, name.c_str(), AT_REMOVEDIR) == 0 || depth == 0) continue;
    const auto below = sys::openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!below.ok()) continue;
    remove_below(below.value().get(), depth - 1);
    (void)::unlinkat(dir, name.c_str(), AT_REMOVEDIR);
  }
}

}  // namespace

Result<std::uint64_t> Cgroup::oom_kills() const {
  const Group* const group = find(&Group::memory);
  if (group == nullptr) return std::uint64_t{0};
  const char* const file =
      group->version == CgroupVersion::kV1 ? "memory.oom_control" : "memory.events";
  return cgf::counter(group->dir.get(), group->path, file, "oom_kill");
}

Result<std::uint64_t> Cgroup::pids_denied() const {
  const Group* const group = find(&Group::pids);
  if (group == nullptr) return std::uint64_t{0};
  return cgf::counter(group->dir.get(), group->path, "pids.events", "max");
}

Result<Usage> Cgroup::usage() const {
  Usage out;
  for (const Group& group : groups_) {
    const int dir = group.dir.get();
    const bool v1 = group.version == CgroupVersion::kV1;
    if (group.memory) {
      // memory.peak: Linux 5.19.
      out.max_memory =
          read_number(dir, group.path, v1 ? "memory.max_usage_in_bytes" : "memory.peak");
    }
    if (v1 && group.accounting) out.cpu_ns = read_number(dir, group.path, "cpuacct.usage");
    if (v1) continue;
    SBX_ASSIGN(const std::uint64_t us, cgf::counter(dir, group.path, "cpu.stat", "usage_usec"));
    out.cpu_ns = us * 1000;
    if (const auto io = cgf::read(dir, group.path, "io.stat"); io.ok()) read_io(io.value(), out);
  }
  return out;
}

Result<LiveCounters> Cgroup::live() const {
  SBX_ASSIGN(const Usage used, usage());
  LiveCounters out;
  out.cpu_ns = used.cpu_ns;
  out.memory_peak = used.max_memory;
  out.read_bytes = used.read_bytes;
  out.write_bytes = used.write_bytes;
  for (const Group& group : groups_) {
    const bool v1 = group.version == CgroupVersion::kV1;
    if (v1 && !group.memory) continue;
    out.memory =
        read_number(group.dir.get(), group.path, v1 ? "memory.usage_in_bytes" : "memory.current");
    if (!v1) out.memory_peak = read_number(group.dir.get(), group.path, "memory.peak");
  }
  return out;
}

Result<std::uint64_t> Cgroup::cpu_time() const {
  for (const Group& group : groups_) {
    if (group.version == CgroupVersion::kV2) {
      constexpr std::uint64_t kNsPerUs = 1000;
      SBX_ASSIGN(const std::uint64_t us,
                 cgf::counter(group.dir.get(), group.path, "cpu.stat", "usage_usec"));
      return us * kNsPerUs;
    }
    if (!group.accounting) continue;
    SBX_ASSIGN(const std::string text, cgf::read(group.dir.get(), group.path, "cpuacct.usage"));
    return parse_count(text);
  }
  return Error(Errc::kUnsupported, "the sandbox has no cgroup that counts CPU time");
}

Result<std::vector<pid_t>> Cgroup::processes() const {
  std::set<pid_t> pids;
  for (const Group& group : groups_) {
    SBX_ASSIGN(const std::string text, cgf::read(group.dir.get(), group.path, "cgroup.procs"));
    read_pids(text, pids);
    if (!group.job.valid()) continue;
    SBX_ASSIGN(const std::string below,
               cgf::read(group.job.get(), group.freeze_path(), "cgroup.procs"));
    read_pids(below, pids);
  }
  return std::vector<pid_t>(pids.begin(), pids.end());
}

Result<std::vector<pid_t>> Cgroup::job_processes() const {
  const auto split = std::find_if(
      groups_.begin(), groups_.end(), [](const Group& group) { return group.job.valid(); });
  if (split == groups_.end()) return processes();
  std::set<pid_t> pids;
  SBX_ASSIGN(const std::string text,
             cgf::read(split->job.get(), split->freeze_path(), "cgroup.procs"));
  read_pids(text, pids);
  return std::vector<pid_t>(pids.begin(), pids.end());
}

/// Whether somebody was there who had not been killed yet.
Result<bool> Cgroup::kill_round(std::set<pid_t>& killed) const {
  SBX_ASSIGN(const std::vector<pid_t> now, processes());
  bool is_new = false;
  for (const pid_t pid : now) {
    if (::kill(pid, SIGKILL) != 0 && errno == EPERM) {
      return sys_error(text::cat("kill process ", pid), EPERM);
    }
    is_new = killed.insert(pid).second || is_new;
  }
  return is_new;
}

Status Cgroup::kill() {
  bool is_frozen = false;
  for (const Group& group : groups_) {
    // cgroup.kill: Linux 5.14; takes frozen ones, forks and groups below with it.
    if (group.version == CgroupVersion::kV2 && cgf::exists(group.dir.get(), "cgroup.kill")) {
      SBX_TRY(cgf::write(group.dir.get(), group.path, "cgroup.kill", "1"));
      continue;
    }
    // No forks from here on: two rounds are enough then.
    if (group.pids) SBX_TRY(cgf::write(group.dir.get(), group.path, "pids.max", "0"));
    is_frozen = is_frozen || (group.version == CgroupVersion::kV1 && group.freezer);
  }
  std::set<pid_t> killed;
  if (is_frozen) {
    // A frozen v1 process does not even die of SIGKILL, but it does so first when it is thawed.
    SBX_TRY(kill_round(killed));
    SBX_TRY(start_freezing(false));
  }
  for (int round = 0; round < kKillRounds; ++round) {
    SBX_ASSIGN(const bool is_new, kill_round(killed));
    if (!is_new) return {};
  }
  return Error(Errc::kTimeout, "kill the processes of the sandbox: they fork faster than they die");
}

Status Cgroup::remove() {
  return remove_within(kRemoveDeadline);
}

Status Cgroup::remove_within(Millis deadline) {
  join_fds_.clear();
  const std::int64_t end = monotonic_now().v + deadline.v;
  Backoff backoff;
  while (!groups_.empty()) {
    const Group& group = groups_.back();
    if (::rmdir(group.path.c_str()) == 0 || errno == ENOENT) {
      // Others may be using the group "sbx" between; it goes with the last one.
      if (group.version == CgroupVersion::kV2) ::rmdir(group.parent.c_str());
      groups_.pop_back();
      continue;
    }
    const int err = errno;
    // EBUSY is also said of a group that has others below it, such as "job".
    if (err == EBUSY) remove_below(group.dir.get(), kMostDepth);
    if (err != EBUSY || monotonic_now().v >= end) {
      return sys_error(text::cat("remove cgroup ", group.path), err);
    }
    backoff.wait();
  }
  return {};
}

}  // namespace sbx::confine
