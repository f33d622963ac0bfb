// Verbs session checkpoint, checkpoints, restore and fork: states of a session's files.
#include <array>
#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/runs.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/session/checkpoint.h"
#include "core/session/report.h"

namespace sbx::cli {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;

constexpr std::array<std::string_view, 1> kMakeUsage = {
    "sbx session checkpoint NAME [TAG] [--json]"};
constexpr std::string_view kMakeDetails =
    "Keeps the files of the session as they are, to be restored or forked from; prints the tag. "
    "Processes and memory are not part of it, nor are /tmp and /dev/shm. Of a stopped session it "
    "costs the same whatever it holds; a running one stands still while what changed is copied.";
constexpr std::array kMakeFlags = {kJsonFlag};
constexpr std::array kMakeExamples = {
    Example{"sbx session checkpoint web before-upgrade", "a state to come back to"},
};

int make(const Invocation& given) {
  const std::string& name = given.words()[0];
  std::optional<std::string> tag;
  if (given.words().size() > 1) tag = given.words()[1];
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  Result<session::Checkpoint> made = session::make_checkpoint(store.value(), name, tag);
  if (!made.ok()) return failed(made.error());
  const session::Checkpoint& it = made.value();
  if (given.has("json")) return printed(print(session::checkpoint_json(name, it) + "\n"));
  if (Status done = print(it.tag + "\n"); !done.ok()) return printed(done);
  if (it.pause_ns > 0) {
    (void)print_notice(text::cat(
        "sbx: the session stood still for ", it.pause_ns / kNsPerMs, " ms (", it.way, ")\n"));
  }
  return 0;
}

constexpr std::array<std::string_view, 2> kListUsage = {"sbx session checkpoints NAME [--json]",
                                                        "sbx session checkpoints NAME --rm TAG"};
constexpr std::string_view kListDetails =
    "Lists the checkpoints of a session, the oldest first; those that restore made by itself are "
    "marked. --rm forgets one, and what only it needs of the disk.";
constexpr std::array kListFlags = {
    Flag{'\0', "rm", "TAG", "Forget this checkpoint; repeatable", {}, Repeat::kAll},
    Flag{'\0', "json", "", "Print one JSON object a line"},
    Flag{'q', "quiet", "", "Print tags only"},
};
constexpr std::array kListExamples = {
    Example{"sbx session checkpoints web", "what there is to go back to"},
};

int list(const Invocation& given) {
  const std::string& name = given.words()[0];
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  if (given.has("rm")) {
    for (const std::string& tag : given.all("rm")) {
      const Status gone = session::remove_checkpoint(store.value(), name, tag);
      if (!gone.ok()) return failed(gone.error());
    }
    return 0;
  }
  Result<session::Listing> now = store.value().look(name);
  if (!now.ok()) return failed(now.error());
  std::string out;
  for (const session::Checkpoint& each : now.value().record.checkpoints) {
    if (given.has("json")) {
      out += session::checkpoint_json(name, each) + "\n";
    } else if (given.has("quiet")) {
      out += each.tag + "\n";
    } else {
      out += text::cat(each.tag,
                       "  ",
                       short_time(each.created_ns),
                       each.is_automatic ? "  automatic" : "",
                       "\n");
    }
  }
  return printed(print(out));
}

constexpr std::array<std::string_view, 1> kRestoreUsage = {"sbx session restore NAME TAG [--json]"};
constexpr std::string_view kRestoreDetails =
    "Puts the files of the session back to a checkpoint. What was there is kept as an automatic "
    "checkpoint, whose tag is printed. A session that runs is stopped for it and started again; "
    "its programs are gone.";
constexpr std::array kRestoreFlags = {kJsonFlag};
constexpr std::array kRestoreExamples = {
    Example{"sbx session restore web before-upgrade", "undo what happened since"},
};

int restore(const Invocation& given) {
  const std::string& name = given.words()[0];
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  Result<session::Restored> done =
      session::restore(store.value(), name, given.words()[1], profile::process_env, print_warning);
  if (!done.ok()) return failed(done.error());
  const session::Checkpoint& kept = done.value().kept;
  if (given.has("json")) return printed(print(session::checkpoint_json(name, kept) + "\n"));
  if (Status out = print(kept.tag + "\n"); !out.ok()) return printed(out);
  if (done.value().was_alive) {
    (void)print_notice("sbx: the session was stopped and started again; its programs are gone\n");
  }
  return 0;
}

constexpr std::array<std::string_view, 1> kForkUsage = {
    "sbx session fork NAME NEW [--from TAG] [--count N] [--json]"};
constexpr std::string_view kForkDetails =
    "Makes a new session with the files, the profile and the labels of another one as it is, or as "
    "it was at a checkpoint. They share what neither changes. With --count N the new ones are "
    "NEW-1 to NEW-N. They are stopped; exec or start starts them.";
constexpr std::array kForkFlags = {
    Flag{'\0', "from", "TAG", "The state of this checkpoint, not the present one"},
    Flag{'\0', "count", "N", "So many, numbered from 1"},
    Flag{'\0', "json", "", "Print one JSON object a line"},
};
constexpr std::array kForkExamples = {
    Example{"sbx session fork web try", "an independent copy"},
    Example{"sbx session fork web eval --from base --count 16", "sixteen of one state"},
};

Result<std::vector<std::string>> names_of(const Invocation& given) {
  constexpr std::uint64_t kMost = 1000;
  const std::string& name = given.words()[1];
  const std::string* count = given.last("count");
  if (count == nullptr) return std::vector{name};
  auto number = parse_count(*count);
  if (!number.ok()) return std::move(number).error().prefixed("--count");
  if (number.value() < 1 || number.value() > kMost) {
    return Error(Errc::kUsage, text::cat("--count: from 1 to ", kMost));
  }
  std::vector<std::string> names;
  for (std::uint64_t i = 1; i <= number.value(); ++i) {
    names.push_back(text::cat(name, "-", i));
  }
  return names;
}

int fork_session(const Invocation& given) {
  Result<std::vector<std::string>> names = names_of(given);
  if (!names.ok()) return failed(names.error());
  std::optional<std::string> from;
  if (const std::string* tag = given.last("from")) from = *tag;
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  Result<std::vector<session::Record>> made =
      session::fork(store.value(), given.words()[0], names.value(), from);
  if (!made.ok()) return failed(made.error());
  std::string out;
  for (session::Record& record : made.value()) {
    if (given.has("json")) {
      session::Listing listing;
      listing.record = std::move(record);
      out += session::listing_json(listing) + "\n";
    } else {
      out += record.name + "\n";
    }
  }
  return printed(print(out));
}

}  // namespace

