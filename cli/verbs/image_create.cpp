// Verb image create: an image of Debian packages, from the sources of this host's own apt.
#include <array>
#include <string>
#include <string_view>

#include "cli/image.h"
#include "cli/image_fetch.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/image/debootstrap.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx image create NAME --debootstrap SUITE [FLAG...]"};
constexpr std::string_view kDetails =
    "Installs a Debian system as an image, without any registry: mmdebstrap(1), which has to be "
    "installed, gets the packages from where this host's apt gets its own, with the same keys. "
    "SUITE is a release such as bookworm; one that the host does not use is looked for on the "
    "host's first archive. Updates and security fixes come along where the host has them.\n\n"
    "Scripts of packages run in a user namespace that has the ids of images and none of the host. "
    "What mmdebstrap says is shown on standard error. An image that has NAME already is replaced "
    "when the new one is complete.";
constexpr std::array kFlags = {
    Flag{.name = "debootstrap", .arg = "SUITE", .help = "The release to install"},
    Flag{.name = "include",
         .arg = "PACKAGE",
         .help = "Install this as well; repeatable, or with commas",
         .repeat = Repeat::kAll},
    Flag{.name = "variant",
         .arg = "VARIANT",
         .help = "Which packages to install: minbase when not given, see mmdebstrap(1)",
         .complete = Complete::kChoice,
         .choices = image::kDebootstrapVariants},
    Flag{.letter = 'q', .name = "quiet", .help = "Show what mmdebstrap says only when it fails"},
    kJsonFlag,
};
constexpr std::array kExamples = {
    Example{"sbx image create debian --debootstrap bookworm", "a small Debian, in one command"},
    Example{"sbx image create dev --debootstrap bookworm --include git,build-essential",
            "with more packages"},
};

int create(const Invocation& given) {
  image::DebootstrapRequest request;
  request.name = given.words()[0];
  const std::string* suite = given.last("debootstrap");
  if (suite == nullptr) {
    return failed(Error(Errc::kUsage, "image create: what to make it of is missing")
                      .with_hint("sbx image create NAME --debootstrap bookworm"));
  }
  request.suite = *suite;
  for (const std::string& given_text : given.all("include")) {
    for (const std::string_view package : text::split(given_text, ',')) {
      request.include.emplace_back(text::trim(package));
    }
  }
  if (const std::string* variant = given.last("variant")) request.variant = *variant;
  request.is_quiet = given.has("quiet");
  Result<image::Store> store = open_images();
  if (!store.ok()) return failed(store.error());
  return fetch_image(
      store.value(),
      given,
      [&](image::ImportProgress& progress) {
        request.progress = &progress;
        return image::create_debootstrap(store.value(), request);
      },
      Bar::kNo);
}

}  // namespace

constexpr Verb kImageCreateVerb = {
    .name = "image create",
    .summary = "Make an image of Debian packages, with mmdebstrap",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1, .name = "NAME"},
    .examples = kExamples,
    .run = create,
};

}  // namespace sbx::cli
