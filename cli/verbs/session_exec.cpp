// Verbs session exec and session shell: a program in a session.
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/run/run.h"
#include "core/session/report.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx session exec NAME [FLAG...] -- CMD [ARG...]"};
constexpr std::string_view kDetails =
    "Runs a program in the session and waits for it. Its exit status is the program's own, as for "
    "sbx run: 124 time limit, 126/127 not executable or not found, 128+N ended by signal N, 125 "
    "the session could not do it. Without -i its stdin is empty and ours is not touched.\n\n"
    "When this command is killed, the program is hung up (SIGHUP, after 2 s SIGKILL); processes "
    "that it left behind, and programs started with -d, go on. A stopped session is started, a "
    "paused one resumed, unless --no-start is given.";

constexpr std::array kFlags = {
    Flag{'i', "stdin", "", "Hand our stdin to the program"},
    Flag{'t', "tty", "", "Give the program a terminal, and our input to it"},
    Flag{'d', "detach", "", "Do not wait: print the number of the program (see ps, wait, logs)"},
    Flag{'e',
         "env",
         "NAME[=VALUE]",
         "Set a variable; without =VALUE pass on ours; repeatable",
         {},
         Repeat::kAll},
    Flag{'w', "workdir", "DIR", "Start in this directory"},
    Flag{'u',
         "user",
         "USER",
         "root, sbx or, with an image, one of its users, or UID[:GID] of the inside (needs root on "
         "the "
         "host or an image)"},
    Flag{
        '\0', "timeout", "TIME", "End it after this time: 500ms, 30s, 5m; stands still in a pause"},
    kNoStartFlag,
    Flag{'\0', "json", "", "Print one JSON object with output, cause and exit code"},
};

constexpr std::array kExamples = {
    Example{"sbx session exec web -- make -j2", "a command"},
    Example{"sbx session exec web -d -- python3 -m http.server", "something that goes on"},
    Example{"tar c src | sbx session exec web -i -- tar x", "with our stdin"},
    Example{"sbx session exec web --json --timeout 30s -- pytest -q", "for programs"},
};

Result<std::vector<std::string>> variables_of(const Invocation& given) {
  std::vector<std::string> env;
  for (const std::string& text : given.all("env")) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || text.empty()) {
      return Error(Errc::kUsage,
                   text::cat("-e/--env: \"", text::escape(text), "\" is not NAME=VALUE or NAME"));
    }
    if (equals != std::string::npos) {
      env.push_back(text);
    } else if (auto value = profile::process_env(text)) {
      env.push_back(text::cat(text, "=", *value));
    }
  }
  return env;
}

Result<session::ExecOptions> options_of(const Invocation& given) {
  session::ExecOptions options;
  options.argv = given.rest();
  SBX_ASSIGN(options.env, variables_of(given));
  if (const std::string* dir = given.last("workdir")) options.cwd = *dir;
  if (const std::string* time = given.last("timeout")) {
    Result<Millis> parsed = parse_duration(*time);
    if (!parsed.ok()) return std::move(parsed).error().prefixed("--timeout");
    options.timeout = parsed.value();
  }
  options.tty = given.has("tty");
  options.want_stdin = given.has("stdin");
  options.is_detached = given.has("detach");
  options.no_start = given.has("no-start");
  options.capture = given.has("json") && !options.is_detached;
  if (options.tty && (given.has("json") || options.is_detached)) {
    return Error(Errc::kUsage, "-t/--tty goes with neither --json nor -d/--detach");
  }
  if (options.is_detached && (options.want_stdin)) {
    return Error(Errc::kUsage,
                 "-i/--stdin does not go with -d/--detach: nobody would hand it over");
  }
  return options;
}

int show(const std::string& name, const session::ExecResult& result, const Invocation& given) {
  const session::ExecRecord& record = result.record;
  if (given.has("detach")) {
    return printed(print(given.has("json") ? session::exec_json(name, record) + "\n"
                                           : text::cat(record.id, "\n")));
  }
  if (!record.error.empty()) {
    print_error(Error(Errc::kSystem, record.error));
  } else if (record.cause == "timeout") {
    print_error(Error(Errc::kTimeout, "the time limit was hit"));
  }
  if (given.has("json")) {
    if (Status done = print(session::exec_json(name, result) + "\n"); !done.ok()) {
      return printed(done);
    }
  }
  return record.exit_status;
}

int refused(const Invocation& given, const Error& error) {
  if (given.has("json")) {
    (void)print(session::refused_json(given.words()[0], error) + "\n");
  }
  return failed(error);
}

int run_in(const Invocation& given, session::ExecOptions options) {
  run::settle_signals();
  const std::string& name = given.words()[0];
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return refused(given, store.error());
  if (const std::string* user = given.last("user")) {
    Result<backend::User> ids = user_of(store.value(), name, *user);
    if (!ids.ok()) return refused(given, ids.error());
    options.user = ids.value();
  }
  Result<Connected> connected = connect(store.value(), given, name);
  if (!connected.ok()) return refused(given, connected.error());
  Result<session::ExecResult> result = session::run_exec(connected.value().client, options);
  if (!result.ok()) return refused(given, result.error());
  return show(name, result.value(), given);
}

int exec(const Invocation& given) {
  if (given.rest().empty() || given.rest()[0].empty()) {
    return refused(given,
                   Error(Errc::kUsage, "no command behind --")
                       .with_hint("for example: sbx session exec NAME -- ls -l"));
  }
  Result<session::ExecOptions> options = options_of(given);
  if (!options.ok()) return refused(given, options.error());
  return run_in(given, std::move(options).value());
}

constexpr std::array<std::string_view, 1> kShellUsage = {"sbx session shell NAME [FLAG...]"};
constexpr std::string_view kShellDetails =
    "An interactive shell in the session, on a terminal of its own; without a terminal it reads "
    "commands from stdin. exit or Ctrl-D ends it.";
constexpr std::array kShellFlags = {
    Flag{'e',
         "env",
         "NAME[=VALUE]",
         "Set a variable; without =VALUE pass on ours; repeatable",
         {},
         Repeat::kAll},
    Flag{'w', "workdir", "DIR", "Start in this directory"},
    Flag{'u',
         "user",
         "USER",
         "root, sbx or, with an image, one of its users, or UID[:GID] of the inside (needs root on "
         "the "
         "host or an image)"},
    kNoStartFlag,
};
constexpr std::array kShellExamples = {
    Example{"sbx session shell web", "look around"},
};

int shell(const Invocation& given) {
  Result<session::ExecOptions> options = options_of(given);
  if (!options.ok()) return failed(options.error());
  session::ExecOptions& wanted = options.value();
  wanted.want_stdin = true;
  wanted.tty = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  wanted.argv = {
      "sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi"};
  return run_in(given, wanted);
}

}  // namespace

constexpr Verb kSessionExecVerb = {
    .name = "session exec",
    .summary = "Run a program in a session",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1, .name = "NAME", .rest = true},
    .examples = kExamples,
    .run = exec,
};

constexpr Verb kSessionShellVerb = {
    .name = "session shell",
    .summary = "Open a shell in a session",
    .usage = kShellUsage,
    .details = kShellDetails,
    .flags = kShellFlags,
    .words = kOneSession,
    .examples = kShellExamples,
    .run = shell,
};

}  // namespace sbx::cli
