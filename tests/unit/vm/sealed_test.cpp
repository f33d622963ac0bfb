// Sealed tests: what comes back is what went in, or an error.
#include "core/backend/vm/sealed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include <doctest/doctest.h>

#include "core/base/sys.h"

#include "tests/support/user.h"

using namespace sbx;

namespace {

UniqueFd file_of(const std::string& content) {
  auto file = sys::memfd_create("test");
  REQUIRE(file.ok());
  REQUIRE(sys::write_all(file.value().get(), content).ok());
  REQUIRE(::lseek(file.value().get(), 0, SEEK_SET) == 0);
  return std::move(file).value();
}

std::string content_of(const UniqueFd& file) {
  REQUIRE(::lseek(file.get(), 0, SEEK_SET) == 0);
  const auto all = sys::read_all(file.get(), Bytes{uint64_t{16} << 20});
  REQUIRE(all.ok());
  return all.value();
}

vm::SealKey key_of(int n) {
  vm::SealKey key{};
  key[0] = static_cast<std::byte>(n);
  return key;
}

std::string sealed(const std::string& content, int key = 1, std::string_view label = "a") {
  const UniqueFd from = file_of(content);
  const UniqueFd to = file_of("");
  REQUIRE(vm::seal(from.get(), to.get(), key_of(key), label).ok());
  return content_of(to);
}

/// "!" when it was refused.
std::string unsealed(const std::string& bytes, int key = 1, std::string_view label = "a") {
  const UniqueFd from = file_of(bytes);
  const UniqueFd to = file_of("");
  const Status done = vm::unseal(from.get(), to.get(), key_of(key), label);
  if (!done.ok()) {
    CHECK(done.error().code() == Errc::kProtocol);
    return "!";
  }
  return content_of(to);
}

std::string patterned(size_t size) {
  std::string out(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    out[i] = static_cast<char>(i * 7 + i / 251);
  }
  return out;
}

constexpr size_t kPiece = size_t{256} << 10;
constexpr size_t kHead = 40;

}  // namespace

TEST_CASE("sealed: every length comes back, and nothing of it can be read in the file") {
  for (const size_t size : {size_t{0}, size_t{1}, kPiece - 1, kPiece, kPiece + 1, 3 * kPiece}) {
    CAPTURE(size);
    const std::string content = patterned(size);
    const std::string bytes = sealed(content);
    CHECK(unsealed(bytes) == content);
    if (size > 64) CHECK(bytes.find(content.substr(0, 64)) == std::string::npos);
    CHECK(sealed(content) != bytes);
  }
}

TEST_CASE("sealed: what was changed, cut, reordered or is somebody else's is refused") {
  const std::string content = patterned(2 * kPiece + 100);
  const std::string bytes = sealed(content);
  REQUIRE(unsealed(bytes) == content);
  CHECK(unsealed(bytes, 2) == "!");
  CHECK(unsealed(bytes, 1, "b") == "!");
  for (const size_t at : {size_t{0}, size_t{10}, kHead, kHead + 3, kHead + 4, bytes.size() - 1}) {
    CAPTURE(at);
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK(unsealed(changed) == "!");
  }
  const size_t step = 4 + kPiece + 16;
  for (const size_t length :
       {size_t{0}, size_t{8}, kHead, kHead + 2, kHead + step, kHead + 2 * step, bytes.size() - 1}) {
    CAPTURE(length);
    CHECK(unsealed(bytes.substr(0, length)) == "!");
  }
  CHECK(unsealed(bytes + "x") == "!");
  CHECK(unsealed(bytes.substr(0, kHead) + bytes.substr(kHead + step, step) +
                 bytes.substr(kHead, step) + bytes.substr(kHead + 2 * step)) == "!");
  const std::string other = sealed(content);
  CHECK(unsealed(bytes.substr(0, kHead) + other.substr(kHead)) == "!");
}

TEST_CASE("sealed: the key is made once, ours alone, and nothing else is taken for it") {
  const test::WorkDir dir(test::self());
  const std::string place = dir.at("config");
  const auto first = vm::seal_key(place);
  REQUIRE(first.ok());
  const auto second = vm::seal_key(place);
  REQUIRE(second.ok());
  CHECK(first.value() == second.value());
  CHECK(first.value() != vm::SealKey{});
  struct stat info {};
  const std::string file = place + "/images.key";
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  REQUIRE(::chmod(file.c_str(), 0640) == 0);
  CHECK(vm::seal_key(place).error().code() == Errc::kDenied);
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  REQUIRE(::truncate(file.c_str(), 31) == 0);
  CHECK(vm::seal_key(place).error().code() == Errc::kProtocol);
}

TEST_CASE("sealed: through processes of their own, with a pipe as the open end") {
  const std::string content = patterned(kPiece * 5 + 3);
  const UniqueFd file = file_of("");
  auto in = vm::start_sealing(file.get(), key_of(1), "a");
  REQUIRE(in.ok());
  REQUIRE(sys::write_all(in.value().open_end.get(), content).ok());
  CHECK(in.value().finish().ok());
  REQUIRE(::lseek(file.get(), 0, SEEK_SET) == 0);
  auto out = vm::start_unsealing(file.get(), key_of(1), "a");
  REQUIRE(out.ok());
  const auto all = sys::read_all(out.value().open_end.get(), Bytes{uint64_t{16} << 20});
  REQUIRE(all.ok());
  CHECK(all.value() == content);
  CHECK(out.value().finish().ok());
  REQUIRE(::lseek(file.get(), 0, SEEK_SET) == 0);
  auto wrong = vm::start_unsealing(file.get(), key_of(2), "a");
  REQUIRE(wrong.ok());
  CHECK(sys::read_all(wrong.value().open_end.get(), Bytes{1}).value() == "");
  CHECK(wrong.value().finish().error().code() == Errc::kProtocol);
}
