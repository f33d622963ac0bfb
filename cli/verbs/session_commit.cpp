// Verb session commit: an image out of a session.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/image.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/image/record.h"
#include "core/image/report.h"
#include "core/session/commit.h"
#include "core/session/lifecycle.h"
#include "core/session/store.h"

namespace sbx::cli {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx session commit NAME IMAGE [FLAG...] [-- COMMAND ARG...]"};
constexpr std::string_view kDetails =
    "Makes an image of a session that was made of an image: that image's layers, and what the "
    "session changed as one layer more. /work is part of it; /tmp, /dev/shm, mounted directories "
    "and processes are not. A running session stands still while its changes are copied. An image "
    "that has the name already is replaced; sessions made of it go on as they are.\n\n"
    "Settings are those of the image that the session was made of, but for what flags change. "
    "COMMAND is what the new image runs when nothing else is asked for.";
constexpr std::array kFlags = {
    Flag{.name = "message", .arg = "TEXT", .help = "What it is, to be shown as where it came from"},
    Flag{.letter = 'e',
         .name = "env",
         .arg = "NAME=VALUE",
         .help = "Set a variable for all programs of the image; repeatable",
         .repeat = Repeat::kAll},
    Flag{.letter = 'u',
         .name = "user",
         .arg = "USER",
         .help = "Whom programs run as: NAME or UID[:GID]"},
    Flag{.letter = 'w', .name = "workdir", .arg = "DIR", .help = "The directory they start in"},
    Flag{.name = "entrypoint",
         .arg = "WORD",
         .help = "What every command is put behind; repeat it for further words, empty for none",
         .repeat = Repeat::kAll},
    kJsonFlag,
};
constexpr std::array kExamples = {
    Example{"sbx session commit dev tools:2", "keep what was installed, as an image"},
    Example{"sbx session commit web site -w /srv -- nginx -g 'daemon off;'",
            "with a command of its own"},
};

/// Puts `entry` in place of the one for the same name.
Status set_variable(std::vector<std::string>& env, const std::string& entry) {
  const std::size_t equals = entry.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error(Errc::kUsage, text::cat("--env: \"", text::escape(entry), "\" is not NAME=VALUE"));
  }
  const std::string_view start = std::string_view(entry).substr(0, equals + 1);
  std::erase_if(env, [&](const std::string& each) { return each.starts_with(start); });
  env.push_back(entry);
  return {};
}

/// nullopt: nothing was asked to be changed.
Result<std::optional<image::Config>> config_of(const Invocation& given,
                                               const session::Store& store,
                                               const std::string& name) {
  const bool is_same = !given.has("env") && !given.has("user") && !given.has("workdir") &&
                       !given.has("entrypoint") && !given.has_rest();
  if (is_same) return std::optional<image::Config>();
  SBX_ASSIGN(const session::Listing now, store.look(name));
  // Without an image the commit says why it cannot be.
  if (!now.record.image.has_value()) return std::optional<image::Config>();
  SBX_ASSIGN(const image::Record base, image::parse_record(now.record.image->record));
  image::Config config = base.config;
  for (const std::string& entry : given.all("env")) {
    SBX_TRY(set_variable(config.env, entry));
  }
  if (const std::string* user = given.last("user")) config.user = *user;
  if (const std::string* workdir = given.last("workdir")) {
    if (!workdir->empty() && !workdir->starts_with('/')) {
      return Error(Errc::kUsage, "--workdir: it has to be an absolute path");
    }
    config.workdir = *workdir;
  }
  if (given.has("entrypoint")) {
    config.entrypoint = given.all("entrypoint");
    std::erase(config.entrypoint, "");
  }
  if (given.has_rest()) config.cmd = given.rest();
  return std::optional(std::move(config));
}

int commit(const Invocation& given) {
  const std::string& name = given.words()[0];
  session::CommitRequest request;
  request.image = given.words()[1];
  request.source = text::cat("session ", name);
  if (const std::string* message = given.last("message")) {
    request.source += text::cat(": ", *message);
  }
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  auto config = config_of(given, store.value(), name);
  if (!config.ok()) return failed(config.error());
  request.config = std::move(config).value();
  Result<image::Store> images = open_images();
  if (!images.ok()) return failed(images.error());
  const Result<session::Committed> made =
      session::commit(store.value(), images.value(), name, request);
  if (!made.ok()) return failed(made.error());
  sweep_after(images.value());
  const image::Record& record = made.value().image;
  if (given.has("json")) return printed(print(image::listing_json(record) + "\n"));
  if (Status out = print(text::cat(record.name, "  ", short_id(record), "\n")); !out.ok()) {
    return printed(out);
  }
  if (made.value().pause_ns > 0) {
    (void)print_notice(text::cat("sbx: the session stood still for ",
                                 made.value().pause_ns / kNsPerMs,
                                 " ms (",
                                 made.value().way,
                                 ")\n"));
  }
  return 0;
}

}  // namespace

constexpr Verb kSessionCommitVerb = {
    .name = "session commit",
    .summary = "Make an image of a session",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 2, .max = 2, .name = "NAME IMAGE", .rest = true},
    .examples = kExamples,
    .run = commit,
};

}  // namespace sbx::cli
