// Facts: see facts.h.
#include "core/host/facts.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <charconv>

#include "core/base/text.h"
#include "core/confine/idmap.h"
#include "core/confine/landlock.h"

namespace sbx::host {

KernelVersion parse_kernel_version(std::string_view release) {
  KernelVersion out;
  const char* const end = release.data() + release.size();
  const auto [dot, error] = std::from_chars(release.data(), end, out.major);
  if (error != std::errc() || dot == end || *dot != '.') return {};
  if (std::from_chars(dot + 1, end, out.minor).ec != std::errc()) return {};
  return out;
}

bool Facts::is_root() const {
  return ::geteuid() == 0;
}

bool Facts::may_map_id_ranges() {
  if (!may_map_) may_map_ = confine::may_map_id_ranges();
  return *may_map_;
}

KernelVersion Facts::kernel() {
  if (!kernel_) {
    utsname name{};
    ::uname(&name);  // fails only for a bad pointer
    kernel_ = parse_kernel_version(static_cast<const char*>(name.release));
  }
  return *kernel_;
}

int Facts::landlock_abi() {
  if (!landlock_) landlock_ = confine::landlock_abi();
  return *landlock_;
}

const Result<confine::CgroupLayout>& Facts::cgroups() {
  if (!cgroups_) cgroups_ = confine::probe_cgroups();
  return *cgroups_;
}

const Ability& Facts::userns() {
  if (!userns_) userns_ = probe_userns();
  return *userns_;
}

std::string Facts::to_text() {
  const KernelVersion version = kernel();
  const Ability& user = userns();
  const auto& groups = cgroups();
  return text::cat(
      "kernel: ",
      version.major,
      ".",
      version.minor,
      "\n",
      "root: ",
      is_root() ? "yes" : "no",
      "\n",
      "id ranges: ",
      may_map_id_ranges() ? "yes" : "no",
      "\n",
      "landlock: ",
      landlock_abi(),
      "\n",
      "user namespace: ",
      user.ok ? std::string("yes") : text::cat("no: ", user.cause, " (", user.fix, ")"),
      "\n",
      groups.ok() ? groups.value().to_text()
                  : text::cat("cgroups: ", groups.error().to_string(), "\n"));
}

}  // namespace sbx::host
