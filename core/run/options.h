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

namespace sbx::run {

/// What is to be run.
enum class ProgramKind : std::uint8_t {
  kNone,     ///< nothing was named: a usage error
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

struct Options {
  Program program;
  std::optional<std::string> profile;        ///< -p; absent: chosen from the program
  std::vector<profile::Override> overrides;  ///< --memory, --set, -e, -v, -w, ... in order
  bool allow_outside = false;                ///< see profile::LoadRequest
  std::vector<std::string> inputs;           ///< -i HOST[=INSIDE], as given
  std::optional<std::string> out;            ///< -o DIR or FILE.tar.gz|.zip|...
  std::vector<std::string> require;          ///< --require GLOB, added to the profile's
  bool tty = false;                          ///< -t
  bool want_stdin = false;                   ///< --stdin
  bool capture = false;                      ///< --json: stdout and stderr go into the report
  std::optional<int> status_fd;              ///< --status-fd N
  std::string state_dir;                     ///< absolute; exists
  std::vector<std::string> private_dirs;     ///< see profile::LoadRequest
  profile::EnvLookup env = profile::process_env;
  std::shared_ptr<backend::HeadStart> head;  ///< from begin(); may be null
  /// Told each sentence that the user should read while the job runs; may be empty.
  std::function<void(std::string_view)> warn;
};

}  // namespace sbx::run
