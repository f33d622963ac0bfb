// Program: what was asked to run, as a profile name, inputs and an argv of the inside.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/profile/profile.h"
#include "core/run/inputs.h"
#include "core/run/options.h"

namespace sbx::run {

/// Text of a script on stdin may be this long; it has to fit into memory.
inline constexpr Bytes kLongestScript{std::uint64_t{64} << 20U};

/// A program whose text is at hand.
struct Script {
  std::string code = {};        ///< kCode and kStdin: the text
  std::string first_line = {};  ///< "#!..." of code or file, without its end of line; else empty
  std::string fallback = {};    ///< profile to take when neither flag nor $SBX_PROFILE names one
};

/// Reads what has to be read (for `-` all of our stdin; blocks) and finds the profile that it asks
/// for. kUsage when nothing says what a FILE is to be run with and it is not executable.
Result<Script> read_script(const Options& options, const profile::LoadRequest& request);

/// Adds the script to `inputs`; the argv to run. kUsage when the profile has no interpreter and the
/// script has no #! line.
Result<std::vector<std::string>> place_program(const Program& program,
                                               const Script& script,
                                               const profile::Profile& profile,
                                               Inputs& inputs);

/// The complete environment of the inside: defaults, then the profile's env_pass, then its env.
std::vector<std::string> make_environment(const profile::Profile& profile,
                                          const profile::EnvLookup& host,
                                          bool has_terminal);

}  // namespace sbx::run
