// Verb image build: makes an image by the steps of a recipe.
#include <fcntl.h>

#include <array>
#include <string>
#include <utility>

#include "cli/directories.h"
#include "cli/image.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/build/build.h"
#include "core/image/report.h"
#include "core/run/run.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx image build NAME [-f RECIPE.yaml] [--no-cache] [-q] [--json]"};
constexpr std::string_view kDetails =
    "Carries out the steps of a recipe on top of another image: run (in a sandbox without "
    "network), copy, env, user, workdir, entrypoint, cmd, expose, volume, label; see "
    "sbx-image(1). What a step needs of the host is beside the recipe: copies and mounts are "
    "below its directory.\n\n"
    "The state after each step is kept, and found again as long as the base, the steps before it "
    "and what they copy are the same; sbx gc removes states that were not used for a week. What "
    "steps write goes to stderr. Exit status: 0 made, 1 a step failed.";
constexpr std::array kFlags = {
    Flag{.letter = 'f',
         .name = "file",
         .arg = "RECIPE.yaml",
         .help = "The recipe (default recipe.yaml here)",
         .complete = Complete::kFile},
    Flag{.name = "no-cache", .help = "Carry out every step"},
    Flag{.letter = 'q', .name = "quiet", .help = "Do not say which step is on"},
    kJsonFlag,
};
constexpr std::array kExamples = {
    Example{"sbx image build tools -f tools.yaml", "the image tools"},
    Example{"sbx image build app --no-cache", "by recipe.yaml, all of it anew"},
};

/// The directory of `path`, absolute, links followed.
Result<std::string> directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string dir = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  SBX_ASSIGN(const UniqueFd fd, fs::open_dir(dir));
  return sys::readlinkat(AT_FDCWD, text::cat("/proc/self/fd/", fd.get()));
}

Result<build::BuildRequest> request_of(const Invocation& given) {
  constexpr Bytes kLongest{std::uint64_t{1} << 20U};
  build::BuildRequest request;
  request.name = given.words()[0];
  SBX_TRY(image::check_name(request.name));
  if (request.name.starts_with(image::kCachePrefix)) {
    return Error(Errc::kUsage,
                 text::cat("names that begin with ", image::kCachePrefix, " are sbx's own"));
  }
  const std::string* file = given.last("file");
  const std::string path = file == nullptr ? "recipe.yaml" : *file;
  auto text = fs::read_file(path, kLongest);
  if (!text.ok()) {
    return std::move(text)
        .error()
        .with_code(Errc::kUsage)
        .with_hint("-f names the recipe; sbx-image(1) has an example");
  }
  SBX_ASSIGN(request.recipe, build::parse_recipe(text.value(), path));
  SBX_ASSIGN(request.recipe_dir, directory_of(path));
  SBX_ASSIGN(const Directories dirs, directories(State::kNeeded));
  request.state_dir = dirs.state;
  request.private_dirs = dirs.all;
  request.source = text::cat("build ", path);
  request.is_using_cache = !given.has("no-cache");
  if (!given.has("quiet")) {
    request.on_step = [](const build::StepReport& step) {
      (void)print_notice(text::cat(
          "[", step.number, "/", step.count, "] ", step.text, step.is_cached ? " (kept)\n" : "\n"));
    };
    request.warn = print_warning;
  }
  return request;
}

int told(const build::FailedStep& failed) {
  constexpr int kSignalBase = 128;
  std::string message = text::cat("line ", failed.step.line, ": ", failed.step.to_text(), ": ");
  message += failed.error.empty() ? text::cat("exit status ", failed.exit_status)
                                  : text::escape(failed.error);
  print_error(Error(Errc::kSystem, std::move(message)));
  return failed.exit_status > kSignalBase ? failed.exit_status : kExitFailure;
}

int build_image(const Invocation& given) {
  run::settle_signals();
  Result<build::BuildRequest> request = request_of(given);
  if (!request.ok()) return failed(request.error());
  Result<build::Built> built = build::build(request.value());
  if (!built.ok()) return failed(built.error());
  if (built.value().failed.has_value()) return told(*built.value().failed);
  if (given.has("json")) return printed(print(image::listing_json(built.value().image) + "\n"));
  return given.has("quiet") ? 0 : printed(print(built.value().image.name + "\n"));
}

}  // namespace

constexpr Verb kImageBuildVerb = {
    .name = "image build",
    .summary = "Make an image by the steps of a recipe",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1, .name = "NAME"},
    .examples = kExamples,
    .run = build_image,
};

}  // namespace sbx::cli
