// Caps: capabilities by name, and giving up those that are not wanted. No libcap: six system calls.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace sbx::confine {

/// Bit n is capability n of linux/capability.h.
using CapMask = std::uint64_t;

/// "CAP_NET_BIND_SERVICE" or "net_bind_service" as its number. kUsage with a suggestion when there
/// is none of that name; kUsage with the reason when a sandbox must never have it.
Result<int> parse_capability(std::string_view name);
/// The same for a list.
Result<CapMask> parse_capabilities(std::span<const std::string> names);
/// "CAP_NET_BIND_SERVICE"; empty for an unknown number.
std::string_view capability_name(int number);
/// Every name a profile may use, sorted, with "CAP_".
std::span<const std::string_view> allowed_capabilities();

/// What programs of root get in a sandbox made of an image, as container engines have it: enough to
/// install packages, nothing that reaches beyond its own files, processes and ids.
CapMask image_root_capabilities();

/// Becomes uid/gid of the current user namespace with exactly the supplementary `groups` (left
/// alone with `has_groups` false: single-id maps deny setgroups), keeping the permitted
/// capabilities for drop_all_caps_in_child(). 0 or an errno.
int become_user_in_child(uid_t uid,
                         gid_t gid,
                         bool has_groups,
                         std::span<const gid_t> groups = {}) noexcept;

/// Leaves only `keep` in the bounding, permitted, effective, inheritable and ambient sets, so that
/// an exec'd program has exactly `keep`. Call it after become_user_in_child(). 0 or an errno.
int drop_all_caps_in_child(CapMask keep) noexcept;

/// Makes `wanted`, as far as it is permitted, the effective set of this process; the old set.
Result<CapMask> swap_effective_caps(CapMask wanted);

}  // namespace sbx::confine
