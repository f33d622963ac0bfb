// Verbs session wait and session kill: programs that run in a session.
#include <array>
#include <csignal>
#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/session/report.h"
#include "core/supervise/outcome.h"

namespace sbx::cli {
namespace {

constexpr Words kProgram{.min = 2, .max = 2, .name = "NAME EXEC"};

Result<std::uint32_t> parse_exec(const std::string& text) {
  const auto number = parse_count(text);
  if (!number.ok() || number.value() == 0 || number.value() > UINT32_MAX) {
    return Error(Errc::kUsage, text::cat("\"", text::escape(text), "\" is no program's number"))
        .with_hint("sbx session ps NAME lists them");
  }
  return static_cast<std::uint32_t>(number.value());
}

constexpr std::array<std::string_view, 1> kWaitUsage = {"sbx session wait NAME EXEC [--json]"};
constexpr std::string_view kWaitDetails =
    "Waits until that program has ended and exits with its exit status; at once when it has ended "
    "already, also when the session is stopped.";
constexpr std::array kWaitFlags = {kJsonFlag};
constexpr std::array kWaitExamples = {
    Example{"sbx session wait web 3", "the program that exec -d called 3"},
};

/// Of a session that nobody supervises: history tells.
Result<session::ExecRecord> ended_before(const session::Store& store,
                                         const std::string& name,
                                         std::uint32_t exec) {
  SBX_ASSIGN(const UniqueFd dir, store.open_dir(name));
  SBX_ASSIGN(const UniqueFd execs, session::open_execs(dir.get()));
  auto record = session::read_exec_record(execs.get(), exec);
  if (!record.ok()) {
    return Error(Errc::kNotFound, text::cat("no program ", exec, " in session ", name))
        .with_hint(text::cat("sbx session ps ", name));
  }
  if (record.value().state == session::ExecState::kRunning) {
    record.value().state = session::ExecState::kLost;
    record.value().exit_status = kExitSandbox;
  }
  return record;
}

Result<session::ExecRecord> wait_for(const session::Store& store,
                                     const std::string& name,
                                     std::uint32_t exec) {
  SBX_ASSIGN(const session::Listing now, store.look(name));
  if (!now.is_alive()) return ended_before(store, name, exec);
  SBX_ASSIGN(Connected connected, connect_alive(store, name));
  session::Fields fields("wait");
  fields.set("exec", std::int64_t{exec});
  auto answer = connected.client.call(std::move(fields), {}, Millis{-1});
  if (answer.ok()) return session::parse_exec_record(answer.value().fields.text("record"));
  if (answer.error().code() == Errc::kProtocol) return ended_before(store, name, exec);
  return std::move(answer).error();
}

int wait(const Invocation& given) {
  const std::string& name = given.words()[0];
  Result<std::uint32_t> exec = parse_exec(given.words()[1]);
  if (!exec.ok()) return failed(exec.error());
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  Result<session::ExecRecord> record = wait_for(store.value(), name, exec.value());
  if (!record.ok()) return failed(record.error());
  if (given.has("json")) {
    if (Status done = print(session::exec_json(name, record.value()) + "\n"); !done.ok()) {
      return printed(done);
    }
  } else if (!record.value().error.empty()) {
    print_error(Error(Errc::kSystem, record.value().error));
  }
  return record.value().exit_status;
}

constexpr std::array<std::string_view, 1> kKillUsage = {
    "sbx session kill NAME [EXEC] [-s SIGNAL] [--json]"};
constexpr std::string_view kKillDetails =
    "Sends a signal (SIGTERM unless -s says otherwise) to one program with what it started, or, "
    "without EXEC, to every process of the session. A paused session stays paused: SIGKILL acts at "
    "once, other signals when it goes on.";
constexpr std::array kKillFlags = {
    Flag{'s', "signal", "SIGNAL", "TERM, KILL, HUP, INT, USR1 ... or a number"},
    kJsonFlag,
};
constexpr std::array kKillExamples = {
    Example{"sbx session kill web 3", "ask program 3 to end"},
    Example{"sbx session kill web -s KILL", "everything that runs in it"},
};

Result<int> parse_signal(std::string text) {
  const auto number = parse_count(text);
  if (number.ok() && number.value() >= 1 && number.value() <= static_cast<unsigned>(SIGRTMAX)) {
    return static_cast<int>(number.value());
  }
  if (text.starts_with("SIG")) text.erase(0, 3);
  for (int signo = 1; signo < NSIG && !text.empty(); ++signo) {
    if (supervise::signal_name(signo) == text) return signo;
  }
  return Error(Errc::kUsage, text::cat("-s/--signal: \"", text::escape(text), "\" is no signal"))
      .with_hint("for example TERM, KILL, HUP, INT, USR1, or a number");
}

Status kill_in(const Invocation& given) {
  session::Fields fields("signal");
  int signo = SIGTERM;
  if (const std::string* text = given.last("signal")) {
    SBX_ASSIGN(signo, parse_signal(*text));
  }
  fields.set("signo", std::int64_t{signo});
  if (given.words().size() > 1) {
    SBX_ASSIGN(const std::uint32_t exec, parse_exec(given.words()[1]));
    fields.set("exec", std::int64_t{exec});
  }
  SBX_ASSIGN(const session::Store store, open_sessions());
  SBX_ASSIGN(Connected connected, connect_alive(store, given.words()[0]));
  const std::int64_t exec = fields.number("exec");
  SBX_TRY(connected.client.call(std::move(fields)));
  if (!given.has("json")) return {};
  return print(text::cat(R"({"schema":1,"session":)",
                         json_string(given.words()[0]),
                         R"(,"exec":)",
                         exec == 0 ? "null" : std::to_string(exec),
                         R"(,"signal":)",
                         json_string(supervise::signal_name(signo)),
                         "}\n"));
}

int kill(const Invocation& given) {
  const Status done = kill_in(given);
  return done.ok() ? 0 : failed(done.error());
}

}  // namespace

constexpr Verb kSessionWaitVerb = {
    .name = "session wait",
    .summary = "Wait for a program of a session",
    .usage = kWaitUsage,
    .details = kWaitDetails,
    .flags = kWaitFlags,
    .words = kProgram,
    .examples = kWaitExamples,
    .run = wait,
};

constexpr Verb kSessionKillVerb = {
    .name = "session kill",
    .summary = "Send a signal to programs of a session",
    .usage = kKillUsage,
    .details = kKillDetails,
    .flags = kKillFlags,
    .words = {.min = 1, .max = 2, .name = "NAME"},
    .examples = kKillExamples,
    .run = kill,
};

}  // namespace sbx::cli
