// RunOptions: turns the flags and words of `sbx run` into what the job's engine understands. Starts
// nothing.
#include "cli/run_options.h"

#include <fcntl.h>

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "cli/argv.h"
#include "cli/directories.h"
#include "cli/output.h"
#include "cli/packages.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/run/pattern.h"

namespace sbx::cli {
namespace {

using profile::Override;

Error usage(std::string message, std::string hint = {}) {
  Error error(Errc::kUsage, std::move(message));
  return hint.empty() ? error : std::move(error).with_hint(std::move(hint));
}

/// Flags that set one key of the profile to their value as it stands.
using KeyFlag = run::KeyField;
constexpr std::array<KeyFlag, 13> kKeyFlags = {{
    {"image", "image"},
    {"isolation", "isolation"},
    {"accel", "vm.accel"},
    {"workdir", "workdir"},
    {"memory", "limits.memory"},
    {"pids", "limits.pids"},
    {"disk", "limits.disk"},
    {"inodes", "limits.inodes"},
    {"cpus", "limits.cpus"},
    {"timeout", "limits.timeout"},
    {"cpu-time", "limits.cpu_time"},
    {"output-limit", "limits.output"},
    {"open-files", "limits.open_files"},
}};

/// `-c CODE [-- ARG...]`
Result<run::Program> program_from_code(const Invocation& given, const std::string& code) {
  if (!given.words().empty()) {
    return usage(text::cat("-c/--code and FILE \"",
                           text::escape(given.words()[0]),
                           "\" are both given: one program is run"),
                 "arguments of the code stand behind --: sbx run -c CODE -- ARG...");
  }
  return run::Program{run::ProgramKind::kCode, code, given.rest()};
}

/// `FILE ARG...` or `- ARG...`. One `--` directly behind FILE is ours and vanishes, any other one
/// is the script's.
Result<run::Program> program_from_file(const Invocation& given) {
  run::Program program;
  program.args.assign(given.words().begin() + 1, given.words().end());
  if (given.has_rest()) {
    if (!program.args.empty()) program.args.emplace_back("--");
    program.args.insert(program.args.end(), given.rest().begin(), given.rest().end());
  }
  const std::string& file = given.words()[0];
  if (file.empty()) return usage("FILE is an empty name");
  program.kind = file == "-" ? run::ProgramKind::kStdin : run::ProgramKind::kFile;
  if (program.kind == run::ProgramKind::kFile) program.text = file;
  return program;
}

/// --set KEY=VALUE
Result<Override> set_key(const std::string& text) {
  std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return usage(text::cat("--set: \"", text::escape(text), "\" is not KEY=VALUE"),
                 "for example: --set limits.memory=1G; keys: sbx profile explain");
  }
  std::string key = text.substr(0, equals);
  std::string where = "--set " + key;
  return Override{std::move(key), text.substr(equals + 1), std::move(where)};
}

/// -e NAME=VALUE, or -e NAME for the value that NAME has here.
Result<Override> set_variable(const std::string& text) {
  std::size_t equals = text.find('=');
  std::string name = text.substr(0, equals);
  if (name.empty()) {
    return usage(text::cat("-e/--env: \"", text::escape(text), "\" is not NAME=VALUE or NAME"));
  }
  std::string where = "--env " + name;
  if (equals == std::string::npos) {
    return Override{"env_pass", std::move(name), std::move(where), Override::Mode::kAdd};
  }
  return Override{"env." + name, text.substr(equals + 1), std::move(where)};
}

Status check_combinations(const Invocation& given, const run::Program& program) {
  if (given.has("json") && given.has("dry-run")) {
    return usage("--json and --dry-run do not go together: a plan has no result");
  }
  if (given.has("json") && given.has("tty")) {
    return usage("--json and -t/--tty do not go together: a terminal cannot be captured",
                 "leave out -t, or take --status-fd instead of --json");
  }
  if (program.kind == run::ProgramKind::kStdin && (given.has("stdin") || given.has("tty"))) {
    return usage(text::cat(given.has("stdin") ? "--stdin" : "-t/--tty",
                           " has nothing to hand over: - reads the code from stdin"),
                 "put the code into a file, or give it with -c");
  }
  return {};
}

}  // namespace

