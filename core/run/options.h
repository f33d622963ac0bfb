// Options: everything one `sbx run` was asked for, as the command line understood it.
//
// Values that a profile can hold too (limits, env, mounts, ...) are overrides, so that their
// precedence is decided in one place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.h"
#include "core/profile/profile.h"
#include "core/run/record.h"

namespace sbx::run {

/// What is to be run.
enum class ProgramKind : std::uint8_t {
  kNone,     ///< nothing was named: what the image says; without one a usage error
  kFile,     ///< FILE ARG...: a script of the host
  kStdin,    ///< - ARG...: a script on our stdin
  kCode,     ///< -c CODE ARG...
  kCommand,  ///< -- CMD ARG...: a program of the inside
};

struct Program {
  ProgramKind kind = ProgramKind::kNone;
  std::string text;               ///< kFile: its path; kCode: the code; else empty
  std::vector<std::string> args;  ///< kCommand: the whole argv; else what follows FILE, - or CODE
};

/// When all has to be over.
struct Deadline {
  std::int64_t at_ns = 0;  ///< CLOCK_MONOTONIC
  Millis given;            ///< as the user said it
};

/// For whoever keeps account of a run; each may be empty. A failure ends the run as one of sbx.
struct RunHooks {
  /// PID 1 of the sandbox is there (its pidfd, not owned), the program not yet.
  std::function<Status(int init_pidfd)> on_sandbox;
  /// The artifacts are about to appear at this place.
  std::function<Status(const OutPlace&)> on_place;
};

/// Where packages of Python are shown inside; every sandbox has the directory.
inline constexpr std::string_view kPipPackagesPath = "/run/sbx/packages/pip";

/// What -P and a profile's `packages` added to a sandbox.
struct AddedPackages {
  std::vector<std::string> pip;  ///< exactly: "numpy==1.26.4"
  std::vector<std::string> npm;  ///< exactly: "left-pad@1.3.0"
  std::vector<UniqueFd> held;    ///< nobody removes their files while these are open
};

/// Looks only: what is not there yet is neither made nor an error.
enum class PackagesMode : bool { kMake, kLookOnly };
/// Finds, or makes, what the profile's `packages` and `wanted` (-P SPEC, as given) ask for, and
/// puts it into the profile's mounts and list_items. Blocks, long when it has to be made.
using PackagesHook = std::function<Result<AddedPackages>(
    profile::Profile& profile, const std::vector<std::string>& wanted, PackagesMode mode)>;

struct Options {
  Program program;
  std::optional<std::string> profile;        ///< -p; absent: chosen from the program
  std::optional<profile::Profile> ready;     ///< one that is at hand; then none is loaded
  std::vector<profile::Override> overrides;  ///< --memory, --set, -e, -v, -w, ... in order
  bool allow_outside = false;                ///< see profile::LoadRequest
  /// In front of a command that runs in an image, instead of the image's own; empty: nothing.
  std::optional<std::vector<std::string>> entrypoint;
  std::vector<std::string> inputs;        ///< -i HOST[=INSIDE], as given
  std::optional<std::string> out;         ///< -o DIR or FILE.tar.gz|.zip|..., dates filled in
  std::string out_pattern;                ///< as given, when it holds a date pattern; else empty
  std::vector<std::string> require;       ///< --require GLOB, added to the profile's
  std::vector<std::string> packages;      ///< -P SPEC
  PackagesHook add_packages;              ///< empty: packages are refused
  bool tty = false;                       ///< -t
  bool want_stdin = false;                ///< --stdin
  bool capture = false;                   ///< --json: stdout and stderr go into the report
  std::optional<int> status_fd;           ///< --status-fd N
  std::string state_dir;                  ///< absolute; exists
  std::vector<std::string> private_dirs;  ///< see profile::LoadRequest
  profile::EnvLookup env = profile::process_env;
  std::shared_ptr<backend::HeadStart> head;  ///< from begin(); may be null
  /// Told each sentence that the user should read while the job runs; may be empty.
  std::function<void(std::string_view)> warn;
  /// Whether that includes what this host cannot do, which is the same in every run.
  bool warn_of_host = true;
  std::string id;                    ///< of the run, for its report; empty: the sandbox's
  std::optional<Deadline> deadline;  ///< of everything, collecting included
  RunHooks hooks;
};

}  // namespace sbx::run
