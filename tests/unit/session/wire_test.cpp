// Tests of the control socket's frames.
#include "core/session/wire.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include <doctest/doctest.h>

#include "core/base/sys.h"

using namespace sbx;
using namespace sbx::session;

namespace {

struct Pair {
  UniqueFd a;
  UniqueFd b;
};

Pair stream_pair() {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Fields example() {
  Fields fields("exec");
  fields.set("argv", Fields::List{"sh", "-c", std::string("\xff\0\n", 3)});
  fields.set("n", std::int64_t{-5}).set("yes", true).set("text", std::string("t"));
  return fields;
}

}  // namespace

TEST_CASE("wire: fields of every kind come back, texts of any bytes") {
  const std::string frame = encode_frame(example());
  const auto fields = decode_frame(std::string_view(frame).substr(4));
  REQUIRE(fields.ok());
  CHECK(fields.value().op() == "exec");
  CHECK(fields.value().list("argv")[2] == std::string("\xff\0\n", 3));
  CHECK(fields.value().number("n") == -5);
  CHECK(fields.value().flag("yes"));
  CHECK(fields.value().text("text") == "t");
}

TEST_CASE("wire: what is missing or of another kind reads as the fallback") {
  const Fields fields = example();
  CHECK(fields.text("n").empty());
  CHECK(fields.number("text", 7) == 7);
  CHECK(!fields.flag("none"));
  CHECK(fields.list("text").empty());
  CHECK(!fields.has("none"));
}

TEST_CASE("wire: a body cut anywhere, or changed into another kind, is an error and no crash") {
  const std::string frame = encode_frame(example());
  const std::string_view body = std::string_view(frame).substr(4);
  for (std::size_t size = 0; size < body.size(); ++size) {
    CHECK(!decode_frame(body.substr(0, size)).ok());
  }
  CHECK(!decode_frame("\x01").ok());
  CHECK(!decode_frame("\xa1\x61x\xf6").ok());  // {"x": null}
  // A list of more items than there can be.
  CHECK(!decode_frame("\xa1\x61x\x9b\xff\xff\xff\xff\xff\xff\xff\xff").ok());
}

TEST_CASE("wire: frames come out whole whatever pieces they arrive in") {
  Pair pair = stream_pair();
  const std::string two = encode_frame(example()) + encode_frame(Fields("second"));
  FrameReader reader;
  int seen = 0;
  for (const char byte : two) {
    REQUIRE(::write(pair.a.get(), &byte, 1) == 1);
    auto frame = reader.next(pair.b.get());
    REQUIRE(frame.ok());
    if (frame.value().has_value()) ++seen;
  }
  CHECK(seen == 2);
}

TEST_CASE("wire: descriptors arrive with their frame") {
  Pair pair = stream_pair();
  SUBCASE("one") {
    auto pipe = sys::pipe();
    REQUIRE(pipe.ok());
    const int fds[] = {pipe.value().w.get()};
    REQUIRE(send_frame(pair.a.get(), Fields("x"), fds).ok());
    FrameReader reader;
    auto frame = receive_frame(pair.b.get(), reader);
    REQUIRE(frame.ok());
    REQUIRE(frame.value().fds.size() == 1);
    REQUIRE(::write(frame.value().fds[0].get(), "q", 1) == 1);
    char got = 0;
    REQUIRE(::read(pipe.value().r.get(), &got, 1) == 1);
    CHECK(got == 'q');
  }
  SUBCASE("too many are an error") {
    const std::vector<int> many(kMostFrameFds + 1, STDIN_FILENO);
    CHECK(!send_frame(pair.a.get(), Fields("x"), many).ok());
  }
}

TEST_CASE("wire: a frame that says it is longer than allowed is refused before it is read") {
  Pair pair = stream_pair();
  REQUIRE(::write(pair.a.get(), "\xff\xff\xff\x7f", 4) == 4);
  FrameReader reader;
  const auto frame = reader.next(pair.b.get());
  REQUIRE(!frame.ok());
  CHECK(frame.error().code() == Errc::kProtocol);
}

TEST_CASE("wire: the end of the other side is told as such") {
  Pair pair = stream_pair();
  pair.a.reset();
  FrameReader reader;
  const auto frame = receive_frame(pair.b.get(), reader);
  REQUIRE(!frame.ok());
  CHECK(frame.error().message() == "the other side closed the connection");
}

TEST_CASE("wire: errors keep their kind, message and fix") {
  const Error before = Error(Errc::kDenied, "no").with_hint("ask");
  const auto after = error_of(error_fields(before));
  REQUIRE(after.has_value());
  CHECK(after->code() == Errc::kDenied);
  CHECK(after->message() == "no");
  CHECK(after->hint() == "ask");
  CHECK(!error_of(Fields("done")).has_value());
}

TEST_CASE("wire: a connection sends more than the socket holds, and hears the end") {
  Pair pair = stream_pair();
  Loop loop;
  std::string got;
  bool has_ended = false;
  auto receiver = std::make_unique<Connection>(
      loop,
      std::move(pair.b),
      [&](Frame frame) { got = frame.fields.text("big"); },
      [&] {
        has_ended = true;
        loop.stop();
      });
  auto sender = std::make_unique<Connection>(
      loop, std::move(pair.a), [](const Frame&) {}, [] {});
  const std::string big(std::size_t{3} << 20U, 'x');
  sender->send(Fields("x").set("big", big));
  const Watch closing = loop.add_timer(Millis{1}, [&] {
    // Once everything has gone.
    if (got.empty()) return;
    sender.reset();
  });
  const Watch later = loop.add_timer(Millis{300}, [&] { sender.reset(); });
  REQUIRE(loop.run().ok());
  CHECK(got.size() == big.size());
  CHECK(has_ended);
}
