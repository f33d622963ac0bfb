// Codec tests: every message survives the wire, and nothing malformed gets through.
#include "core/ipc/codec.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sbx;

namespace {

std::vector<ipc::Message> one_of_each() {
  ipc::Exec exec;
  exec.id = 7;
  exec.argv = {"sh", "-c", std::string("a\0b", 3)};
  exec.env = {"A=1", ""};
  exec.cwd = "/work";
  exec.tty = true;
  exec.is_last = true;
  exec.rows = 41;
  exec.cols = 62;
  exec.has_user = true;
  exec.uid = 17;
  exec.gid = 18;
  exec.more_fds = 3;
  return {ipc::Setup{1, "plan"},
          exec,
          ipc::Signal{3, 15},
          ipc::Resize{4, 24, 80},
          ipc::Ready{1},
          ipc::SetupFailed{"bind /usr", "open_tree /usr", 2},
          ipc::Started{7, 2},
          ipc::ExecFailed{7, true, "execve x", 13},
          ipc::Exited{7, 0x8b},
          ipc::Begin{1, true, 0x1000, "base"},
          ipc::SetFrozen{true},
          ipc::FrozenSet{true, 110},
          ipc::Files{8, ipc::FilesOp::kUnpack, "/work/a", "a", true, false, true},
          ipc::Running{9, 3, true, false, true, false, true, true}};
}

}  // namespace

TEST_CASE("codec: every message decodes to what was encoded") {
  const std::vector<ipc::Message> messages = one_of_each();
  REQUIRE(messages.size() == std::variant_size_v<ipc::Message>);
  for (const ipc::Message& message : messages) {
    CAPTURE(message.index());
    const std::string bytes = ipc::encode(message);
    const auto header = ipc::decode_header(bytes, ipc::kMaxBodyFromAgent);
    REQUIRE(header.ok());
    CHECK(header.value().length == bytes.size() - ipc::kHeaderSize);
    const auto again = ipc::decode_body(header.value().type, bytes.substr(ipc::kHeaderSize));
    REQUIRE(again.ok());
    CHECK(again.value().index() == message.index());
    CHECK(ipc::encode(again.value()) == bytes);
  }
}

TEST_CASE("codec: a body that is cut short or has a byte too many is refused") {
  for (const ipc::Message& message : one_of_each()) {
    const std::string body = ipc::encode_body(message);
    const auto type = static_cast<uint16_t>(message.index());
    for (size_t size = 0; size < body.size(); ++size) {
      CHECK_FALSE(ipc::decode_body(type, body.substr(0, size)).ok());
    }
    CHECK_FALSE(ipc::decode_body(type, body + "x").ok());
  }
}

TEST_CASE("codec: lengths beyond the limit and unknown types and flags are refused") {
  ipc::Writer writer;
  writer.u32(65);
  writer.u16(0);
  writer.u16(0);
  const std::string header = writer.take();
  CHECK_FALSE(ipc::decode_header(header, 64).ok());
  CHECK(ipc::decode_header(header, 65).ok());
  CHECK_FALSE(ipc::decode_header(header.substr(0, 7), 65).ok());
  std::string unknown = header;
  unknown[4] = 99;
  CHECK_FALSE(ipc::decode_header(unknown, 65).ok());
  std::string flags = header;
  flags[6] = 1;
  CHECK_FALSE(ipc::decode_header(flags, 65).ok());
}

TEST_CASE("codec: a list that claims a billion items allocates nothing") {
  ipc::Writer writer;
  writer.u32(1);              // id
  writer.u32(1'000'000'000);  // argv
  const auto decoded = ipc::decode_body(1, writer.take());
  REQUIRE_FALSE(decoded.ok());
  CHECK(decoded.error().code() == Errc::kProtocol);
}

TEST_CASE("codec: an exec with more descriptors than a message may hold is refused") {
  ipc::Exec exec;
  exec.argv = {"a"};
  exec.more_fds = ipc::kMaxMoreFds;
  CHECK(ipc::decode_body(1, ipc::encode_body(exec)).ok());
  exec.more_fds = ipc::kMaxMoreFds + 1;
  CHECK_FALSE(ipc::decode_body(1, ipc::encode_body(exec)).ok());
}
