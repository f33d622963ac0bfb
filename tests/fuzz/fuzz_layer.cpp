// Fuzz target: a tar stream is written as a layer into a directory of its own. Nothing may appear
// beside it, and no device but whiteouts in it. Its first bytes are also taken for the archive of
// an image and for a compressed stream, and all of it for the texts of one.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/archive/archive_reader.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "core/image/image_archive.h"
#include "core/image/layer_import.h"
#include "core/image/layer_report.h"
#include "core/workspace/beneath.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// A stream in blocks of `size`, so that headers lie across their borders.
sbx::archive::NextBlock blocks_of(std::string_view text, std::size_t size) {
  return [text, size]() mutable -> sbx::Result<std::span<const std::byte>> {
    const std::string_view block = text.substr(0, size);
    text.remove_prefix(block.size());
    return std::as_bytes(std::span(block.data(), block.size()));
  };
}

void check_tree(int dirfd, int depth) {
  const auto names = sbx::workspace::read_names(dirfd);
  if (!names.ok() || depth > 64) return;
  for (const std::string& name : names.value()) {
    const auto st = sbx::sys::fstatat(dirfd, name, AT_SYMLINK_NOFOLLOW);
    require(st.ok());
    const mode_t mode = st.value().st_mode;
    require(!S_ISBLK(mode) && !S_ISSOCK(mode));
    require(!S_ISCHR(mode) || sbx::workspace::is_whiteout(st.value()));
    require(!name.starts_with(".wh."));
    if (!S_ISDIR(mode)) continue;
    const auto below = sbx::workspace::open_entry(dirfd, name, O_RDONLY | O_DIRECTORY);
    if (below.ok()) check_tree(below.value().get(), depth + 1);
  }
}

void unpack(std::string_view text, std::size_t block) {
  auto made = sbx::fs::TempDir::create("/tmp", "sbx-fuzz-layer-");
  require(made.ok());
  require(sbx::sys::mkdirat(made.value().fd(), "in", 0700).ok());
  auto root = sbx::workspace::open_entry(made.value().fd(), "in", O_RDONLY | O_DIRECTORY);
  require(root.ok());
  auto again = sbx::sys::dup(root.value().get());
  require(again.ok());
  sbx::image::LayerLimits limits;
  limits.bytes = std::uint64_t{64} << 20U;
  limits.entries = 1000;
  limits.depth = 50;
  const sbx::image::LayerReport report =
      sbx::image::import_layer(std::move(root).value(), limits, blocks_of(text, block), [] {});
  const auto read = sbx::image::decode_layer_report(sbx::image::encode(report));
  require(read.ok());
  require(report.bytes <= limits.bytes);
  const auto names = sbx::workspace::read_names(made.value().fd());
  require(names.ok() && names.value() == std::vector<std::string>{"in"});
  check_tree(again.value().get(), 0);
}

void read_image(std::string_view text) {
  sbx::image::ImageArchive archive;
  const auto done =
      archive.read(blocks_of(text, 4096),
                   {},
                   [](const std::string&,
                      sbx::archive::Compression,
                      sbx::image::Peekable& content) -> sbx::Status {
                     while (true) {
                       SBX_ASSIGN(const std::span<const std::byte> bytes, content.next());
                       if (bytes.empty()) return sbx::Status();
                     }
                   });
  if (done.ok()) static_cast<void>(sbx::image::plan_image(archive.find_text(), {}));
}

void decompress(std::string_view text) {
  const sbx::archive::Compression kind = sbx::archive::compression_of(text);
  if (kind == sbx::archive::Compression::kNone) return;
  auto plain = sbx::archive::Decompressor::open(kind, blocks_of(text, 4096));
  std::size_t total = 0;
  while (plain.ok() && total < (std::size_t{16} << 20U)) {
    const auto bytes = plain.value().next();
    if (!bytes.ok() || bytes.value().empty()) return;
    total += bytes.value().size();
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ::umask(0);
  unpack(text, 777);
  static_cast<void>(sbx::image::is_image_archive(text));
  static_cast<void>(sbx::image::decode_layer_report(text));
  static_cast<void>(sbx::image::parse_image_config(text));
  read_image(text);
  decompress(text);
  return 0;
}
