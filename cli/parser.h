// Parser: reads one verb's command line into an Invocation. The library behind it stays behind it.
#pragma once

#include <string>
#include <vector>

#include "cli/argv.h"
#include "cli/verb.h"
#include "core/base/result.h"

namespace sbx::cli {

/// Reads `argv` with the flags of `verb`. kUsage errors name the flag and, where one is near, the
/// one that was meant. A given -h/--help wins over everything that is missing or too much.
Result<Invocation> parse(const Verb& verb, Argv argv);

/// The flag that every verb has.
extern const Flag kHelpFlag;

}  // namespace sbx::cli
