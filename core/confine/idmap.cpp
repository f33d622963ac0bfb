// Idmap: see idmap.h.
#include "core/confine/idmap.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/host_text.h"

namespace sbx::confine {
namespace {

constexpr std::uint32_t kRanges = (IdRange::kStorage - IdRange::kFirst) / IdRange::kCount;
constexpr Bytes kMaxFile{16U << 20U};

/// Whether the span has an id in [base, end). Nothing can overflow: spans reach up to 2^64.
bool touches(const IdSpan& span, std::uint64_t base, std::uint64_t end) {
  if (span.first >= end) return false;
  return span.first >= base || span.count > base - span.first;
}

bool reaches_ranges(const IdSpan& span) {
  return touches(span, IdRange::kFirst, IdRange::kEnd);
}

/// Ids that somebody may already use.
Result<std::vector<IdSpan>> taken_ids() {
  struct Source {
    const char* path;
    std::vector<IdSpan> (*parse)(std::string_view);
  };
  constexpr std::array<Source, 4> kSources{{{"/etc/subuid", parse_subid},
                                            {"/etc/subgid", parse_subid},
                                            {"/etc/passwd", parse_third_field},
                                            {"/etc/group", parse_third_field}}};
  std::vector<IdSpan> out;
  for (const Source& source : kSources) {
    const auto text = fs::read_file(source.path, kMaxFile);
    if (!text.ok()) {
      if (text.error().sys_errno() == ENOENT) continue;
      return text.error();
    }
    for (const IdSpan& span : source.parse(text.value())) {
      if (reaches_ranges(span)) out.push_back(span);
    }
  }
  return out;
}

bool is_taken(const std::vector<IdSpan>& taken, std::uint64_t base) {
  for (const IdSpan& span : taken) {
    if (touches(span, base, base + IdRange::kCount)) return true;
  }
  return false;
}

std::uint32_t random_start() {
  std::uint32_t value = 0;
  if (::getrandom(&value, sizeof value, GRND_NONBLOCK) != ssize_t{sizeof value}) {
    value = static_cast<std::uint32_t>(::getpid()) * 2654435761U;
  }
  return value % kRanges;
}

std::string map_text(std::span<const IdMap> maps) {
  std::string out;
  for (const IdMap& map : maps) {
    out += text::cat(map.inside, " ", map.outside, " ", map.count, "\n");
  }
  return out;
}

/// The kernel wants a map in one write(2).
Status write_proc(pid_t pid, const char* file, const std::string& content) {
  const std::string path = text::cat("/proc/", pid, "/", file);
  SBX_ASSIGN(const UniqueFd fd, sys::open(path, O_WRONLY));
  const ssize_t done = ::write(fd.get(), content.data(), content.size());
  if (done == static_cast<ssize_t>(content.size())) return {};
  const int err = done < 0 ? errno : EIO;
  return sys_error(text::cat("write \"", text::trim(content), "\" to ", path), err);
}

bool covers_ranges(const char* path) {
  const auto content = fs::read_file(path, Bytes{65536});
  if (!content.ok()) return false;
  for (const std::string_view line : text::split(content.value(), '\n')) {
    std::array<std::uint64_t, 3> numbers{};
    std::size_t count = 0;
    for (const std::string_view word : text::split(line, ' ')) {
      if (word.empty() || count == numbers.size()) continue;
      std::from_chars(word.data(), word.data() + word.size(), numbers.at(count));
      ++count;
    }
    if (count == numbers.size() && numbers[0] <= IdRange::kFirst &&
        numbers[0] + numbers[2] >= IdRange::kEnd) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<IdRange> IdRange::claim(const std::string& dir) {
  SBX_TRY(fs::mkdirs(dir, 0700));
  SBX_ASSIGN(UniqueFd lock, sys::open(dir + "/ranges.lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  SBX_ASSIGN(const std::vector<IdSpan> taken, taken_ids());
  const std::uint32_t start = random_start();
  for (std::uint32_t i = 0; i < kRanges; ++i) {
    const std::uint32_t index = (start + i) % kRanges;
    const std::uint32_t base = kFirst + index * kCount;
    if (is_taken(taken, base)) continue;
    // One byte of the file for each range. The lock belongs to the open file, not to the process.
    struct flock byte {};
    byte.l_type = F_WRLCK;
    byte.l_whence = SEEK_SET;
    byte.l_start = index;
    byte.l_len = 1;
    if (::fcntl(lock.get(), F_OFD_SETLK, &byte) == 0) return IdRange(base, std::move(lock));
    if (errno != EAGAIN && errno != EACCES) {
      return sys_error(text::cat("lock a byte of ", dir, "/ranges.lock"), errno);
    }
  }
  return Error(Errc::kLimit, "claim host ids: all ranges are taken")
      .with_hint("end some sandboxes, or take lines for 1879048192 and above out of /etc/subuid");
}

bool may_map_id_ranges() {
  return ::geteuid() == 0 && covers_ranges("/proc/self/uid_map") &&
         covers_ranges("/proc/self/gid_map");
}

Status write_idmaps(pid_t pid,
                    std::span<const IdMap> uids,
                    std::span<const IdMap> gids,
                    bool deny_setgroups) {
  if (deny_setgroups) SBX_TRY(write_proc(pid, "setgroups", "deny"));
  SBX_TRY(write_proc(pid, "gid_map", map_text(gids)));
  return write_proc(pid, "uid_map", map_text(uids));
}

Result<UniqueFd> idmap_userns(std::span<const IdMap> uids, std::span<const IdMap> gids) {
  clone_args args{};
  int raw_pidfd = -1;
  args.flags = CLONE_NEWUSER | CLONE_PIDFD;
  args.exit_signal = SIGCHLD;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&raw_pidfd);
  const pid_t self = ::getpid();
  SBX_ASSIGN(const pid_t pid, sys::clone3(args));
  if (pid == 0) {
    // Holds the namespace, and nothing else of ours (others wait for the end of a socket), until it
    // is killed, by us or by our death.
    die_with_parent_in_child(self);
    (void)::syscall(SYS_close_range, 0U, ~0U, 0U);
    for (;;) {
      ::pause();
    }
  }
  const ChildProcess holder(pid, UniqueFd(raw_pidfd));  // kills and reaps it
  SBX_TRY(write_idmaps(pid, uids, gids, false));
  return sys::open(text::cat("/proc/", pid, "/ns/user"), O_RDONLY);
}

}  // namespace sbx::confine
