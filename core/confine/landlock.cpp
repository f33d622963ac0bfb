// Landlock: see landlock.h.
#include "core/confine/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace sbx::confine {
namespace {

// Rights newer than Debian 12's headers (linux/landlock.h of 6.10).
constexpr std::uint64_t kTruncate = 1U << 14U;        // ABI 3
constexpr std::uint64_t kIoctlDev = 1U << 15U;        // ABI 5
constexpr std::uint64_t kUpToAbi2 = (1U << 14U) - 1;  // EXECUTE … REFER

constexpr std::uint64_t kReading = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;

constexpr int kLeastAbi = 2;
constexpr int kAbiTruncate = 3;
constexpr int kAbiIoctlDev = 5;

std::uint64_t rights_of(int abi) {
  return kUpToAbi2 | (abi >= kAbiTruncate ? kTruncate : 0) | (abi >= kAbiIoctlDev ? kIoctlDev : 0);
}

int add_rule(int ruleset, int dirfd, std::uint64_t rights) {
  landlock_path_beneath_attr rule{};
  rule.allowed_access = rights;
  rule.parent_fd = dirfd;
  const long done = ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  return done == 0 ? 0 : errno;
}

int restrict_self(int ruleset) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return ::syscall(SYS_landlock_restrict_self, ruleset, 0) == 0 ? 0 : errno;
}

}  // namespace

int landlock_abi() noexcept {
  const long abi = ::syscall(
      SYS_landlock_create_ruleset, nullptr, std::size_t{0}, LANDLOCK_CREATE_RULESET_VERSION);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

int landlock_only_beneath_root_in_child() noexcept {
  const int root = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return errno;
  const int err = landlock_only_beneath_in_child(std::span(&root, 1), {});
  ::close(root);
  return err;
}

int landlock_only_beneath_in_child(std::span<const int> whole,
                                   std::span<const int> readable) noexcept {
  const int abi = landlock_abi();
  if (abi < kLeastAbi) return EOPNOTSUPP;
  // Only the first field: the later ones (network, scopes) stay unhandled on every ABI.
  const std::uint64_t rights = rights_of(abi);
  const int ruleset =
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rights, sizeof rights, 0));
  if (ruleset < 0) return errno;
  int err = 0;
  for (const int dirfd : whole) {
    if (err == 0) err = add_rule(ruleset, dirfd, rights);
  }
  for (const int dirfd : readable) {
    if (err == 0) err = add_rule(ruleset, dirfd, kReading);
  }
  if (err == 0) err = restrict_self(ruleset);
  ::close(ruleset);
  return err;
}

}  // namespace sbx::confine
