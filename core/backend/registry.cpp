// Registry: the table of backends and the choice between them.
#include <algorithm>
#include <array>

#include "core/backend/backend.h"
#include "core/backend/jail/jail_backend.h"
#include "core/backend/vm/vm_backend.h"
#include "core/base/text.h"

namespace sbx::backend {

namespace {

constexpr std::array kBackends{
    Backend{"jail", jail::begin_jail, jail::plan_jail, jail::jail_base_layer},
    Backend{"vm", vm::begin_vm, vm::plan_vm, vm::vm_base_layer, true}};
constexpr const Backend* kJail = kBackends.data();
constexpr const Backend* kVm = &kBackends[1];

std::string_view accelerator(const profile::Profile& profile) {
  return profile.vm.accel == "tcg" ? "software emulation" : "KVM";
}

}  // namespace

const Backend& jail_backend() {
  return *kJail;
}

const Backend* find_backend(std::string_view name) {
  const auto* const row =
      std::ranges::find_if(kBackends, [&](const Backend& each) { return each.name == name; });
  return row == kBackends.end() ? nullptr : row;
}

Result<Choice> choose(const profile::Profile& profile, const std::string& state_dir) {
  if (profile.isolation == profile::Isolation::kJail) {
    return Choice{kJail, "asked for, or the default"};
  }
  Status usable = vm::check_usable(profile, state_dir);
  const bool is_auto = profile.isolation == profile::Isolation::kAuto;
  if (usable.ok()) {
    const std::string_view how = accelerator(profile);
    return Choice{kVm,
                  is_auto ? text::cat("auto: ", how, ", QEMU and a guest kernel are here")
                          : text::cat("asked for, with ", how)};
  }
  if (is_auto) return Choice{kJail, text::cat("auto: ", usable.error().message())};
  return std::move(usable).error().prefixed("isolation vm");
}

}  // namespace sbx::backend
