// Tests of bzImages: the kernel in them, and lies about where it is and how big.
#include "core/kernel/bzimage.h"

#include <cstdint>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/kernel_files.h"

using namespace sbx;
using namespace sbx::kernel;
using test::make_bzimage;
using test::make_gzip;
using test::make_old_lz4;
using test::make_vmlinux;

namespace {

std::string with_u32(std::string image, std::size_t offset, std::uint32_t value) {
  std::memcpy(image.data() + offset, &value, sizeof(value));
  return image;
}

}  // namespace

TEST_CASE("bzimage: the kernel in it and its release are found") {
  const std::string plain = make_vmlinux("6.1.0-1-test");
  for (const std::string& payload : {make_gzip(plain), make_old_lz4(plain)}) {
    const std::string file = make_bzimage(payload, "6.1.0-1-test");
    CHECK(is_bzimage(file));
    const auto image = read_bzimage(file);
    REQUIRE(image.ok());
    CHECK(image.value().release == "6.1.0-1-test");
    CHECK(image.value().payload == payload);
    const auto unpacked = unpack_payload(image.value().payload);
    REQUIRE(unpacked.ok());
    CHECK(unpacked.value() == plain);
  }
}

TEST_CASE("bzimage: a payload that is not in the file is refused") {
  const std::string file = make_bzimage(make_gzip("x"), "6.1.0");
  for (const std::string& bad : {with_u32(file, 0x248, 0xffffffff),
                                 with_u32(file, 0x24c, 0xffffffff),
                                 file.substr(0, 1030),
                                 file.substr(0, 100),
                                 std::string()}) {
    CHECK_FALSE(read_bzimage(bad).ok());
  }
  std::string old = file;
  old[0x206] = 7;
  old[0x207] = 2;
  CHECK(read_bzimage(old).error().code() == Errc::kUnsupported);
}

TEST_CASE("bzimage: a kernel that is bigger than it may be, or than it says, is refused") {
  const std::string plain(100'000, 'k');
  const std::string payload = make_gzip(plain);
  CHECK(unpack_payload(payload, Bytes{plain.size()}).ok());
  CHECK(unpack_payload(payload, Bytes{plain.size() - 1}).error().code() == Errc::kLimit);
  std::string less = make_old_lz4(plain);
  less = with_u32(less, less.size() - 4, 99'999);
  CHECK(unpack_payload(less).error().message() == "the packed kernel is longer than it says");
  std::string more = make_old_lz4(plain);
  more = with_u32(more, more.size() - 4, 100'001);
  CHECK(unpack_payload(more).error().message() == "the packed kernel is shorter than it says");
  // No memory is taken for what is only said.
  CHECK_FALSE(unpack_payload(with_u32(make_old_lz4(plain), 0, 0x184c2102).substr(0, 40)).ok());
}

TEST_CASE("bzimage: packings that are not known are named") {
  const auto lzma = unpack_payload(std::string("\x5d\0\0\x80\0\0\0\0\0", 9));
  CHECK(lzma.error().code() == Errc::kUnsupported);
  CHECK(lzma.error().message() == "the kernel is packed with lzma");
  CHECK(unpack_payload("\x89LZO\r\n").error().message() == "the kernel is packed with lzo");
  CHECK(unpack_payload("what?").error().code() == Errc::kProtocol);
  CHECK(unpack_payload("").error().code() == Errc::kProtocol);
  CHECK(unpack_payload("\x1f\x8b").error().code() == Errc::kProtocol);
}

TEST_CASE("bzimage: an ELF kernel says its release") {
  CHECK(release_of_vmlinux(make_vmlinux("6.12.1+deb-amd64")) == "6.12.1+deb-amd64");
  CHECK(release_of_vmlinux("Linux version %s").empty());
  CHECK(release_of_vmlinux("Linux version ").empty());
  CHECK(release_of_vmlinux("Linux version 6." + std::string(500, '1')).size() == 100);
}
