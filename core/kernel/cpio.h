// Cpio: the parts of a "newc" cpio archive (cpio(5), and the kernel's buffer-format), which is what
// an initramfs is made of. Pure: the caller writes them one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sbx::kernel {

struct CpioMember {
  std::string_view name;     ///< relative; directories come before what is in them
  std::uint32_t mode = 0;    ///< with the file type, as in stat(2)
  std::uint32_t size = 0;    ///< of a file's content
  std::uint32_t number = 0;  ///< another one for each member
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
};
/// What stands before its content: header, name and the padding behind that. Owner 0:0, time 0.
std::string cpio_header(const CpioMember& member);
/// What stands behind a content of `size` bytes.
std::string_view cpio_padding(std::uint64_t size);
/// What ends the archive.
std::string cpio_end();

}  // namespace sbx::kernel
