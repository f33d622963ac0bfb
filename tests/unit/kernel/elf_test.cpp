// Tests of ELF files: the PVH entry of kernels, what modules say, build ids; offsets that lie.
#include "core/kernel/elf.h"

#include <elf.h>

#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/kernel_files.h"

using namespace sbx;
using namespace sbx::kernel;
using test::make_module;
using test::make_vmlinux;

TEST_CASE("elf: a kernel with a PVH entry can be started, one without cannot") {
  CHECK(check_vmlinux(make_vmlinux("6.1.0")).ok());
  CHECK(check_vmlinux(make_vmlinux("6.1.0", false)).error().code() == Errc::kUnsupported);
  CHECK(check_vmlinux(make_module({"a=b"})).error().code() == Errc::kProtocol);
  CHECK(check_vmlinux("").error().code() == Errc::kProtocol);
  std::string small = make_vmlinux("6.1.0");
  small[EI_CLASS] = ELFCLASS32;
  CHECK(check_vmlinux(small).error().code() == Errc::kProtocol);
}

TEST_CASE("elf: no cut of a file and no lie in it reads beyond its end") {
  const std::string kernel = make_vmlinux("6.1.0");
  const std::string module = make_module({"depends=a,b", "name=c"});
  for (std::size_t size = 0; size < module.size(); ++size) {
    (void)check_vmlinux(kernel.substr(0, size));
    CHECK_FALSE(modinfo(module.substr(0, size)).ok());
  }
  for (std::size_t at = 0; at < module.size(); ++at) {
    std::string lie = module;
    lie[at] = '\xff';
    (void)modinfo(lie);
    (void)build_id(lie);
    (void)has_interpreter(lie);
  }
  for (std::size_t at = 0; at < kernel.size(); ++at) {
    std::string lie = kernel;
    lie[at] = '\xff';
    (void)check_vmlinux(lie);
  }
}

TEST_CASE("elf: a module says what it depends on") {
  const std::string file = make_module({"depends=a,b", "name=c"});
  const auto info = modinfo(file);
  REQUIRE(info.ok());
  CHECK(info.value() == std::string("depends=a,b\0name=c\0", 19));
  CHECK_FALSE(modinfo(make_vmlinux("6.1.0")).ok());
}
