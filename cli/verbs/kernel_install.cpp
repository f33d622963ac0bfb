// Verb kernel install: gets a kernel for virtual machines, from the host's archive or from a file.
#include <array>
#include <string>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/session_numbers.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/kernel/install.h"
#include "core/kernel/report.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 2> kUsage = {
    "sbx kernel install [PACKAGE | --cloud] [--name NAME] [-q] [--json]",
    "sbx kernel install --from FILE [--name NAME] [-q] [--json]",
};
constexpr std::string_view kDetails =
    "Downloads the newest kernel that this host's package archive offers (linux-image-amd64, or "
    "PACKAGE) and takes out of it what a guest needs: the kernel and a few modules, about 70M. "
    "Nothing is installed on the host, and no rights are needed.\n\n"
    "With --from the kernel comes out of a file: a Debian package, a bzImage (vmlinuz), or the "
    "ELF file in it (vmlinux). The latter two bring no modules: they are for kernels with all "
    "drivers built in.\n\n"
    "What a guest cannot do with the kernel is said. One that has the name already is replaced.";
constexpr std::array kFlags = {
    Flag{.name = "from",
         .arg = "FILE",
         .help = "Take it out of this file: .deb, bzImage or vmlinux",
         .complete = Complete::kFile},
    Flag{.name = "cloud",
         .help = "The small kernel for clouds (27M instead of 71M to download): images work, the "
                 "host's files cannot be shown"},
    Flag{.name = "name", .arg = "NAME", .help = "What it is called here (the kernel's release)"},
    Flag{.letter = 'q', .name = "quiet", .help = "Print nothing but errors"},
    kJsonFlag,
};
constexpr std::array kExamples = {
    Example{"sbx kernel install", "what this host's archive offers"},
    Example{"sbx kernel install --cloud", "the small one"},
    Example{"sbx kernel install --from linux-image-6.1.0-57-amd64_6.1.192-3_amd64.deb",
            "without a network"},
};

int install(const Invocation& given) {
  kernel::InstallRequest request;
  if (const std::string* from = given.last("from")) request.from = *from;
  if (!given.words().empty()) request.package = given.words()[0];
  request.is_cloud = given.has("cloud");
  if (const std::string* name = given.last("name")) request.name = *name;
  const int sources = (request.from.empty() ? 0 : 1) + (request.package.empty() ? 0 : 1) +
                      (request.is_cloud ? 1 : 0);
  if (sources > 1) {
    return failed(Error(Errc::kUsage, "PACKAGE, --cloud and --from name different kernels")
                      .with_hint("give one of them"));
  }
  if (given.last("from") != nullptr && request.from.empty()) {
    return failed(Error(Errc::kUsage, "--from: the name of the file is empty"));
  }
  const bool is_quiet = given.has("quiet");
  if (!is_quiet && !given.has("json")) {
    request.tell = [](const std::string& what) {
      (void)print_notice(text::cat(text::escape(what), "\n"));
    };
  }
  const Result<Directories> dirs = directories(State::kNeeded);
  if (!dirs.ok()) return failed(dirs.error());
  const auto installed = kernel::install(dirs.value().state, request);
  if (!installed.ok()) return failed(installed.error());
  const kernel::Kernel& made = installed.value().kernel;
  if (given.has("json")) {
    return printed(print(
        kernel::installed_json(made, installed.value().is_new, installed.value().warnings) + "\n"));
  }
  if (is_quiet) return 0;
  for (const std::string& warning : installed.value().warnings) {
    print_warning(warning);
  }
  const kernel::Record& record = made.record;
  return printed(print(text::cat(record.name,
                                 "  ",
                                 bytes_text(record.vmlinux_bytes + record.modules_bytes),
                                 "  ",
                                 record.modules.size(),
                                 record.modules.size() == 1 ? " module" : " modules",
                                 installed.value().is_new ? "\n" : ", was there already\n")));
}

}  // namespace

constexpr Verb kKernelInstallVerb = {
    .name = "kernel install",
    .summary = "Get a kernel for virtual machines",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 0, .max = 1, .name = "PACKAGE"},
    .examples = kExamples,
    .run = install,
};

}  // namespace sbx::cli
