// QMP tests: against a peer that answers well, late, wrong, without end or not at all.
#include "core/backend/vm/qmp.h"

#include <sys/socket.h>

#include <array>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "core/base/sys.h"
#include "core/base/text.h"

using namespace sbx;

namespace {

constexpr const char* kGreeting =
    R"({"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}, "capabilities": []}})"
    "\r\n"
    R"({"return": {}, "id": 1})"
    "\r\n";

/// A client whose peer has said `lines` already.
struct Pair {
  explicit Pair(const std::string& lines) {
    auto made = sys::socketpair_stream();
    REQUIRE(made.ok());
    peer = std::move(made.value().b);
    REQUIRE(sys::write_all(peer.get(), lines).ok());
    client.emplace(std::move(made.value().a));
  }
  UniqueFd peer;
  std::optional<vm::Qmp> client;
};

Errc code_of(const Result<vm::QmpMessage>& answer) {
  return answer.ok() ? Errc::kInternal : answer.error().code();
}

}  // namespace

TEST_CASE("qmp: answers are found behind events, by their number") {
  Pair pair(std::string(kGreeting) + R"({"event": "STOP", "timestamp": {"seconds": 1}})" + "\n" +
            R"({"return": {"status": "old"}, "id": 1})" + "\n" +
            R"({"return": {"status": "paused", "running": false, "ram": {"total": 7}}, "id": 2})" +
            "\n");
  const auto answer = pair.client->execute("query-status");
  REQUIRE(answer.ok());
  CHECK(answer.value().get("status") == "paused");
  CHECK(answer.value().get("running") == "false");
  CHECK(answer.value().get("ram.total") == "7");
  CHECK_FALSE(answer.value().get("none").has_value());
  std::array<char, 512> sent{};
  const auto got = sys::read(pair.peer.get(), sent.data(), sent.size());
  REQUIRE(got.ok());
  CHECK(std::string(sent.data(), got.value()) ==
        "{\"execute\":\"qmp_capabilities\",\"id\":1}\n{\"execute\":\"query-status\",\"id\":2}\n");
}

TEST_CASE("qmp: a refusal says QEMU's words, and the next command works") {
  Pair pair(std::string(kGreeting) +
            R"({"error": {"class": "GenericError", "desc": "no such thing"}, "id": 2})" + "\n" +
            R"({"return": {}, "id": 3})" + "\n");
  const auto refused = pair.client->execute("balloon", R"({"value":1})");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code() == Errc::kUnsupported);
  CHECK(refused.error().message() == "QEMU refuses balloon: no such thing");
  CHECK(pair.client->execute("stop").ok());
}

TEST_CASE("qmp: whoever does not keep to the protocol is an error, never a hang or much memory") {
  struct Row {
    const char* what;
    std::string lines;
    Errc code;
  };
  const std::string greeting(kGreeting);
  const Row rows[] = {
      {"nothing", "", Errc::kTimeout},
      {"no greeting", "{\"return\": {}, \"id\": 1}\n", Errc::kProtocol},
      {"no JSON", greeting + "hello\n", Errc::kProtocol},
      {"no object", greeting + "[1]\n", Errc::kProtocol},
      {"no message", greeting + "{\"id\": 2}\n", Errc::kProtocol},
      {"events only", greeting + "{\"event\": \"A\"}\n{\"event\": \"A\"}\n", Errc::kTimeout},
      {"an answer ahead", greeting + "{\"return\": {}, \"id\": 9}\n", Errc::kProtocol},
      {"a number below zero", greeting + "{\"return\": {}, \"id\": -2}\n", Errc::kTimeout},
      {"a line cut short", greeting + "{\"return\": {}, \"id\": 2}", Errc::kTimeout},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    Pair pair(row.lines);
    CHECK(code_of(pair.client->execute("stop", {}, Millis{50})) == row.code);
  }
  Pair gone(greeting);
  gone.peer.reset();
  CHECK(code_of(gone.client->execute("stop", {}, Millis{50})) == Errc::kProtocol);
  CHECK_FALSE(vm::parse_qmp(std::string(vm::kMaxQmpLine + 1, ' ')).ok());
  CHECK_FALSE(vm::parse_qmp(std::string(100'000, '[')).ok());
}

TEST_CASE("qmp: an answer that comes too late is not taken for the next one's") {
  Pair pair(kGreeting);
  CHECK(code_of(pair.client->execute("stop", {}, Millis{20})) == Errc::kTimeout);
  REQUIRE(
      sys::write_all(pair.peer.get(),
                     "{\"return\": {\"a\": 1}, \"id\": 2}\n{\"return\": {\"a\": 2}, \"id\": 3}\n")
          .ok());
  const auto answer = pair.client->execute("cont");
  REQUIRE(answer.ok());
  CHECK(answer.value().get("a") == "2");
}

TEST_CASE("qmp: a descriptor goes along with its command") {
  Pair pair(std::string(kGreeting) + "{\"return\": {}, \"id\": 2}\n");
  auto pipe = sys::pipe();
  REQUIRE(pipe.ok());
  REQUIRE(pair.client->execute("getfd", R"({"fdname":"a"})", vm::kQmpDeadline, pipe.value().w.get())
              .ok());
  std::array<char, 512> bytes{};
  alignas(cmsghdr) std::array<char, 64> control{};
  int passed = -1;
  for (int i = 0; i < 3 && passed < 0; ++i) {
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    REQUIRE(::recvmsg(pair.peer.get(), &message, MSG_CMSG_CLOEXEC) > 0);
    if (cmsghdr* head = CMSG_FIRSTHDR(&message))
      std::memcpy(&passed, CMSG_DATA(head), sizeof passed);
  }
  const UniqueFd theirs(passed);
  REQUIRE(theirs.valid());
  CHECK(sys::write_all(theirs.get(), "x").ok());
}
