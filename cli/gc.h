// Gc: what `sbx gc` and `sbx image gc` have in common, which is all of it.
#pragma once

#include "cli/verb.h"

namespace sbx::cli {

/// Removes, or with --dry-run only tells, what killed commands left and what nobody uses; prints it
/// as a text or, with --json, an object. The exit status.
int collect_garbage(const Invocation& given);

}  // namespace sbx::cli
