// Tests of cpio: the bytes of headers, paddings and the end, as the kernel reads them.
#include "core/kernel/cpio.h"

#include <sys/stat.h>

#include <string>

#include <doctest/doctest.h>

using namespace sbx::kernel;

TEST_CASE("cpio: a header has thirteen numbers of eight digits, the name, and whole words") {
  const std::string header =
      cpio_header({.name = "init", .mode = S_IFREG | 0755, .size = 0x1234, .number = 7});
  CHECK(header == std::string("070701"
                              "00000007"
                              "000081ed"
                              "00000000"
                              "00000000"
                              "00000001"
                              "00000000"
                              "00001234"
                              "00000000"
                              "00000000"
                              "00000000"
                              "00000000"
                              "00000005"
                              "00000000"
                              "init\0\0",
                              6 + 13 * 8 + 6));
  CHECK(header.size() % 4 == 0);
}

TEST_CASE("cpio: a device has its numbers") {
  const std::string header = cpio_header({.name = "dev/console",
                                          .mode = S_IFCHR | 0600,
                                          .number = 1,
                                          .device_major = 5,
                                          .device_minor = 1});
  CHECK(header.substr(6 + 9 * 8, 16) == "0000000500000001");
}

TEST_CASE("cpio: contents are padded to whole words") {
  CHECK(cpio_padding(0).empty());
  CHECK(cpio_padding(1).size() == 3);
  CHECK(cpio_padding(2).size() == 2);
  CHECK(cpio_padding(3).size() == 1);
  CHECK(cpio_padding(4).empty());
  CHECK(cpio_end().find("TRAILER!!!") != std::string::npos);
  CHECK(cpio_end().size() % 4 == 0);
}
