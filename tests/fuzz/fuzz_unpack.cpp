// Fuzz target: a tar stream is unpacked into a directory of its own. Nothing may appear beside it,
// and what appears in it must be a plain file, directory or link without setuid bits.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/archive/inventory.h"
#include "core/archive/transfer.h"
#include "core/archive/unpack.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// The only name in `dir`, as the stream may make no other.
void require_alone(const std::string& dir, std::string_view name) {
  DIR* stream = ::opendir(dir.c_str());
  require(stream != nullptr);
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view found = entry->d_name;
    require(found == "." || found == ".." || found == name);
  }
  (void)::closedir(stream);
}

void unpack_into(int stream, const std::string& path, sbx::archive::Members members) {
  sbx::archive::UnpackRequest request;
  request.path = path;
  request.members = members;
  request.root_name.push_back('t');
  request.is_keeping_parts = true;
  request.max_entries = 1000;
  request.max_bytes = std::uint64_t{64} << 20U;
  sbx::archive::TransferReport report;
  require(::lseek(stream, 0, SEEK_SET) == 0);
  static_cast<void>(sbx::archive::unpack(request, stream, report));
  const auto read = sbx::archive::decode_report(sbx::archive::encode(report));
  require(read.ok());
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(sbx::archive::decode_report(text));
  const sbx::UniqueFd stream(::memfd_create("stream", MFD_CLOEXEC));
  require(stream.valid() && sbx::sys::write_all(stream.get(), text).ok());
  auto made = sbx::fs::TempDir::create("/tmp", "sbx-fuzz-unpack-");
  require(made.ok());
  const std::string inner = sbx::text::cat(made.value().path(), "/in");
  require(::mkdir(inner.c_str(), 0700) == 0);
  unpack_into(stream.get(), inner, sbx::archive::Members::kOneTree);
  require_alone(made.value().path(), "in");
  unpack_into(stream.get(), inner, sbx::archive::Members::kAny);
  require_alone(made.value().path(), "in");
  require(::lseek(stream.get(), 0, SEEK_SET) == 0);
  static_cast<void>(sbx::archive::Inventory::read(stream.get()));
  return 0;
}
