// Cgroup control: what is done with groups while and after processes are in them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <set>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/cgroup.h"
#include "core/confine/cgroup_file.h"
#include "core/confine/host_text.h"

namespace sbx::confine {

namespace cgf = cgroup_file;

namespace {

constexpr Millis kFreezeDeadline{2000};
constexpr Millis kRemoveDeadline{2000};
// Each round kills everybody who was there; only a fork in between makes another one necessary.
constexpr int kKillRounds = 1000;

/// Waits 0.1 ms at first, ever longer up to 10 ms.
class Backoff {
 public:
  void wait() {
    const timespec pause{.tv_sec = 0, .tv_nsec = ns_};
    ::nanosleep(&pause, nullptr);
    ns_ = std::min(ns_ * 2, 10'000'000L);
  }

 private:
  long ns_ = 100'000;
};

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
  }
  return std::vector<pid_t>(pids.begin(), pids.end());
}

Status Cgroup::set_frozen(bool frozen) {
  bool done = false;
  for (const Group& group : groups_) {
    const bool v1 = group.version == CgroupVersion::kV1;
    if (v1 && !group.freezer) continue;
    const char* const file = v1 ? "freezer.state" : "cgroup.freeze";
    const std::string_view value =
        v1 ? (frozen ? "FROZEN" : "THAWED") : (frozen ? std::string_view("1") : "0");
    SBX_TRY(cgf::write(group.dir.get(), group.path, file, value));
    done = true;
    const std::int64_t deadline = monotonic_now().v + kFreezeDeadline.v;
    for (Backoff backoff;; backoff.wait()) {
      // A v1 group passes FREEZING while a process is in an uninterruptible sleep; v2 says it in
      // cgroup.events.
      SBX_ASSIGN(const std::string now,
                 cgf::read(group.dir.get(), group.path, v1 ? file : "cgroup.events"));
      if (v1 ? now == value : find_counter(now, "frozen") == (frozen ? 1U : 0U)) break;
      if (monotonic_now().v < deadline) continue;
      return Error(Errc::kTimeout,
                   text::cat(frozen ? "freeze " : "thaw ",
                             group.path,
                             ": not done after ",
                             to_string(kFreezeDeadline)));
    }
  }
  if (done) return {};
  return Error(Errc::kUnsupported, "freeze: the sandbox has no cgroup that can");
}

Status Cgroup::freeze() {
  return set_frozen(true);
}

Status Cgroup::thaw() {
  return set_frozen(false);
}

Status Cgroup::kill() {
  // A frozen v1 process does not even die of SIGKILL, and nobody could leave later.
  for (const Group& group : groups_) {
    if (group.version == CgroupVersion::kV1 && group.freezer) {
      SBX_TRY(cgf::write(group.dir.get(), group.path, "freezer.state", "THAWED"));
    }
  }
  for (const Group& group : groups_) {
    // cgroup.kill: Linux 5.14; takes frozen ones and forks with it.
    if (group.version == CgroupVersion::kV2 && cgf::exists(group.dir.get(), "cgroup.kill")) {
      SBX_TRY(cgf::write(group.dir.get(), group.path, "cgroup.kill", "1"));
      continue;
    }
    // No forks from here on: two rounds are enough then.
    if (group.pids) SBX_TRY(cgf::write(group.dir.get(), group.path, "pids.max", "0"));
  }
  std::set<pid_t> killed;
  for (int round = 0; round < kKillRounds; ++round) {
    SBX_ASSIGN(const std::vector<pid_t> now, processes());
    bool is_new = false;
    for (const pid_t pid : now) {
      if (::kill(pid, SIGKILL) != 0 && errno == EPERM) {
        return sys_error(text::cat("kill process ", pid), EPERM);
      }
      is_new = killed.insert(pid).second || is_new;
    }
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
    if (err != EBUSY || monotonic_now().v >= end) {
      return sys_error(text::cat("remove cgroup ", group.path), err);
    }
    backoff.wait();
  }
  return {};
}

}  // namespace sbx::confine
