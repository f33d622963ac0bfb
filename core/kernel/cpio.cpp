// Cpio: see cpio.h.
#include "core/kernel/cpio.h"

#include <array>

namespace sbx::kernel {

namespace {

constexpr std::string_view kMagic = "070701";
constexpr std::string_view kEnd = "TRAILER!!!";
constexpr std::size_t kAlign = 4;

void add_field(std::string& out, std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (unsigned shift = 32; shift > 0; shift -= 4) {
    out += kDigits[(value >> (shift - 4)) & 15U];
  }
}

}  // namespace

std::string cpio_header(const CpioMember& member) {
  const std::array<std::uint64_t, 13> fields{member.number,
                                             member.mode,
                                             0,
                                             0,
                                             1,
                                             0,
                                             member.size,
                                             0,
                                             0,
                                             member.device_major,
                                             member.device_minor,
                                             member.name.size() + 1,
                                             0};
  std::string out(kMagic);
  for (const std::uint64_t field : fields) {
    add_field(out, field);
  }
  out += member.name;
  out += '\0';
  out.append((kAlign - out.size() % kAlign) % kAlign, '\0');
  return out;
}

std::string_view cpio_padding(std::uint64_t size) {
  constexpr std::string_view kZeros("\0\0\0", 3);
  return kZeros.substr(0, (kAlign - size % kAlign) % kAlign);
}

std::string cpio_end() {
  return cpio_header({.name = kEnd});
}

}  // namespace sbx::kernel
