// Verb image rm: takes names away from images, and removes what nobody else uses of them.
#include <array>
#include <string>

#include "cli/image.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/text.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx image rm NAME... [--json]"};
constexpr std::string_view kDetails =
    "Takes the names away, and removes the files that no other image and no session has. Files "
    "that a session or a running sandbox still uses stay until it is gone; it goes on as before.";
constexpr std::array kFlags = {kJsonLinesFlag};
constexpr std::array kExamples = {
    Example{"sbx image rm debian", "this one"},
    Example{"sbx image rm debian:11 debian:12 --json", "two, and who still uses their files"},
};

void say_who(const image::Record& record, const image::Uses& uses) {
  std::string who;
  if (!uses.sessions.empty()) {
    who = text::cat(uses.sessions.size() == 1 ? "session " : "sessions ",
                    text::join(uses.sessions, ", "));
  }
  if (uses.has_runs) who += who.empty() ? "a run" : " and a run";
  if (who.empty()) return;
  (void)print_notice(
      text::cat("image ",
                record.name,
                ": its name is gone; files that ",
                who,
                uses.sessions.size() + (uses.has_runs ? 1U : 0U) == 1 ? " uses" : " use",
                " stay until then\n"));
}

Status remove_one(const image::Store& store, const std::string& name, bool is_json) {
  Result<image::Record> record = store.find(name);
  // One that cannot be read can still go.
  if (!record.ok() && record.error().code() == Errc::kNotFound) return record.error();
  image::Record known;
  known.name = name;
  if (record.ok()) known = std::move(record).value();
  SBX_ASSIGN(const image::Uses uses, uses_of(store, known));
  SBX_TRY(store.remove(name));
  if (is_json) return print(image::removed_json(known, uses) + "\n");
  say_who(known, uses);
  return {};
}

int remove(const Invocation& given) {
  Result<image::Store> store = open_images();
  if (!store.ok()) return failed(store.error());
  int status = 0;
  for (const std::string& name : given.words()) {
    const Status removed = remove_one(store.value(), name, given.has("json"));
    if (removed.ok()) continue;
    const int now = failed(removed.error());
    if (status == 0) status = now;
  }
  sweep_after(store.value());
  return status;
}

}  // namespace

constexpr Verb kImageRmVerb = {
    .name = "image rm",
    .summary = "Remove images",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1000, .name = "NAME"},
    .examples = kExamples,
    .run = remove,
};

}  // namespace sbx::cli
