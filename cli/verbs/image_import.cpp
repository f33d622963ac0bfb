// Verb image import: makes an image of an archive, of an OCI layout directory, or of what comes in.
#include <unistd.h>

#include <array>
#include <string>

#include "cli/image.h"
#include "cli/image_fetch.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/image/import.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx image import FILE|DIR|- NAME [--tag TAG] [FLAG...]"};
constexpr std::string_view kDetails =
    "Reads a tar file of a root file system, an archive that `docker save`, podman, buildah or "
    "skopeo wrote, or an OCI layout directory; compressed with gzip, xz, zstd, bzip2, lz4 or not "
    "at all. - reads standard input. What it is is found by its content.\n\n"
    "Nothing in it can reach anything but the new image. Layers that are here already are not "
    "stored again. An image that has NAME already is replaced when the new one is complete.";
constexpr std::array kFlags = {
    Flag{.name = "tag",
         .arg = "TAG",
         .help = "Of several images in one archive: the one with this tag"},
    Flag{.name = "max-size",
         .arg = "SIZE",
         .help = "Refuse an image whose files have more bytes than this (64G)"},
    Flag{.letter = 'q', .name = "quiet", .help = "No progress bar, and nothing printed"},
    kJsonFlag,
};
constexpr std::array kExamples = {
    Example{"sbx image import debian.tar.zst debian", "a root file system"},
    Example{"docker save app | sbx image import - app", "from another tool"},
    Example{"sbx image import layout/ app --tag 2.0", "one of an OCI layout"},
};

int import(const Invocation& given) {
  image::ImportRequest request;
  request.path = given.words()[0];
  request.name = given.words()[1];
  if (const Status name = image::check_name(request.name); !name.ok()) return failed(name.error());
  if (const std::string* tag = given.last("tag")) request.tag = *tag;
  if (const std::string* text = given.last("max-size")) {
    const Result<Bytes> size = parse_bytes(*text);
    if (!size.ok()) return failed(Error(size.error()).prefixed("--max-size"));
    request.budget.bytes = size.value();
  }
  if (request.path == "-" && ::isatty(STDIN_FILENO) == 1) {
    return failed(Error(Errc::kUsage, "import -: standard input is a terminal")
                      .with_hint("docker save IMAGE | sbx image import - NAME"));
  }
  request.source = request.path == "-" ? "import" : text::cat("import ", request.path);
  Result<image::Store> store = open_images();
  if (!store.ok()) return failed(store.error());
  return fetch_image(store.value(), given, [&](image::ImportProgress& progress) {
    request.progress = &progress;
    return image::import_image(store.value(), request);
  });
}

}  // namespace

constexpr Verb kImageImportVerb = {
    .name = "image import",
    .summary = "Make an image of an archive or a directory",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 2, .max = 2, .complete = Complete::kFile, .name = "FILE NAME"},
    .examples = kExamples,
    .run = import,
};

}  // namespace sbx::cli
