// Packages: see packages.h.
#include "cli/packages.h"

#include <unistd.h>

#include "cli/output.h"
#include "core/base/text.h"
#include "core/packages/add.h"

namespace sbx::cli {

run::PackagesHook packages_hook(const profile::LoadRequest& load, Talk talk) {
  packages::Context context;
  context.load = load;
  if (talk == Talk::kYes && ::isatty(STDERR_FILENO) == 1) {
    context.notice = [](std::string_view sentence) {
      (void)print_notice(text::cat("sbx: ", text::escape(sentence), "\n"));
    };
  }
  return packages::hook(std::move(context));
}

}  // namespace sbx::cli
