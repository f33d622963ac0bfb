// Tests of Debian packages: their ar header, their files, and what is broken in them.
#include "core/kernel/deb.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/sys.h"

#include "tests/support/kernel_files.h"

using namespace sbx;
using namespace sbx::kernel;
using test::make_deb;
using test::make_gzip;
using test::make_tar;

namespace {

UniqueFd file_of(const std::string& content) {
  auto file = sys::memfd_create("deb");
  REQUIRE(file.ok());
  REQUIRE(sys::write_all(file.value().get(), content).ok());
  REQUIRE(::lseek(file.value().get(), 0, SEEK_SET) == 0);
  return std::move(file).value();
}

/// "path=content" of all files, or the error.
Result<std::vector<std::string>> read_all(const std::string& deb) {
  const UniqueFd file = file_of(deb);
  SBX_ASSIGN(DebReader reader, DebReader::open(file.get()));
  std::vector<std::string> out;
  archive::Member member;
  while (true) {
    SBX_ASSIGN(const bool is_there, reader.next(member));
    if (!is_there) return out;
    std::string text = member.path + "=";
    while (true) {
      SBX_ASSIGN(const archive::MemberData data, reader.data());
      if (data.bytes.empty()) break;
      text.append(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size());
    }
    out.push_back(text);
  }
}

}  // namespace

TEST_CASE("deb: the files of a package are read, packed or not") {
  const std::string tar = make_tar({{"./a", "one"}, {"./b/c", std::string(1000, 'x')}});
  const std::vector<std::string> wanted{"./a=one", "./b/c=" + std::string(1000, 'x')};
  const auto plain = read_all(make_deb(tar));
  REQUIRE(plain.ok());
  CHECK(plain.value() == wanted);
  const auto packed = read_all(make_deb(make_gzip(tar), ".gz"));
  REQUIRE(packed.ok());
  CHECK(packed.value() == wanted);
}

TEST_CASE("deb: what is no package, or cut, is refused") {
  const std::string whole = make_deb(make_tar({{"./a", std::string(2000, 'y')}}));
  CHECK(read_all("").error().code() == Errc::kProtocol);
  CHECK(read_all("!<arch>\n").error().code() == Errc::kProtocol);
  CHECK(read_all("something else").error().code() == Errc::kProtocol);
  for (std::size_t size = 0; size < whole.size() - 1100; size += 37) {
    CAPTURE(size);
    CHECK_FALSE(read_all(whole.substr(0, size)).ok());
  }
  std::string newer = whole;
  newer[8 + 60] = '3';
  CHECK(read_all(newer).error().code() == Errc::kUnsupported);
  CHECK(read_all(whole.substr(0, 8) + whole.substr(8 + 64)).error().code() == Errc::kProtocol);
}

TEST_CASE("deb: a member's header is exact") {
  const std::string whole = make_deb("");
  const std::string header = whole.substr(8, kArHeaderSize);
  const auto member = parse_ar_header(header);
  REQUIRE(member.ok());
  CHECK(member.value().name == "debian-binary");
  CHECK(member.value().size == 4);
  std::string bad = header;
  bad[48] = '-';
  CHECK_FALSE(parse_ar_header(bad).ok());
  bad = header;
  bad[59] = 'x';
  CHECK_FALSE(parse_ar_header(bad).ok());
  CHECK_FALSE(parse_ar_header(header.substr(1)).ok());
  bad = header;
  bad.replace(48, 10, "9999999999");
  CHECK(parse_ar_header(bad).value().size == 9'999'999'999);
}
