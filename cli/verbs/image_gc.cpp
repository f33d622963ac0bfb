// Verb image gc: removes layers that no image and no session has; keeps the disk budget.
#include <array>
#include <optional>
#include <string>

#include "cli/directories.h"
#include "cli/gc.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/session_numbers.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/image/budget.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx image gc [--dry-run] [--budget SIZE] [--json]"};
constexpr std::string_view kDetails =
    "Removes layers that no image and no session has any more, and what killed commands left: all "
    "that `sbx gc` removes.\n\n"
    "With --budget it also notes how much the state directory may take on its disk from now on; "
    "what would take more is refused before it begins, or stopped. SBX_STATE_BUDGET counts before "
    "what was noted.";
constexpr std::array kFlags = {
    Flag{.name = "dry-run", .help = "Only say what would be removed, and why"},
    Flag{.name = "budget",
         .arg = "SIZE",
         .help = "What the state directory may take from now on: 20G; none"},
    kJsonFlag,
};
constexpr std::array kExamples = {
    Example{"sbx image gc --dry-run", "what would go"},
    Example{"sbx image gc --budget 20G", "remove it, and never take more than this"},
};

/// "state directory: 3.2G of 20G"
Status say_use(const std::string& state) {
  SBX_ASSIGN(const image::StateBudget budget, image::state_budget(state));
  if (!budget.bytes.has_value()) return {};
  SBX_ASSIGN(const Bytes use, image::state_use(state));
  return print_notice(text::cat("the state directory takes ",
                                bytes_text(use.v),
                                " of its budget of ",
                                to_string(*budget.bytes),
                                "\n"));
}

int collect(const Invocation& given) {
  Result<Directories> dirs = directories(State::kNeeded);
  if (!dirs.ok()) return failed(dirs.error());
  const std::string& state = dirs.value().state;
  if (const std::string* text = given.last("budget")) {
    Result<std::optional<Bytes>> budget = image::parse_budget(*text);
    if (!budget.ok()) return failed(std::move(budget).error().prefixed("--budget"));
    if (given.has("dry-run")) {
      return failed(Error(Errc::kUsage, "--budget and --dry-run: what is only tried notes nothing")
                        .with_hint("give one of them"));
    }
    if (Status set = image::set_state_budget(state, budget.value()); !set.ok()) {
      return failed(set.error());
    }
  }
  const int status = collect_garbage(given);
  if (!given.has("json")) {
    if (const Status said = say_use(state); !said.ok()) return failed(said.error());
  }
  return status;
}

}  // namespace

constexpr Verb kImageGcVerb = {
    .name = "image gc",
    .summary = "Remove layers that nobody uses; set the disk budget",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .examples = kExamples,
    .run = collect,
    .is_reaping = true,
};

}  // namespace sbx::cli