constexpr Verb kSessionCheckpointVerb = {
    .name = "session checkpoint",
    .summary = "Keep a state of a session's files",
    .usage = kMakeUsage,
    .details = kMakeDetails,
    .flags = kMakeFlags,
    .words = {.min = 1, .max = 2, .name = "NAME"},
    .examples = kMakeExamples,
    .run = make,
};

constexpr Verb kSessionCheckpointsVerb = {
    .name = "session checkpoints",
    .summary = "List or forget the checkpoints of a session",
    .usage = kListUsage,
    .details = kListDetails,
    .flags = kListFlags,
    .words = kOneSession,
    .examples = kListExamples,
    .run = list,
};

constexpr Verb kSessionRestoreVerb = {
    .name = "session restore",
    .summary = "Put a session's files back to a checkpoint",
    .usage = kRestoreUsage,
    .details = kRestoreDetails,
    .flags = kRestoreFlags,
    .words = {.min = 2, .max = 2, .name = "NAME TAG"},
    .examples = kRestoreExamples,
    .run = restore,
};

constexpr Verb kSessionForkVerb = {
    .name = "session fork",
    .summary = "Make new sessions with the files of another one",
    .usage = kForkUsage,
    .details = kForkDetails,
    .flags = kForkFlags,
    .words = {.min = 2, .max = 2, .name = "NAME NEW"},
    .examples = kForkExamples,
    .run = fork_session,
};

}  // namespace sbx::cli
