// Verbs session pause, resume, stop, rm and touch: the state of sessions.
#include <array>
#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/session/report.h"

namespace sbx::cli {
namespace {

constexpr Words kSessions{.min = 1, .max = 1000, .name = "NAME"};

constexpr std::array kJsonOnly = {kJsonLinesFlag};

/// With --json the session as it is now.
Status show(const session::Store& store, const std::string& name, const Invocation& given) {
  if (!given.has("json")) return {};
  SBX_ASSIGN(const session::Listing now, store.look(name));
  return print(session::listing_json(now) + "\n");
}

Status call(const session::Store& store,
            const std::string& name,
            const Invocation& given,
            std::string_view op) {
  {
    SBX_ASSIGN(Connected connected, connect_alive(store, name));
    SBX_TRY(connected.client.call(session::Fields(op)));
  }
  return show(store, name, given);
}

constexpr std::array<std::string_view, 1> kPauseUsage = {"sbx session pause NAME... [--json]"};
constexpr std::string_view kPauseDetails =
    "Every process of the session stands still, with its memory kept, and uses no processor time. "
    "Programs in flight, the commands that wait for them and their time limits stand still as "
    "well, and go on with resume. cp, ps, diff, kill, stop and rm work meanwhile; exec resumes. "
    "Pausing a paused session is no error.";
constexpr std::array kPauseExamples = {
    Example{"sbx session pause web", "while a person decides"},
};

int pause(const Invocation& given) {
  return for_each_session(
      given, [](const session::Store& store, const std::string& name, const Invocation& all) {
        return call(store, name, all, "pause");
      });
}

constexpr std::array<std::string_view, 1> kResumeUsage = {"sbx session resume NAME... [--json]"};
constexpr std::string_view kResumeDetails =
    "A paused session goes on where it stood. One that runs is left as it is.";
constexpr std::array kResumeExamples = {
    Example{"sbx session resume web", "go on"},
};

int resume(const Invocation& given) {
  return for_each_session(
      given, [](const session::Store& store, const std::string& name, const Invocation& all) {
        return call(store, name, all, "resume");
      });
}

constexpr std::array<std::string_view, 1> kTouchUsage = {"sbx session touch NAME... [--json]"};
constexpr std::string_view kTouchDetails =
    "The session counts as used now: session.idle_pause and session.ttl begin anew.";
constexpr std::array kTouchExamples = {
    Example{"sbx session touch web", "it is still needed"},
};

int touch(const Invocation& given) {
  return for_each_session(
      given, [](const session::Store& store, const std::string& name, const Invocation& all) {
        return call(store, name, all, "touch");
      });
}

constexpr std::array<std::string_view, 1> kStopUsage = {
    "sbx session stop NAME... [--time TIME] [--json]"};
constexpr std::string_view kStopDetails =
    "Every process gets SIGTERM and, after the time, SIGKILL. Files are kept and flushed to the "
    "disk; processes, /tmp and /dev/shm are gone. A stopped session is left as it is. A session "
    "whose supervisor does not answer is ended all the same.";
constexpr std::array kStopFlags = {
    Flag{'\0', "time", "TIME", "What programs get to end by themselves (default 5s)"},
    kJsonLinesFlag,
};
constexpr std::array kStopExamples = {
    Example{"sbx session stop web", "files stay, processes go"},
};

Status stop_one(const session::Store& store, const std::string& name, const Invocation& given) {
  Millis grace{5000};
  if (const std::string* time = given.last("time")) {
    Result<Millis> parsed = parse_duration(*time);
    if (!parsed.ok()) return std::move(parsed).error().prefixed("--time");
    grace = parsed.value();
  }
  SBX_TRY(session::stop(store, name, grace));
  return show(store, name, given);
}

int stop(const Invocation& given) {
  return for_each_session(given, stop_one);
}

constexpr std::array<std::string_view, 1> kRmUsage = {"sbx session rm NAME... [-f] [--json]"};
constexpr std::string_view kRmDetails =
    "Removes sessions with their files, checkpoints and logs; what other sessions share stays. One "
    "that runs is refused without -f. Needs no free space on the disk.";
constexpr std::array kRmFlags = {
    Flag{'f', "force", "", "Also one that runs: its processes are killed"},
    kJsonLinesFlag,
};
constexpr std::array kRmExamples = {
    Example{"sbx session rm -f web", "all of it"},
};

Status rm_one(const session::Store& store, const std::string& name, const Invocation& given) {
  return session::remove(
      store, name, given.has("force") ? session::WhenAlive::kStop : session::WhenAlive::kRefuse);
}

int rm(const Invocation& given) {
  return for_each_session(given, rm_one);
}

}  // namespace

constexpr Verb kSessionPauseVerb = {
    .name = "session pause",
    .summary = "Let everything in a session stand still",
    .usage = kPauseUsage,
    .details = kPauseDetails,
    .flags = kJsonOnly,
    .words = kSessions,
    .examples = kPauseExamples,
    .run = pause,
};

constexpr Verb kSessionResumeVerb = {
    .name = "session resume",
    .summary = "Let a paused session go on",
    .usage = kResumeUsage,
    .details = kResumeDetails,
    .flags = kJsonOnly,
    .words = kSessions,
    .examples = kResumeExamples,
    .run = resume,
};

constexpr Verb kSessionTouchVerb = {
    .name = "session touch",
    .summary = "Say that a session is still in use",
    .usage = kTouchUsage,
    .details = kTouchDetails,
    .flags = kJsonOnly,
    .words = kSessions,
    .examples = kTouchExamples,
    .run = touch,
};

constexpr Verb kSessionStopVerb = {
    .name = "session stop",
    .summary = "End the processes of a session, keep its files",
    .usage = kStopUsage,
    .details = kStopDetails,
    .flags = kStopFlags,
    .words = kSessions,
    .examples = kStopExamples,
    .run = stop,
};

constexpr Verb kSessionRmVerb = {
    .name = "session rm",
    .summary = "Remove a session and its files",
    .usage = kRmUsage,
    .details = kRmDetails,
    .flags = kRmFlags,
    .words = kSessions,
    .examples = kRmExamples,
    .run = rm,
};

}  // namespace sbx::cli
