// Channel tests: messages and descriptors over a real socket pair, sizes and ends included.
#include "core/ipc/channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "core/base/sys.h"
#include "core/ipc/codec.h"

using namespace sbx;

namespace {

struct Ends {
  ipc::Channel host;
  ipc::Channel agent;
};

Ends make_ends() {
  auto pair = sys::socketpair_seqpacket();
  REQUIRE(pair.ok());
  return {ipc::Channel(std::move(pair.value().a), ipc::Side::kHost),
          ipc::Channel(std::move(pair.value().b), ipc::Side::kAgent)};
}

}  // namespace

TEST_CASE("channel: a message arrives with its descriptors, close-on-exec") {
  Ends ends = make_ends();
  auto pipe = sys::pipe();
  REQUIRE(pipe.ok());
  const int fds[] = {pipe.value().r.get(), pipe.value().w.get()};
  REQUIRE(ends.host.send(ipc::Signal{5, 9}, fds).ok());
  auto received = ends.agent.receive(ipc::Wait::kYes);
  REQUIRE(received.ok());
  CHECK(std::get<ipc::Signal>(received.value().message).signo == 9);
  REQUIRE(received.value().fds.size() == 2);
  CHECK((::fcntl(received.value().fds[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE(sys::write_all(received.value().fds[1].get(), "x").ok());
  char byte = 0;
  CHECK(::read(pipe.value().r.get(), &byte, 1) == 1);
}

TEST_CASE("channel: an argv of megabytes goes to the agent, and not the other way") {
  Ends ends = make_ends();
  ipc::Exec exec;
  exec.argv = {"echo", std::string(size_t{3} << 20, 'a')};
  auto pipe = sys::pipe();
  REQUIRE(pipe.ok());
  const int fds[] = {pipe.value().r.get()};
  REQUIRE(ends.host.send(exec, fds).ok());
  auto received = ends.agent.receive(ipc::Wait::kYes);
  REQUIRE(received.ok());
  CHECK(std::get<ipc::Exec>(received.value().message).argv[1].size() == size_t{3} << 20);
  CHECK(received.value().fds.size() == 1);
  CHECK_FALSE(ends.agent.send(exec).ok());
}

TEST_CASE("channel: nothing there, the other side gone, and rubbish are told apart") {
  Ends ends = make_ends();
  auto none = ends.host.receive(ipc::Wait::kNo);
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code() == Errc::kNotFound);
  SUBCASE("gone") {
    Ends other = make_ends();
    std::swap(ends.agent, other.agent);
    auto gone = other.host.receive(ipc::Wait::kNo);
    CHECK(gone.error().code() == Errc::kNotFound);  // still open in `ends`
  }
  SUBCASE("rubbish") {
    for (const std::string& bytes :
         {std::string("x"), std::string(9, '\xff'), std::string(1, '\0')}) {
      REQUIRE(::send(ends.agent.fd(), bytes.data(), bytes.size(), 0) ==
              static_cast<ssize_t>(bytes.size()));
      auto rubbish = ends.host.receive(ipc::Wait::kNo);
      REQUIRE_FALSE(rubbish.ok());
      CHECK(rubbish.error().code() == Errc::kProtocol);
    }
  }
  SUBCASE("a body in a memfd is not taken from inside") {
    auto memfd = sys::memfd_create("t");
    REQUIRE(memfd.ok());
    std::string frame = ipc::encode(ipc::Ready{}).substr(0, ipc::kHeaderSize);
    auto pair = sys::socketpair_seqpacket();
    REQUIRE(pair.ok());
    ipc::Channel host(std::move(pair.value().a), ipc::Side::kHost);
    const std::string bytes = std::string(1, '\1') + frame;
    REQUIRE(::send(pair.value().b.get(), bytes.data(), bytes.size(), 0) > 0);
    auto refused = host.receive(ipc::Wait::kNo);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code() == Errc::kProtocol);
  }
}

TEST_CASE("channel: the end of the other side is a protocol error that says so") {
  auto pair = sys::socketpair_seqpacket();
  REQUIRE(pair.ok());
  ipc::Channel host(std::move(pair.value().a), ipc::Side::kHost);
  pair.value().b.reset();
  auto gone = host.receive(ipc::Wait::kYes);
  REQUIRE_FALSE(gone.ok());
  CHECK(gone.error().message() == "the other side closed the channel");
}

TEST_CASE("channel: what the other side sent before it ended arrives, whatever it left unread") {
  Ends ends = make_ends();
  REQUIRE(ends.host.send(ipc::Resize{1, 24, 80}).ok());
  REQUIRE(ends.agent.send(ipc::Exited{1, 7 << 8}).ok());
  { const ipc::Channel ended = std::move(ends.agent); }
  auto received = ends.host.receive(ipc::Wait::kNo);
  REQUIRE(received.ok());
  CHECK(std::get<ipc::Exited>(received.value().message).wait_status == 7 << 8);
  CHECK(ends.host.receive(ipc::Wait::kNo).error().code() == Errc::kProtocol);
}

TEST_CASE("channel: sending to a side that has ended is told apart, and its last words are read") {
  for (const bool leaves_unread : {true, false}) {
    CAPTURE(leaves_unread);
    Ends ends = make_ends();
    if (leaves_unread) REQUIRE(ends.host.send(ipc::Resize{1, 24, 80}).ok());
    REQUIRE(ends.agent.send(ipc::SetupFailed{"step", "call", 1}).ok());
    { const ipc::Channel ended = std::move(ends.agent); }
    const Status sent = ends.host.send(ipc::Resize{1, 24, 80});
    REQUIRE_FALSE(sent.ok());
    CHECK(ipc::is_other_side_gone(sent.error()));
    auto received = ends.host.receive(ipc::Wait::kNo);
    REQUIRE(received.ok());
    CHECK(std::get<ipc::SetupFailed>(received.value().message).step == "step");
  }
  CHECK_FALSE(ipc::is_other_side_gone(Error(Errc::kLimit, "too long")));
}
