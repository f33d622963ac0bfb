// Fuzz target: all that is read of kernels: packages, bzImages, ELF files, modules and their lists,
// records, what apt prints. Records must be written and read back as the same.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/sys.h"
#include "core/kernel/apt.h"
#include "core/kernel/bzimage.h"
#include "core/kernel/deb.h"
#include "core/kernel/elf.h"
#include "core/kernel/modules.h"
#include "core/kernel/record.h"
#include "core/kernel/store.h"

namespace {

using namespace sbx::kernel;

void require(bool holds) {
  if (!holds) std::abort();
}

void read_deb(std::string_view input) {
  const auto file = sbx::sys::memfd_create("deb");
  require(file.ok() && sbx::sys::write_all(file.value().get(), input).ok());
  require(::lseek(file.value().get(), 0, SEEK_SET) == 0);
  auto deb = DebReader::open(file.value().get());
  if (!deb.ok()) return;
  sbx::archive::Member member;
  while (true) {
    const auto is_there = deb.value().next(member);
    if (!is_there.ok() || !is_there.value()) return;
    (void)module_of_path(member.path);
    while (true) {
      const auto data = deb.value().data();
      if (!data.ok()) return;
      if (data.value().bytes.empty()) break;
    }
  }
}

void read_image(std::string_view input) {
  constexpr sbx::Bytes kMost{std::uint64_t{1} << 20U};
  const auto image = read_bzimage(input);
  if (!image.ok()) return;
  require(is_bzimage(input));
  require(image.value().payload.size() <= input.size());
  const auto plain = unpack_payload(image.value().payload, kMost);
  if (plain.ok()) require(plain.value().size() <= kMost.v);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  read_deb(input);
  read_image(input);
  (void)parse_ar_header(input.substr(0, kArHeaderSize));
  (void)check_vmlinux(input);
  (void)build_id(input);
  (void)has_interpreter(input);
  (void)release_of_vmlinux(input);
  if (const auto info = modinfo(input); info.ok()) (void)parse_modinfo(info.value());
  (void)parse_modinfo(input);
  (void)parse_builtin(input);
  (void)parse_builtin_aliases(input);
  (void)parse_config(input);
  (void)parse_apt_show(input);
  (void)apt_message(input);
  (void)check_name(input);
  const std::size_t half = size / 2;
  const int there = compare_releases(input.substr(0, half), input.substr(half));
  const int back = compare_releases(input.substr(half), input.substr(0, half));
  require((there < 0) == (back > 0) && (there == 0) == (back == 0));
  const auto record = parse_record(input);
  if (!record.ok()) return 0;
  const std::string once = to_json(record.value());
  const auto again = parse_record(once);
  require(again.ok() && to_json(again.value()) == once);
  return 0;
}