Result<run::Program> program_of(const Invocation& given) {
  if (const std::string* code = given.last("code")) return program_from_code(given, *code);
  if (!given.words().empty()) return program_from_file(given);
  // An image, perhaps the profile's, may say itself what it runs.
  const bool may_say_it = given.has("image") || given.has("profile") || given.has("set") ||
                          profile::process_env("SBX_IMAGE").has_value();
  if (given.rest().empty() && !given.has_rest() && may_say_it) return run::Program{};
  if (given.rest().empty()) {
    return usage(given.has_rest() ? "no command behind --"
                                  : "nothing to run: no FILE, no -c CODE, no -- CMD",
                 "for example: sbx run -c 'print(6*7)'; see sbx run --help");
  }
  if (given.rest()[0].empty()) return usage("the command behind -- is an empty name");
  return run::Program{run::ProgramKind::kCommand, {}, given.rest()};
}

Result<std::vector<Override>> overrides_of(const Invocation& given) {
  std::vector<Override> out;
  for (const std::string& text : given.all("set")) {
    SBX_ASSIGN(Override set, set_key(text));
    out.push_back(std::move(set));
  }
  for (const KeyFlag& row : kKeyFlags) {
    const std::string* value = given.last(row.name);
    if (value == nullptr) continue;
    out.push_back({std::string(row.key), *value, spelled(*given.verb().find(row.name))});
  }
  for (const std::string& text : given.all("env")) {
    SBX_ASSIGN(Override variable, set_variable(text));
    out.push_back(std::move(variable));
  }
  for (const std::string& text : given.all("mount")) {
    out.push_back({"mounts", text, "-v/--mount", Override::Mode::kAdd});
  }
  return out;
}

std::span<const run::KeyField> key_fields() {
  return kKeyFlags;
}

Result<int> status_fd_of(const std::string& value) {
  Result<std::uint64_t> number = parse_count(value);
  if (!number.ok()) return std::move(number).error().prefixed("--status-fd");
  if (number.value() > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    return usage(text::cat("--status-fd: ", value, " is no descriptor"));
  }
  int fd = static_cast<int>(number.value());
  int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
    return usage(
        text::cat(
            "--status-fd: descriptor ", fd, flags < 0 ? " is not open" : " cannot be written to"),
        "open it in the shell: sbx run --status-fd 3 ... 3>status.json");
  }
  return fd;
}

Status set_log_level(const Invocation& given) {
  std::optional<std::string> word;
  if (const std::string* flag = given.last("log-level")) {
    word = *flag;
  } else {
    word = profile::process_env("SBX_LOG_LEVEL");
  }
  if (!word) {
    if (given.has("quiet")) log::set_level(Level::kError);
    return {};
  }
  std::optional<Level> level = log::parse_level(*word);
  if (!level) {
    return usage(text::cat("SBX_LOG_LEVEL: \"", text::escape(*word), "\" is no level"),
                 "levels: trace, debug, info, warn, error, off");
  }
  log::set_level(*level);
  return {};
}

Result<run::Options> common_options_of(const Invocation& given) {
  SBX_TRY(set_log_level(given));
  run::Options options;
  if (const std::string* name = given.last("profile")) options.profile = *name;
  SBX_ASSIGN(options.overrides, overrides_of(given));
  options.allow_outside = given.has("allow-outside");
  if (const std::string* word = given.last("entrypoint")) {
    options.entrypoint.emplace();
    if (!word->empty()) options.entrypoint->push_back(*word);
  }
  options.inputs = given.all("in");
  options.require = given.all("require");
  SBX_ASSIGN(Directories dirs, directories(State::kIfPossible));
  options.state_dir = std::move(dirs.state);
  options.private_dirs = std::move(dirs.all);
  options.packages = given.all("package");
  profile::LoadRequest load;
  load.state_dir = options.state_dir;
  load.private_dirs = options.private_dirs;
  // A batch has lines of its own on the terminal.
  const bool is_one = given.verb().name == "run" && !given.has("quiet");
  options.add_packages = packages_hook(load, is_one ? Talk::kYes : Talk::kNo);
  if (!given.has("quiet")) options.warn = print_warning;
  return options;
}

Result<run::Options> options_of(const Invocation& given) {
  SBX_ASSIGN(run::Program program, program_of(given));
  SBX_TRY(check_combinations(given, program));
  SBX_ASSIGN(run::Options options, common_options_of(given));
  options.program = std::move(program);
  if (const std::string* target = given.last("out")) {
    SBX_ASSIGN(options.out, run::expand_date_pattern(*target, realtime_ns()));
    if (run::is_date_pattern(*target)) options.out_pattern = *target;
  }
  options.tty = given.has("tty");
  options.want_stdin = given.has("stdin");
  options.capture = given.has("json");
  if (const std::string* fd = given.last("status-fd")) {
    SBX_ASSIGN(options.status_fd, status_fd_of(*fd));
  }
  return options;
}

}  // namespace sbx::cli
