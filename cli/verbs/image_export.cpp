// Verb image export: an image as an archive for other tools, or as a file system.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "cli/image.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/session_numbers.h"
#include "cli/verbs.h"
#include "core/archive/archive.h"
#include "core/base/exit_code.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/export.h"
#include "core/image/store.h"
#include "core/image/vm_file.h"
#include "core/run/scratch.h"
#include "core/workspace/copy_file.h"

namespace sbx::cli {
namespace {

using archive::ArchiveFormat;
using archive::Compression;

constexpr std::array<std::string_view, 1> kUsage = {"sbx image export NAME FILE|- [FLAG...]"};
constexpr std::string_view kDetails =
    "Makes one file of an image. oci is an archive that skopeo, podman, buildah and docker read; "
    "docker is what `docker save` writes; tar is a plain root file system, what all layers show "
    "together; erofs and ext4 are the same as a file system, to be mounted or booted from. Without "
    "--format it is oci, and tar when FILE ends in .tar.gz, .tgz, .tar.zst or .tar.xz, which also "
    "says how it is compressed.\n\n"
    "Owners are as inside. Equal layers give equal bytes. FILE appears whole or not at all; - is "
    "standard output.";
constexpr std::array<std::string_view, 5> kFormats{"oci", "docker", "tar", "erofs", "ext4"};
constexpr std::array<std::string_view, 3> kCompressions{"gzip", "zstd", "none"};
constexpr std::array kFlags = {
    Flag{.name = "format",
         .arg = "oci|docker|tar|erofs|ext4",
         .help = "What to write",
         .complete = Complete::kChoice,
         .choices = kFormats},
    Flag{.name = "compress",
         .arg = "gzip|zstd|none",
         .help = "How layers (oci) or the tar file are compressed",
         .complete = Complete::kChoice,
         .choices = kCompressions},
    Flag{.letter = 'q', .name = "quiet", .help = "No progress bar, and nothing printed"},
    kJsonFlag,
};
constexpr std::array kExamples = {
    Example{"sbx image export app app.tar", "for skopeo, podman, buildah and docker"},
    Example{"sbx image export app - --format docker | docker load", "into docker"},
    Example{"sbx image export app root.tar.zst", "the root file system alone"},
};

enum class Format : std::uint8_t { kOci, kDocker, kTar, kErofs, kExt4 };

struct Wanted {
  std::string file;  ///< "-" for standard output
  Format format = Format::kOci;
  Compression how = Compression::kNone;
};

Format format_named(std::string_view text) {
  if (text == "docker") return Format::kDocker;
  if (text == "tar") return Format::kTar;
  if (text == "erofs") return Format::kErofs;
  return text == "ext4" ? Format::kExt4 : Format::kOci;
}

/// What the end of a file's name says of a tar file; nullopt where it says nothing.
std::optional<Compression> compression_of(const std::string& file) {
  switch (archive::archive_format(file)) {
    case ArchiveFormat::kTarGz:
      return Compression::kGzip;
    case ArchiveFormat::kTarZst:
      return Compression::kZstd;
    case ArchiveFormat::kTarXz:
      return Compression::kXz;
    case ArchiveFormat::kNone:
    case ArchiveFormat::kTar:
    case ArchiveFormat::kZip:
      return std::nullopt;
  }
  return std::nullopt;
}

Result<Wanted> wanted_of(const Invocation& given) {
  Wanted wanted;
  wanted.file = given.words()[1];
  const std::optional<Compression> by_name = compression_of(wanted.file);
  if (const std::string* text = given.last("format")) {
    wanted.format = format_named(*text);
  } else if (by_name.has_value()) {
    wanted.format = Format::kTar;
  }
  const bool is_tar = wanted.format == Format::kTar;
  if (wanted.format == Format::kOci) wanted.how = Compression::kGzip;
  if (is_tar && by_name.has_value()) wanted.how = *by_name;
  if (const std::string* text = given.last("compress")) {
    if (!is_tar && wanted.format != Format::kOci) {
      return Error(Errc::kUsage, "--compress is for --format oci and tar");
    }
    wanted.how = *text == "gzip"   ? Compression::kGzip
                 : *text == "zstd" ? Compression::kZstd
                                   : Compression::kNone;
  }
  if (wanted.file == "-" && ::isatty(STDOUT_FILENO) == 1) {
    return Error(Errc::kUsage, "an archive is nothing for a terminal")
        .with_hint("name a file, or use a pipe");
  }
  if (wanted.file == "-" && given.has("json")) {
    return Error(Errc::kUsage, "--json and the archive cannot both go to standard output")
        .with_hint("name a file");
  }
  return wanted;
}

/// Copies all of a file to a descriptor of any kind.
Status copy_out(int from, int to) {
  constexpr std::size_t kChunk = std::size_t{1} << 20U;
  if (::lseek64(from, 0, SEEK_SET) == -1) return sys_error("rewind the archive");
  std::string buffer(kChunk, '\0');
  while (true) {
    SBX_ASSIGN(const std::size_t size, sys::read(from, buffer.data(), buffer.size()));
    if (size == 0) return {};
    SBX_TRY(sys::write_all(to, std::string_view(buffer).substr(0, size)));
  }
}

Result<image::ExportReport> copy_vm_file(const image::Store& store,
                                         const image::Opened& image,
                                         const Wanted& wanted,
                                         int fd) {
  const std::string type = wanted.format == Format::kErofs ? "erofs" : "ext4";
  SBX_ASSIGN(const image::VmFile made, image::vm_file(store, image, type));
  if (wanted.file == "-") {
    SBX_TRY(copy_out(made.file.get(), fd));
  } else {
    workspace::Reflink reflink = workspace::Reflink::kTry;
    SBX_ASSIGN([[maybe_unused]] const workspace::ContentCopy copied,
               workspace::copy_content(made.file.get(), fd, made.bytes, reflink));
  }
  return image::ExportReport{made.bytes, {}};
}

/// `fd` can seek, but for tar files and file systems.
Result<image::ExportReport> write(const image::Store& store,
                                  const image::Opened& image,
                                  const Wanted& wanted,
                                  int fd,
                                  ProgressBar& bar) {
  const image::OnExport told = [&bar](std::uint64_t done, std::uint64_t total) -> Status {
    // A tar has headers, so it is a little longer than what it holds.
    if (bar.is_on()) bar.show(session::CopyProgress{done, std::max(done, total)});
    return {};
  };
  switch (wanted.format) {
    case Format::kOci:
      return image::export_oci(store, image, fd, wanted.how, told);
    case Format::kDocker:
      return image::export_docker(store, image, fd, told);
    case Format::kTar:
      return image::export_tar(store, image, fd, wanted.how, told);
    case Format::kErofs:
    case Format::kExt4:
      return copy_vm_file(store, image, wanted, fd);
  }
  return Error(Errc::kInternal, "an unknown format");
}

mode_t usual_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

/// Writes a file that appears whole.
Result<image::ExportReport> write_file(const image::Store& store,
                                       const image::Opened& image,
                                       const Wanted& wanted,
                                       ProgressBar& bar) {
  const std::size_t slash = wanted.file.rfind('/');
  const bool has_parent = slash != std::string::npos;
  const std::string parent = has_parent ? wanted.file.substr(0, slash + 1) : ".";
  const std::string name = has_parent ? wanted.file.substr(slash + 1) : wanted.file;
  if (name.empty() || name == "." || name == "..") {
    return Error(Errc::kUsage, text::cat(text::escape(wanted.file), " is a directory"))
        .with_hint("name a file in it");
  }
  SBX_ASSIGN(const run::Scratch scratch, run::Scratch::create(parent, store.state_dir()));
  SBX_ASSIGN(const UniqueFd file,
             sys::openat(scratch.fd(), "archive", O_RDWR | O_CREAT | O_EXCL, 0600));
  SBX_ASSIGN(image::ExportReport report, write(store, image, wanted, file.get(), bar));
  SBX_TRY(sys::fchmod(file.get(), usual_mode()));
  SBX_TRY(sys::fsync(file.get()));
  SBX_TRY(sys::renameat(scratch.fd(), "archive", scratch.parent_fd(), name));
  SBX_TRY(sys::fsync(scratch.parent_fd()));
  return report;
}

/// To standard output: what is written back and forth goes through a file without a name.
Result<image::ExportReport> write_stream(const image::Store& store,
                                         const image::Opened& image,
                                         const Wanted& wanted,
                                         ProgressBar& bar) {
  const bool needs_seek = wanted.format == Format::kOci || wanted.format == Format::kDocker;
  if (!needs_seek) return write(store, image, wanted, STDOUT_FILENO, bar);
  SBX_ASSIGN(const UniqueFd file, sys::open(store.state_dir(), O_TMPFILE | O_RDWR, 0600));
  SBX_ASSIGN(image::ExportReport report, write(store, image, wanted, file.get(), bar));
  SBX_TRY(copy_out(file.get(), STDOUT_FILENO));
  return report;
}

std::string as_json(const image::Record& record,
                    const Wanted& wanted,
                    const image::ExportReport& report) {
  const std::string_view format = kFormats.at(static_cast<std::size_t>(wanted.format));
  std::string out = text::cat("{\"name\":", json_string(record.name));
  out += text::cat(",\"id\":", json_string(record.id), ",\"file\":", json_string(wanted.file));
  out += text::cat(",\"format\":", json_string(format), ",\"bytes\":", report.bytes);
  if (!report.digest.empty()) out += text::cat(",\"digest\":", json_string(report.digest));
  return out + "}\n";
}

Result<std::string> run_export(const Invocation& given) {
  SBX_ASSIGN(const Wanted wanted, wanted_of(given));
  SBX_ASSIGN(const image::Store store, open_images());
  SBX_ASSIGN(const image::Opened image, image::open_image(store.state_dir(), given.words()[0]));
  ProgressBar bar(!given.has("quiet"));
  auto report = wanted.file == "-" ? write_stream(store, image, wanted, bar)
                                   : write_file(store, image, wanted, bar);
  bar.clear();
  if (!report.ok()) return std::move(report).error();
  if (given.has("json")) return as_json(image.record, wanted, report.value());
  if (wanted.file == "-" || given.has("quiet")) return std::string();
  return text::cat(text::escape(wanted.file), "  ", bytes_text(report.value().bytes), "\n");
}

int export_verb(const Invocation& given) {
  const Result<std::string> said = run_export(given);
  if (!said.ok()) return failed(said.error());
  return said.value().empty() ? kExitOk : printed(print(said.value()));
}

}  // namespace

constexpr Verb kImageExportVerb = {
    .name = "image export",
    .summary = "Make an archive of an image, for other tools",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 2, .max = 2, .complete = Complete::kFile, .name = "NAME FILE"},
    .examples = kExamples,
    .run = export_verb,
};

}  // namespace sbx::cli
