// Program: what was asked to run, as a profile name, inputs and an argv of the inside.
#pragma once

#include <string>
#include <string_view>
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

/// PATH inside, unless a profile sets another; language.path puts its directory in front.
inline constexpr std::string_view kInsidePath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a compile step puts what it makes: a file or a directory, whatever the compiler makes
/// there. Not in /work, so it is no artifact.
inline constexpr std::string_view kCompiledProgram = "/tmp/sbx-program";

/// What is to be executed, one after the other.
struct Placed {
  std::vector<std::string> compile = {};  ///< empty: there is nothing to compile
  std::vector<std::string> argv = {};
  /// argv[0] is the profile's choice (not the user's or a #! line's).
  bool is_profile_command = false;
};

/// Adds the script to `inputs`; what to execute. kUsage when the profile has neither a compiler nor
/// an interpreter and the script has no #! line. Reads the script where its name inside depends on
/// its text (Java).
Result<Placed> place_program(const Program& program,
                             const Script& script,
                             const profile::Profile& profile,
                             Inputs& inputs);

/// What the environment of an image's programs begins with.
struct ImageEnvironment {
  std::vector<std::string> env;  ///< "NAME=value"
  std::string home;              ///< of its user
};

/// The complete environment of the inside: defaults, then the profile's env_pass, then its env.
/// With an image: defaults, a shipped profile's env, the image's, env_pass, what a person set.
std::vector<std::string> make_environment(const profile::Profile& profile,
                                          const profile::EnvLookup& host,
                                          bool has_terminal,
                                          const ImageEnvironment* image = nullptr);

}  // namespace sbx::run
