// Bzimage: the kernel inside a bzImage, which is a small loader with a compressed ELF file in it
// (the kernel's Documentation/x86/boot.rst, "payload_offset"). Pure; everything may be a lie.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::kernel {

/// The largest kernel that is taken, packed or not.
inline constexpr Bytes kMostKernel{std::uint64_t{256} << 20U};

/// Whether `head` (1 KiB) begins a bzImage.
bool is_bzimage(std::string_view head);

/// What is compressed in it, as a view into `image`; and the release that it says it is, empty when
/// it does not.
struct BzImage {
  std::string_view payload;
  std::string release;
};
/// kProtocol when it is none or cut; kUnsupported for one older than 2008.
Result<BzImage> read_bzimage(std::string_view image);

/// The ELF file of a bzImage's payload: gzip, bzip2, xz, zstd or lz4. kUnsupported for lzma and
/// lzo, kLimit when it has more than `most`.
Result<std::string> unpack_payload(std::string_view payload, Bytes most = kMostKernel);

/// The release that an ELF kernel says it is ("Linux version 6.1.0-57-amd64 …"); empty when it does
/// not.
std::string release_of_vmlinux(std::string_view file);

}  // namespace sbx::kernel
