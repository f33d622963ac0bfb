// Verb kernel ls: the kernels that virtual machines can be started with.
#include <array>
#include <string>
#include <vector>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/runs.h"
#include "cli/session.h"
#include "cli/session_numbers.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/kernel/report.h"
#include "core/kernel/store.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx kernel ls [-q | --json]"};
constexpr std::string_view kDetails =
    "Lists the kernels for virtual machines, the newest first: the first one is taken when none is "
    "named. What a guest can do with a kernel is in the column HAS. Kernels that the administrator "
    "put there for all users are marked with \"system\".";
constexpr std::array kFlags = {
    Flag{'q', "quiet", "", "Print names only"},
    kJsonLinesFlag,
};
constexpr std::array kExamples = {
    Example{"sbx kernel ls", "what there is, where it came from"},
    Example{"sbx kernel ls --json | jq -r 'select(.features.\"9p\") | .name'",
            "those that can show the host's files"},
};

int list(const Invocation& given) {
  const Result<Directories> dirs = directories(State::kNeeded);
  if (!dirs.ok()) return failed(dirs.error());
  std::vector<std::string> problems;
  const std::vector<kernel::Kernel> all = kernel::list(dirs.value().state, problems);
  for (const std::string& problem : problems) {
    print_warning(problem);
  }
  std::string lines;
  std::vector<std::array<std::string, 5>> rows{{"NAME", "SIZE", "INSTALLED", "HAS", "FROM"}};
  for (const kernel::Kernel& each : all) {
    if (given.has("quiet")) {
      lines += each.name() + "\n";
    } else if (given.has("json")) {
      lines += kernel::listing_json(each) + "\n";
    } else {
      const kernel::Record& record = each.record;
      rows.push_back({record.name,
                      bytes_text(record.vmlinux_bytes + record.modules_bytes),
                      short_time(record.created_ns),
                      kernel::features_text(record.features),
                      text::cat(each.is_system ? "system, " : "", text::escape(record.source))});
    }
  }
  const bool is_table = !given.has("quiet") && !given.has("json");
  return printed(print(is_table ? table_text<5>(rows) : lines));
}

}  // namespace

constexpr Verb kKernelLsVerb = {
    .name = "kernel ls",
    .summary = "List the kernels for virtual machines",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .examples = kExamples,
    .run = list,
};

}  // namespace sbx::cli
