// Registry: the table of backends and the choice between them.
#include <array>

#include "core/backend/backend.h"
#include "core/backend/jail/jail_backend.h"

namespace sbx::backend {

namespace {

constexpr std::array<Backend, 1> kBackends{
    {{"jail", jail::begin_jail, jail::plan_jail, jail::jail_base_layer}}};

}  // namespace

Result<Choice> choose(profile::Isolation isolation) {
  switch (isolation) {
    case profile::Isolation::kJail:
      return Choice{kBackends.data(), "asked for, or the default"};
    case profile::Isolation::kAuto:
      return Choice{kBackends.data(), "auto: this build has no vm backend"};
    case profile::Isolation::kVm:
      return Error(Errc::kUnsupported, "isolation vm: this build has no vm backend")
          .with_hint("use --isolation jail");
  }
  return Error(Errc::kInternal, "unknown isolation");
}

}  // namespace sbx::backend
