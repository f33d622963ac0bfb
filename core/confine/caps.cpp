// Caps: see caps.h.
#include "core/confine/caps.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "core/base/text.h"

namespace sbx::confine {
namespace {

struct Capability {
  std::string_view name;
  int number;
  std::string_view refused;  // why a sandbox must never have it; empty: a profile may ask for it
};

constexpr std::string_view kHostWide = "it acts on the whole host";
constexpr std::string_view kBreaksOut = "with it the job can undo its own confinement";

// Everything up to Linux 6.18; sorted by name.
constexpr std::array<Capability, 41> kCapabilities{{
    {"CAP_AUDIT_CONTROL", CAP_AUDIT_CONTROL, kHostWide},
    {"CAP_AUDIT_READ", CAP_AUDIT_READ, kHostWide},
    {"CAP_AUDIT_WRITE", CAP_AUDIT_WRITE, kHostWide},
    {"CAP_BLOCK_SUSPEND", CAP_BLOCK_SUSPEND, kHostWide},
    {"CAP_BPF", CAP_BPF, kBreaksOut},
    {"CAP_CHECKPOINT_RESTORE", CAP_CHECKPOINT_RESTORE, kBreaksOut},
    {"CAP_CHOWN", CAP_CHOWN, {}},
    {"CAP_DAC_OVERRIDE", CAP_DAC_OVERRIDE, {}},
    {"CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH, kBreaksOut},
    {"CAP_FOWNER", CAP_FOWNER, {}},
    {"CAP_FSETID", CAP_FSETID, {}},
    {"CAP_IPC_LOCK", CAP_IPC_LOCK, {}},
    {"CAP_IPC_OWNER", CAP_IPC_OWNER, {}},
    {"CAP_KILL", CAP_KILL, {}},
    {"CAP_LEASE", CAP_LEASE, {}},
    {"CAP_LINUX_IMMUTABLE", CAP_LINUX_IMMUTABLE, kHostWide},
    {"CAP_MAC_ADMIN", CAP_MAC_ADMIN, kBreaksOut},
    {"CAP_MAC_OVERRIDE", CAP_MAC_OVERRIDE, kBreaksOut},
    {"CAP_MKNOD", CAP_MKNOD, "a device is made by the host's root only"},
    {"CAP_NET_ADMIN", CAP_NET_ADMIN, "with it the job can undo its network policy"},
    {"CAP_NET_BIND_SERVICE", CAP_NET_BIND_SERVICE, {}},
    {"CAP_NET_BROADCAST", CAP_NET_BROADCAST, {}},
    {"CAP_NET_RAW", CAP_NET_RAW, {}},
    {"CAP_PERFMON", CAP_PERFMON, kHostWide},
    {"CAP_SETFCAP", CAP_SETFCAP, kBreaksOut},
    {"CAP_SETGID", CAP_SETGID, {}},
    {"CAP_SETPCAP", CAP_SETPCAP, kBreaksOut},
    {"CAP_SETUID", CAP_SETUID, {}},
    {"CAP_SYSLOG", CAP_SYSLOG, kHostWide},
    {"CAP_SYS_ADMIN", CAP_SYS_ADMIN, kBreaksOut},
    {"CAP_SYS_BOOT", CAP_SYS_BOOT, kHostWide},
    {"CAP_SYS_CHROOT", CAP_SYS_CHROOT, {}},
    {"CAP_SYS_MODULE", CAP_SYS_MODULE, kHostWide},
    {"CAP_SYS_NICE", CAP_SYS_NICE, {}},
    {"CAP_SYS_PACCT", CAP_SYS_PACCT, kHostWide},
    {"CAP_SYS_PTRACE", CAP_SYS_PTRACE, kBreaksOut},
    {"CAP_SYS_RAWIO", CAP_SYS_RAWIO, kHostWide},
    {"CAP_SYS_RESOURCE", CAP_SYS_RESOURCE, "with it the job can lift its own limits"},
    {"CAP_SYS_TIME", CAP_SYS_TIME, kHostWide},
    {"CAP_SYS_TTY_CONFIG", CAP_SYS_TTY_CONFIG, kHostWide},
    {"CAP_WAKE_ALARM", CAP_WAKE_ALARM, kHostWide},
}};
static_assert(CAP_LAST_CAP + 1 == kCapabilities.size());

constexpr auto kAllowedCount = static_cast<std::size_t>(
    std::count_if(kCapabilities.begin(), kCapabilities.end(), [](const Capability& c) {
      return c.refused.empty();
    }));

constexpr auto kAllowedNames = [] {
  std::array<std::string_view, kAllowedCount> out{};
  std::size_t i = 0;
  for (const Capability& capability : kCapabilities) {
    if (capability.refused.empty()) out[i++] = capability.name;
  }
  return out;
}();

std::string with_prefix(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  if (!out.starts_with("CAP_")) out.insert(0, "CAP_");
  return out;
}

using CapData = std::array<__user_cap_data_struct, 2>;  // _LINUX_CAPABILITY_VERSION_3: 64 bits

__user_cap_header_struct header() {
  return {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
}

std::uint32_t low(CapMask mask) {
  return static_cast<std::uint32_t>(mask & 0xffffffffU);
}

std::uint32_t high(CapMask mask) {
  return static_cast<std::uint32_t>(mask >> 32U);
}

}  // namespace

Result<int> parse_capability(std::string_view name) {
  const std::string full = with_prefix(name);
  for (const Capability& capability : kCapabilities) {
    if (capability.name != full) continue;
    if (capability.refused.empty()) return capability.number;
    return Error(Errc::kUsage, text::cat("capability ", full, " is never given to a sandbox"))
        .with_hint(std::string(capability.refused));
  }
  Error error(Errc::kUsage, text::cat("unknown capability \"", text::escape(name), "\""));
  std::vector<std::string_view> names(kAllowedNames.begin(), kAllowedNames.end());
  if (const auto near = text::closest(full, std::span<const std::string_view>(names))) {
    return std::move(error).with_hint(text::cat("did you mean ", *near, "?"));
  }
  return error;
}

Result<CapMask> parse_capabilities(std::span<const std::string> names) {
  CapMask mask = 0;
  for (const std::string& name : names) {
    SBX_ASSIGN(const int number, parse_capability(name));
    mask |= CapMask{1} << static_cast<unsigned>(number);
  }
  return mask;
}

std::string_view capability_name(int number) {
  for (const Capability& capability : kCapabilities) {
    if (capability.number == number) return capability.name;
  }
  return {};
}

std::span<const std::string_view> allowed_capabilities() {
  return kAllowedNames;
}

CapMask image_root_capabilities() {
  constexpr std::array kNumbers{CAP_CHOWN,
                                CAP_DAC_OVERRIDE,
                                CAP_FOWNER,
                                CAP_FSETID,
                                CAP_KILL,
                                CAP_NET_BIND_SERVICE,
                                CAP_SETFCAP,
                                CAP_SETGID,
                                CAP_SETPCAP,
                                CAP_SETUID,
                                CAP_SYS_CHROOT};
  CapMask mask = 0;
  for (const int number : kNumbers) {
    mask |= CapMask{1} << static_cast<unsigned>(number);
  }
  return mask;
}

// The raw system calls below change this thread alone: glibc's wrappers signal all threads.

int become_user_in_child(uid_t uid,
                         gid_t gid,
                         bool has_groups,
                         std::span<const gid_t> groups) noexcept {
  if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return errno;
  if (has_groups && ::syscall(SYS_setgroups, groups.size(), groups.data()) != 0) return errno;
  if (::syscall(SYS_setresgid, gid, gid, gid) != 0) return errno;
  if (::syscall(SYS_setresuid, uid, uid, uid) != 0) return errno;
  return 0;
}

int drop_all_caps_in_child(CapMask keep) noexcept {
  __user_cap_header_struct who = header();
  CapData data{};
  if (::syscall(SYS_capget, &who, data.data()) != 0) return errno;
  // A change of uid has emptied the effective set; dropping from the bounding set needs SETPCAP.
  for (__user_cap_data_struct& half : data) {
    half.effective = half.permitted;
  }
  who = header();
  if (::syscall(SYS_capset, &who, data.data()) != 0) return errno;
  // A kernel newer than these headers may have more of them: EINVAL ends the list.
  for (int cap = 0; cap < 64; ++cap) {
    const bool is_kept = ((keep >> static_cast<unsigned>(cap)) & 1U) != 0;
    if (is_kept || ::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0) continue;
    const int error = errno;
    if (error == EINVAL) break;
    if (::prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1) return error;
  }
  const std::array<std::uint32_t, 2> halves{low(keep), high(keep)};
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = {.effective = halves[i], .permitted = halves[i], .inheritable = halves[i]};
  }
  who = header();
  if (::syscall(SYS_capset, &who, data.data()) != 0) return errno;
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return errno;
  for (int cap = 0; cap < 64; ++cap) {
    if (((keep >> static_cast<unsigned>(cap)) & 1U) == 0) continue;
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) != 0) return errno;
  }
  return 0;
}

Result<CapMask> swap_effective_caps(CapMask wanted) {
  __user_cap_header_struct who = header();
  CapData data{};
  if (::syscall(SYS_capget, &who, data.data()) != 0) return sys_error("capget");
  const CapMask old = data[0].effective | (CapMask{data[1].effective} << 32U);
  const std::array<std::uint32_t, 2> halves{low(wanted), high(wanted)};
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i].effective = data[i].permitted & halves[i];
  }
  who = header();
  if (::syscall(SYS_capset, &who, data.data()) != 0) return sys_error("capset");
  return old;
}

}  // namespace sbx::confine
