// Verb gc: finds and removes what a killed or crashed sbx left.
#include "core/run/gc.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "cli/gc.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "core/backend/vm/garbage.h"
#include "core/base/exit_code.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/host/paths.h"
#include "core/kernel/garbage.h"
#include "core/packages/store.h"
#include "core/profile/saved.h"
#include "core/session/garbage.h"
#include "core/session/store.h"

namespace sbx::cli {
namespace {

using run::Gc;
using run::GcEntry;

constexpr std::array<std::string_view, 1> kUsage = {"sbx gc [--dry-run] [--json]"};
constexpr std::string_view kDetails =
    "Removes what an sbx left that was killed, or whose machine stopped: control groups with what "
    "is still in them, temporary files and directories, sockets, what is half made or half removed "
    "of sessions, sessions past their session.ttl, layers that no session and no image has, "
    "downloads that were cut short, packages that nobody used for 30 days, files that guests were "
    "started from and that no kernel has. What belongs to a "
    "living sbx is "
    "never touched, records and artifacts of runs neither. Other verbs do the urgent part of it by "
    "themselves.\n\n"
    "The exit status is 0 when nothing is left, 1 when something could not be removed.";
constexpr std::array<Flag, 2> kFlags = {{
    {.name = "dry-run", .help = "Only say what would be removed, and why"},
    {.name = "json", .help = "Print one JSON object"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx gc --dry-run", "what is left, and why it is nobody's"},
    {"sbx gc", "remove it"},
}};

/// Directories as far as they can be had: without them there is less to look through.
run::GcContext context_of(std::string& state_problem) {
  run::GcContext context;
  if (auto state = host::open_state_dir(); state.ok()) {
    context.state_dir = std::move(state).value().path;
  } else {
    state_problem = state.error().message();
  }
  if (auto runtime = host::open_runtime_dir(); runtime.ok()) {
    context.runtime_dir = std::move(runtime).value().path;
  }
  if (auto roots = host::kept_roots_dir(); roots.ok()) {
    context.roots_dir = std::move(roots).value();
  }
  return context;
}

/// What is left of sessions and images, where there have been any.
void collect_sessions(const run::GcContext& context, Gc how, std::vector<GcEntry>& entries) {
  const std::string layers = context.state_dir + "/layers";
  if (context.state_dir.empty() || ::access(layers.c_str(), F_OK) != 0) return;
  const auto store = session::Store::open(context.state_dir);
  if (!store.ok()) return;
  const std::vector<GcEntry> more = session::collect_garbage(store.value(), how);
  entries.insert(entries.end(), more.begin(), more.end());
}

/// What nobody used for long of the packages that were added to sandboxes. Where a session's record
/// cannot be read nothing is known of what it has.
void collect_packages(const run::GcContext& context, Gc how, std::vector<GcEntry>& entries) {
  if (context.state_dir.empty()) return;
  std::set<std::string> used;
  const std::string sessions = context.state_dir + "/sessions";
  if (::access(sessions.c_str(), F_OK) == 0) {
    const auto store = session::Store::open(context.state_dir);
    if (!store.ok()) return;
    const auto all = store.value().list();
    if (!all.ok()) return;
    for (const session::Listing& each : all.value()) {
      const auto profile = profile::restore(each.record.saved_profile);
      if (!each.problem.empty() || !profile.ok()) return;
      for (const profile::Mount& mount : profile.value().mounts) {
        used.insert(packages::set_of_mount(context.state_dir, mount.source));
      }
    }
  }
  const std::vector<GcEntry> more = packages::collect_garbage(context.state_dir, used, how);
  entries.insert(entries.end(), more.begin(), more.end());
}

/// What killed commands left of guest kernels, and what nobody starts a guest from any more.
void collect_kernels(const run::GcContext& context, Gc how, std::vector<GcEntry>& entries) {
  if (context.state_dir.empty()) return;
  for (const kernel::Stale& stale : kernel::stale_files(context.state_dir)) {
    GcEntry entry;
    entry.kind = stale.kind == kernel::StaleKind::kKernel ? "kernel" : "initramfs";
    entry.leftover = {.name = stale.path, .why = stale.why, .bytes = stale.bytes};
    if (how == Gc::kRemove) {
      const Status removed = kernel::remove_stale(context.state_dir, stale);
      entry.is_removed = removed.ok();
      if (!removed.ok()) entry.problem = removed.error().message();
    }
    entries.push_back(std::move(entry));
  }
}

/// What killed commands left of virtual machines, and templates that nobody starts from.
void collect_machines(const run::GcContext& context, Gc how, std::vector<GcEntry>& entries) {
  if (context.state_dir.empty()) return;
  for (const vm::Stale& stale : vm::stale_files(context.state_dir)) {
    GcEntry entry;
    entry.kind = "machine";
    entry.leftover = {.name = text::cat(context.state_dir, "/", stale.path),
                      .why = stale.why,
                      .bytes = stale.bytes};
    if (how == Gc::kRemove) {
      const Status removed = vm::remove_stale(context.state_dir, stale);
      entry.is_removed = removed.ok();
      if (!removed.ok()) entry.problem = removed.error().message();
    }
    entries.push_back(std::move(entry));
  }
}

std::string size_text(const std::optional<std::uint64_t>& bytes) {
  return bytes ? to_string(Bytes{*bytes}) : std::string("-");
}

std::string as_text(const std::vector<GcEntry>& entries, Gc how) {
  std::string out;
  std::uint64_t bytes = 0;
  std::size_t failed = 0;
  for (const GcEntry& entry : entries) {
    const std::string_view verb = how == Gc::kDryRun ? "would remove "
                                  : entry.is_removed ? "removed "
                                                     : "left ";
    out += text::cat(verb,
                     entry.kind,
                     " ",
                     text::escape(entry.leftover.name),
                     " (",
                     size_text(entry.leftover.bytes),
                     "): ",
                     text::escape(entry.problem.empty() ? entry.leftover.why : entry.problem),
                     "\n");
    if (entry.problem.empty()) {
      bytes += entry.leftover.bytes.value_or(0);
    } else {
      ++failed;
    }
  }
  if (entries.empty()) return "nothing is left\n";
  out += text::cat(entries.size() - failed,
                   how == Gc::kDryRun ? " would be removed, " : " removed, ",
                   to_string(Bytes{bytes}),
                   failed == 0 ? std::string() : text::cat("; ", failed, " could not be"),
                   "\n");
  return out;
}

std::string as_json(const std::vector<GcEntry>& entries, Gc how, const std::string& problem) {
  std::string out = text::cat(R"({"schema":1,"dry_run":)",
                              how == Gc::kDryRun ? "true" : "false",
                              R"(,"state_dir_problem":)",
                              problem.empty() ? std::string("null") : json_string(problem),
                              R"(,"leftovers":[)");
  bool is_first = true;
  for (const GcEntry& entry : entries) {
    const auto& bytes = entry.leftover.bytes;
    out += text::cat(is_first ? "" : ",",
                     R"({"kind":)",
                     json_string(entry.kind),
                     R"(,"name":)",
                     json_string(entry.leftover.name),
                     R"(,"why":)",
                     json_string(entry.leftover.why),
                     R"(,"bytes":)",
                     bytes ? std::to_string(*bytes) : std::string("null"),
                     R"(,"removed":)",
                     entry.is_removed ? "true" : "false",
                     R"(,"problem":)",
                     entry.problem.empty() ? std::string("null") : json_string(entry.problem),
                     "}");
    is_first = false;
  }
  return out + "]}\n";
}

}  // namespace

int collect_garbage(const Invocation& invocation) {
  const Gc how = invocation.has("dry-run") ? Gc::kDryRun : Gc::kRemove;
  std::string problem;
  const run::GcContext context = context_of(problem);
  std::vector<GcEntry> entries = run::collect_garbage(context, how);
  collect_sessions(context, how, entries);
  collect_packages(context, how, entries);
  collect_kernels(context, how, entries);
  collect_machines(context, how, entries);
  const bool json = invocation.has("json");
  if (!json && !problem.empty()) {
    print_warning(text::cat("files of the state directory were left out: ", problem));
  }
  const int status = printed(print(json ? as_json(entries, how, problem) : as_text(entries, how)));
  if (status != kExitOk) return status;
  const bool is_clean = std::all_of(
      entries.begin(), entries.end(), [](const GcEntry& entry) { return entry.problem.empty(); });
  return is_clean ? kExitOk : kExitFailure;
}

constexpr Verb kGcVerb = {
    .name = "gc",
    .summary = "Remove what a killed sbx left",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .examples = kExamples,
    .run = collect_garbage,
    .is_reaping = true,
};

}  // namespace sbx::cli
