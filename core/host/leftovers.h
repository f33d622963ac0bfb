// Leftovers: what a crashed or killed sbx left on this host, and its removal.
#pragma once

namespace sbx::host {

/// Ends and removes control groups whose sbx is gone. A few directory reads when there are none;
/// waits for no one, and what cannot be removed is left for the next command.
void reap_leftovers();

}  // namespace sbx::host
