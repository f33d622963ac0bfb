// Verb kernel rm: removes kernels for virtual machines.
#include <array>
#include <string>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/kernel/garbage.h"
#include "core/kernel/report.h"
#include "core/kernel/store.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx kernel rm NAME... [--json]"};
constexpr std::string_view kDetails =
    "Removes kernels and what was made of them. A virtual machine that runs with one goes on.";
constexpr std::array kFlags = {kJsonLinesFlag};
constexpr std::array kExamples = {
    Example{"sbx kernel rm 6.1.0-56-amd64", "an old one"},
    Example{"sbx kernel rm 6.1.0-55-amd64 6.1.0-56-amd64 --json", "two"},
};

Status remove_one(const std::string& state_dir, const std::string& name, bool is_json) {
  SBX_TRY(kernel::remove(state_dir, name));
  return is_json ? print(kernel::removed_json(name) + "\n") : Status();
}

int remove(const Invocation& given) {
  const Result<Directories> dirs = directories(State::kNeeded);
  if (!dirs.ok()) return failed(dirs.error());
  const std::string& state = dirs.value().state;
  int status = 0;
  for (const std::string& name : given.words()) {
    const Status removed = remove_one(state, name, given.has("json"));
    if (removed.ok()) continue;
    const int now = failed(removed.error());
    if (status == 0) status = now;
  }
  for (const kernel::Stale& stale : kernel::stale_files(state)) {
    (void)kernel::remove_stale(state, stale);
  }
  return status;
}

}  // namespace

constexpr Verb kKernelRmVerb = {
    .name = "kernel rm",
    .summary = "Remove kernels for virtual machines",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1000, .name = "NAME"},
    .examples = kExamples,
    .run = remove,
};

}  // namespace sbx::cli
