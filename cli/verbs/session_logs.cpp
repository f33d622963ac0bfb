// Verb session logs: what an exec of a session has written.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/clock.h"
#include "core/base/exit_code.h"
#include "core/base/text.h"
#include "core/session/exec_record.h"
#include "core/session/log_follow.h"
#include "core/session/log_json.h"
#include "core/session/log_time.h"
#include "core/session/store.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 2> kUsage = {
    "sbx session logs NAME [EXEC] [-f] [--since TIME] [--stream NAME]",
    "sbx session logs NAME --names"};
constexpr std::string_view kDetails =
    "Prints what is kept of the output of EXEC (a number, or the name of a service; the one "
    "started last when none is named): its stdout to stdout, its stderr to stderr, byte for byte. "
    "Works "
    "while the session runs, is paused and is stopped.";
constexpr std::array<std::string_view, 2> kStreams = {"out", "err"};
constexpr std::array<Flag, 5> kFlags = {{
    {'f', "follow", {}, "Go on until the exec ends or the session stops"},
    {.name = "since",
     .arg = "TIME",
     .help = "Only from then on: 10m (ago), 2026-01-31, 2026-01-31T09:30:00Z"},
    {.name = "stream",
     .arg = "NAME",
     .help = "Only out or err",
     .complete = Complete::kChoice,
     .choices = kStreams},
    {.name = "names", .help = "Only the numbers of execs and the names of services, one a line"},
    {.name = "json", .help = "Print one JSON object a line, with time and stream"},
}};
constexpr std::array<Example, 3> kExamples = {{
    {"sbx session logs dev", "what the last command printed"},
    {"sbx session logs dev 3 -f", "watch a command that runs in the background"},
    {"sbx session logs dev 3 --since 10m --json", "for programs, with times"},
}};

/// Where records go: standard output and standard error, in the order of writing, in large pieces.
class Printer {
 public:
  Printer(std::uint32_t exec, bool is_json, std::optional<session::Stream> only)
      : json_(exec), exec_(exec), is_json_(is_json), only_(only) {}

  Status take(const session::LogRecord& record) {
    dropped_ += record.dropped.sum();
    const bool is_out = record.kind == session::LogKind::kOut;
    const bool is_err = record.kind == session::LogKind::kErr;
    if (only_ && (is_out || is_err)) {
      if (is_out != (*only_ == session::Stream::kOut)) return {};
    }
    if (is_json_) return add(Stream::kOut, json_.add(record));
    return add(is_err ? Stream::kErr : Stream::kOut, record.bytes);
  }

  Status flush() {
    const std::string text = std::exchange(text_, {});
    return stream_ == Stream::kOut ? print(text) : print_notice(text);
  }

  Status finish() {
    if (is_json_) SBX_TRY(add(Stream::kOut, json_.finish()));
    SBX_TRY(flush());
    if (dropped_ != 0 && !is_json_) {
      print_warning(text::cat(dropped_, " bytes of the output of exec ", exec_, " are not kept"));
    }
    return {};
  }

 private:
  Status add(Stream stream, std::string_view bytes) {
    constexpr std::size_t kPiece = std::size_t{64} << 10U;
    if (stream != stream_ || text_.size() >= kPiece) SBX_TRY(flush());
    stream_ = stream;
    text_ += bytes;
    return {};
  }

  session::LogJson json_;
  std::uint32_t exec_;
  bool is_json_;
  std::optional<session::Stream> only_;
  Stream stream_ = Stream::kOut;
  std::string text_;
  std::uint64_t dropped_ = 0;
};

std::string as_names(const std::vector<session::ExecRecord>& execs) {
  std::string out;
  std::set<std::string> services;
  for (const session::ExecRecord& exec : execs) {
    out += text::cat(exec.id, "\n");
    if (!exec.service.empty()) services.insert(exec.service);
  }
  for (const std::string& service : services) {
    out += service + '\n';
  }
  return out;
}

/// The exec that is meant: by number, the last one of a service, or the last one.
Result<std::uint32_t> choose(const std::vector<session::ExecRecord>& execs,
                             const Invocation& given) {
  const std::string& name = given.words()[0];
  const bool is_named = given.words().size() > 1;
  if (execs.empty() && !is_named) {
    return Error(Errc::kNotFound, text::cat("nothing was executed in session ", name, " yet"));
  }
  const std::string word = is_named ? given.words()[1] : text::cat(execs.back().id);
  const auto found =
      std::find_if(execs.rbegin(), execs.rend(), [&](const session::ExecRecord& exec) {
        return word == text::cat(exec.id) || word == exec.service;
      });
  if (found != execs.rend()) return found->id;
  return Error(Errc::kNotFound, text::cat("session ", name, " has no exec ", text::escape(word)))
      .with_hint(text::cat("sbx session logs ", name, " --names lists them"));
}

/// Whether the exec can write no more.
bool is_over(int session_dir, int execs_dir, std::uint32_t id) {
  const auto life = session::look_at_life(session_dir);
  if (!life.ok() || !life.value().has_value()) return true;
  const auto record = session::read_exec_record(execs_dir, id);
  return record.ok() && record.value().state == session::ExecState::kEnded;
}

Status show(const Invocation& given) {
  const std::string& name = given.words()[0];
  std::int64_t since = std::numeric_limits<std::int64_t>::min();
  if (const std::string* text = given.last("since")) {
    SBX_ASSIGN(since, session::parse_since(*text, realtime_ns()));
  }
  std::optional<session::Stream> only;
  if (const std::string* stream = given.last("stream")) {
    only = *stream == "out" ? session::Stream::kOut : session::Stream::kErr;
  }
  SBX_ASSIGN(const session::Store store, open_sessions());
  SBX_ASSIGN(const UniqueFd dir, store.open_dir(name));
  SBX_ASSIGN(const UniqueFd execs_dir, session::open_execs(dir.get()));
  SBX_ASSIGN(const auto execs, session::read_exec_records(execs_dir.get()));
  if (given.has("names")) return print(as_names(execs));
  SBX_ASSIGN(const std::uint32_t id, choose(execs, given));
  SBX_ASSIGN(session::ExecLogReader reader,
             session::ExecLogReader::open(execs_dir.get(), id, session::Absent::kWait));
  if (given.has("since")) reader.since(since);
  Printer printer(id, given.has("json"), only);
  session::IsOver over;
  if (given.has("follow")) over = [&] { return is_over(dir.get(), execs_dir.get(), id); };
  SBX_TRY(session::read_log(
      reader,
      execs_dir.get(),
      over,
      [&](const session::LogRecord& record) { return printer.take(record); },
      [&] { return printer.flush(); }));
  return printer.finish();
}

int show_logs(const Invocation& given) {
  const Status shown = show(given);
  return shown.ok() ? kExitOk : failed(shown.error());
}

}  // namespace

constexpr Verb kSessionLogsVerb = {
    .name = "session logs",
    .summary = "Print what a command of the session has written",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 2, .name = "NAME"},
    .examples = kExamples,
    .run = show_logs,
};

}  // namespace sbx::cli
