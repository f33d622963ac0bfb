// Show: values of a profile as text, in the form in which a profile file would have them.
#pragma once

#include <cstdint>
#include <string>

#include "core/profile/keys.h"

namespace sbx::profile {

/// "true", "512M", "[a, b]", "unlimited"; mounts as "SRC:DST:ro", variables by name. Not escaped.
std::string show_value(const Key& key, const Profile& profile);
std::string show_mount(const Mount& mount);
/// "[nginx, -g], restart always, with PORT": variables by name.
std::string show_service(const Service& service);
/// "1.5" for 1500.
std::string show_cpus(std::uint32_t millis);

/// Calls `visitor` with the value of `key` in `profile`.
template <typename Visitor>
auto visit_value(const Key& key, const Profile& profile, const Visitor& visitor) {
  // The accessors of the table hand out a reference to change; nothing is changed here.
  auto& accessible =
      const_cast<Profile&>(profile);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return std::visit(
      [&](auto get) {
        if constexpr (std::is_same_v<decltype(get), std::monostate>) {
          return visitor(get);
        } else {
          return visitor(std::as_const(get(accessible)));
        }
      },
      key.field);
}

}  // namespace sbx::profile
