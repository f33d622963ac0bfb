// Tests of Sha256 with the published vectors, in one and in many pieces.
#include "core/base/sha256.h"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sbx;

TEST_CASE("sha256: the vectors of FIPS 180-4") {
  Sha256 sha;
  CHECK(sha.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  sha.update("abc");
  CHECK(sha.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  sha.update("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq");
  CHECK(sha.hex() == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("sha256: pieces of any size give the digest of the whole") {
  const std::string million(1'000'000, 'a');
  constexpr std::string_view kExpected =
      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  Sha256 sha;
  sha.update(million);
  CHECK(sha.hex() == kExpected);
  std::string_view rest = million;
  for (std::size_t size = 1; !rest.empty(); size = size % 997 + 1) {
    sha.update(rest.substr(0, size));
    rest.remove_prefix(std::min(size, rest.size()));
  }
  CHECK(sha.hex() == kExpected);
}
