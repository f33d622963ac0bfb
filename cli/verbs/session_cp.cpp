// Verb session cp: files into a session, out of it, or from one to another.
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/base/text.h"
#include "core/run/run.h"
#include "core/session/copy.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 5> kUsage = {
    "sbx session cp SRC NAME:PATH",
    "sbx session cp NAME:PATH DST",
    "sbx session cp NAME:PATH NAME2:PATH",
    "sbx session cp - NAME:DIR",
    "sbx session cp NAME:PATH -",
};
constexpr std::string_view kDetails =
    "As cp -a: directories with all below them, links as links, holes, hard links within the copy, "
    "modes, times, user attributes and access control lists. Inside the files belong to the "
    "session's user, outside to you. FIFOs, sockets, devices, setuid bits and file capabilities "
    "are never copied; what is left out is listed.\n\n"
    "A copy to an existing directory goes into it, else the copy gets that name; SRC/. is the "
    "content of SRC. Paths inside begin at /work unless they are absolute. - is a tar stream on "
    "stdin or stdout. A file of yours with a colon in its name: ./a:b\n\n"
    "It works on a paused session and leaves it paused. A file appears under its name only when it "
    "is whole. Exit status: 0 all copied, 1 something was left out, 125 failed.";

constexpr std::array kFlags = {
    Flag{.name = "resume",
         .help = "Skip files that are there already, go on with one that was interrupted"},
    Flag{.letter = 'q', .name = "quiet", .help = "No progress bar"},
    kNoStartFlag,
    kJsonFlag,
};

constexpr std::array kExamples = {
    Example{"sbx session cp data.csv web:", "a file to /work"},
    Example{"sbx session cp web:/work/out ./results", "a directory out of it"},
    Example{"sbx session cp --resume big.img web:/work", "again, after an interruption"},
    Example{"sbx session cp web:src - | tar t", "as a tar stream"},
};

/// A word of the command line, taken apart.
struct Word {
  std::optional<std::string> session;
  session::CopyPlace place;
};

Word take_apart(const std::string& text) {
  Word word;
  const std::size_t colon = text.find(':');
  if (text == "-") {
    word.place.is_stream = true;
  } else if (colon != std::string::npos && session::check_name(text.substr(0, colon)).ok()) {
    word.session = text.substr(0, colon);
    word.place.path = text.substr(colon + 1);
    if (word.place.path.empty()) word.place.path.push_back('.');
  } else {
    word.place.path = text;
  }
  return word;
}

Error no_such(Error error, const Word& word) {
  if (error.code() != Errc::kNotFound || !error.hint().empty()) return error;
  return std::move(error).with_hint(
      text::cat("for a file of yours with a colon in its name: ./", *word.session, ":…"));
}

/// The session is alive from here on; each worker gets a connection of its own.
Status attach(const session::Store& store, const Invocation& given, Word& word) {
  if (!word.session.has_value()) return {};
  Result<Connected> greeted = connect(store, given, *word.session);
  if (!greeted.ok()) return no_such(std::move(greeted).error(), word);
  word.place.connect = [&store, record = std::move(greeted).value().record] {
    return session::Client::connect(store, record);
  };
  return {};
}

/// "sbx: not copied, a FIFO, socket or device: a, b and 3 more"
void tell(std::string_view what, const archive::Note& from, const archive::Note& to) {
  std::string paths;
  std::uint64_t shown = 0;
  for (const archive::Note* note : {&from, &to}) {
    for (const std::string& path : note->paths) {
      paths += text::cat(shown == 0 ? "" : ", ", text::escape(path));
      ++shown;
    }
  }
  const std::uint64_t all = from.count + to.count;
  if (all > shown) paths += text::cat(" and ", all - shown, " more");
  print_warning(text::cat(what, ": ", paths));
}

/// The exit status of a copy that came to its end.
int show(const session::CopyResult& result) {
  int status = kExitOk;
  for (std::size_t i = 0; i < archive::kNoteKinds; ++i) {
    const auto kind = static_cast<archive::NoteKind>(i);
    const archive::Note& from = result.from.notes[i];
    const archive::Note& to = result.to.notes[i];
    if (from.count + to.count == 0) continue;
    tell(archive::describe(kind), from, to);
    if (archive::is_missing(kind)) status = kExitFailure;
  }
  return status;
}

int copy_between(const Invocation& given, const Word& from, const Word& to) {
  ProgressBar bar(!given.has("quiet") && !given.has("json"));
  session::CopyOptions options;
  options.is_resuming = given.has("resume");
  if (bar.is_on() && !to.place.is_stream) {
    options.on_progress = [&bar](const session::CopyProgress& progress) { bar.show(progress); };
  }
  Result<session::CopyResult> copied = session::copy(from.place, to.place, options);
  bar.clear();
  if (!copied.ok()) return failed(copied.error());
  if (copied.value().signal.has_value()) {
    const std::string_view kept =
        options.is_resuming ? "go on with --resume" : "with --resume a large file is gone on with";
    print_error(Error(Errc::kSystem, "interrupted").with_hint(std::string(kept)));
    return kExitSignalBase + *copied.value().signal;
  }
  const int status = show(copied.value());
  if (given.has("json")) {
    const Status printed_all = print(session::copy_json(copied.value()) + "\n");
    if (!printed_all.ok()) return printed(printed_all);
  }
  return status;
}

int cp(const Invocation& given) {
  Word from = take_apart(given.words()[0]);
  Word to = take_apart(given.words()[1]);
  if (!from.session.has_value() && !to.session.has_value()) {
    return failed(Error(Errc::kUsage, "neither side is in a session")
                      .with_hint("NAME:PATH is a file in the session NAME"));
  }
  if (to.place.is_stream && ::isatty(STDOUT_FILENO) == 1) {
    return failed(Error(Errc::kUsage, "a tar stream is nothing for a terminal")
                      .with_hint("redirect it: sbx session cp NAME:PATH - > FILE.tar"));
  }
  if (to.place.is_stream && given.has("json")) {
    return failed(Error(Errc::kUsage, "--json does not go with a stream on stdout"));
  }
  if (given.has("resume") && (from.place.is_stream || to.place.is_stream)) {
    return failed(Error(Errc::kUsage, "--resume does not go with a stream"));
  }
  run::settle_signals();
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  for (Word* word : {&from, &to}) {
    if (Status attached = attach(store.value(), given, *word); !attached.ok()) {
      return failed(attached.error());
    }
  }
  return copy_between(given, from, to);
}

}  // namespace

constexpr Verb kSessionCpVerb = {
    .name = "session cp",
    .summary = "Copy files into a session, out of it, or to another",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 2, .max = 2, .complete = Complete::kFile, .name = "SRC DST"},
    .examples = kExamples,
    .run = cp,
};

}  // namespace sbx::cli
