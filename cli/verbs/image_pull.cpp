// Verb image pull: gets an image from a registry, with skopeo.
#include <array>
#include <string>
#include <string_view>

#include "cli/image.h"
#include "cli/image_fetch.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/image/pull.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx image pull REF [NAME] [--tls-verify true|false] [-q] [--json]"};
constexpr std::string_view kDetails =
    "Gets an image with skopeo(1), which has to be installed: registries, credentials (skopeo "
    "login) and mirrors are those of skopeo, podman and buildah. REF is a name such as debian:12 "
    "or HOST:PORT/NAME:TAG, or one with a transport of skopeo, such as docker-daemon:NAME:TAG or "
    "containers-storage:NAME. Of images for several platforms this machine's is taken.\n\n"
    "The image is called NAME, else as REF without its transport.";
constexpr std::array<std::string_view, 2> kYesNo{"true", "false"};
constexpr std::array kFlags = {
    Flag{.name = "tls-verify",
         .arg = "true|false",
         .help = "Whether a registry has to prove who it is; false also allows plain HTTP",
         .complete = Complete::kChoice,
         .choices = kYesNo},
    Flag{.letter = 'q', .name = "quiet", .help = "No progress bar, and nothing printed"},
    kJsonFlag,
};
constexpr std::array kExamples = {
    Example{"sbx image pull debian:12", "from the registry that skopeo asks by itself"},
    Example{"sbx image pull --tls-verify=false localhost:5000/tools tools", "from one without TLS"},
    Example{"sbx image pull containers-storage:localhost/app app", "what buildah or podman built"},
};

int pull(const Invocation& given) {
  image::PullRequest request;
  request.ref = given.words()[0];
  request.name = given.words().size() > 1 ? given.words()[1] : image::pull_name(request.ref);
  if (const auto source = image::skopeo_source(request.ref); !source.ok()) {
    return failed(source.error());
  }
  if (const Status name = image::check_name(request.name); !name.ok()) {
    return failed(Error(name.error()).with_hint("give it another: sbx image pull REF NAME"));
  }
  if (const std::string* tls = given.last("tls-verify")) {
    request.tls = *tls == "true" ? image::TlsVerify::kYes : image::TlsVerify::kNo;
  }
  Result<image::Store> store = open_images();
  if (!store.ok()) return failed(store.error());
  return fetch_image(store.value(), given, [&](image::ImportProgress& progress) {
    request.progress = &progress;
    return image::pull_image(store.value(), request);
  });
}

}  // namespace

constexpr Verb kImagePullVerb = {
    .name = "image pull",
    .summary = "Get an image from a registry, with skopeo",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 2, .name = "REF"},
    .examples = kExamples,
    .run = pull,
};

}  // namespace sbx::cli
