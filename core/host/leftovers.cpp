// Leftovers: see leftovers.h.
#include "core/host/leftovers.h"

#include "core/confine/cgroup.h"
#include "core/confine/cgroup_layout.h"

namespace sbx::host {

void reap_leftovers() {
  if (const auto layout = confine::probe_cgroups(); layout.ok()) {
    (void)confine::reap_stale_cgroups(layout.value());
  }
}

}  // namespace sbx::host
