// Tests of the control port: what is encoded is decoded as the same, rubbish is refused, and the
// host's end survives a guest that is slow, silent, gone or lies.
#include "core/backend/vm/control.h"

#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "core/backend/vm/control_client.h"
#include "core/base/sys.h"

using namespace sbx;
using namespace sbx::vm;
using ipc::Fields;

namespace {

constexpr Millis kSoon{50};
constexpr Millis kLong{5000};

struct Ends {
  UniqueFd host;
  UniqueFd guest;
};

Ends stream_pair() {
  int fds[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

/// What comes out at the other side.
Fields sent(const Fields& fields) {
  const std::string frame = ipc::encode_frame(fields);
  Result<Fields> back = ipc::decode_frame(std::string_view(frame).substr(ipc::kFrameLengthSize));
  REQUIRE(back.ok());
  return std::move(back).value();
}

void answer(const UniqueFd& guest, std::int64_t number, std::int64_t value) {
  Fields fields("ok");
  fields.set("seq", number).set("value", value);
  REQUIRE(sys::write_all(guest.get(), ipc::encode_frame(fields)).ok());
}

}  // namespace

TEST_CASE("control: requests are read as they were meant") {
  control::Wake wake{std::string(32, '\x9f'), 1'700'000'000'000'000'000, "guest", ""};
  CHECK(control::decode_wake(sent(control::encode(wake))).value() == wake);
  wake.machine_id = "0123456789abcdef0123456789abcdef";
  CHECK(control::decode_wake(sent(control::encode(wake))).value() == wake);

  control::Root root;
  root.shares = {{"usr", "/usr", true}, {"m0", "/run/sbx/shares/m0", false}};
  root.links = {{"/bin", "usr/bin"}};
  root.files = {{"/etc/timezone", "Etc/UTC\n"}};
  root.binds = {{"/run/sbx/shares/etc/ssl", "/etc/ssl", true}, {"/a", "/b", false}};
  root.images = {{"vda", "erofs"}};
  root.state_device = "vdb";
  root.is_state_kept = true;
  CHECK(control::decode_root(sent(control::encode(root))).value() == root);

  control::Launch launch;
  launch.id = "abc";
  launch.profile = "{}";
  CHECK(control::decode_launch(sent(control::encode(launch))).value() == launch);
  launch.is_lasting = true;
  launch.files = {{"/usr/a", std::string("b\0c", 3)}};
  launch.image.emplace();
  launch.image->user = {1000, 4294967295};
  launch.image->groups = {4, 5};
  launch.image->volumes = {"/data"};
  launch.layers = {{"a", "b"}, "c"};
  CHECK(control::decode_launch(sent(control::encode(launch))).value() == launch);
}

TEST_CASE("control: answers are read as they were meant") {
  const control::Hello hello{1, "6.1.0", {"9p", "ext4"}, 10, 20};
  CHECK(control::decode_hello(sent(control::encode(hello))).value() == hello);

  control::Launched launched;
  launched.limits = {{"memory", "1", "cgroup v2 memory.max", false}, {"pids", "9", "x", true}};
  launched.warnings = {"w"};
  launched.cpu_time = Millis{5};
  launched.has_freezer = true;
  launched.spent = {{"plan", 7}};
  const auto back = control::decode_launched(sent(control::encode(launched))).value();
  REQUIRE(back.limits.size() == 2);
  CHECK(back.limits[1].mechanism == "x");
  CHECK(back.limits[1].approximate);
  CHECK_FALSE(back.limits[0].approximate);
  CHECK(back.warnings == launched.warnings);
  CHECK(back.cpu_time == launched.cpu_time);
  CHECK(back.has_freezer);
  CHECK(back.spent == launched.spent);

  backend::ProcessInfo info;
  info.pid = 7;
  info.host_pid = 1007;
  info.uid = 65534;
  info.state = 'S';
  info.exec_id = 3;
  info.memory = 18'446'744'073'709'551'615U;
  info.name = "a b\n";
  info.command = "a b c 12";
  backend::ProcessInfo other = info;
  other.exec_id.reset();
  other.name.clear();
  other.command.clear();
  const auto list = control::decode_processes(sent(control::encode(std::vector{info, other})));
  REQUIRE(list.ok());
  REQUIRE(list.value().size() == 2);
  CHECK(list.value()[0].name == info.name);
  CHECK(list.value()[0].command == info.command);
  CHECK(list.value()[0].memory == info.memory);
  CHECK(list.value()[0].exec_id == info.exec_id);
  CHECK(list.value()[0].host_pid == info.host_pid);
  CHECK_FALSE(list.value()[1].exec_id.has_value());

  backend::FinalState state;
  state.oom_kills = 2;
  state.usage.max_memory = 9;
  const auto final = control::decode_final(sent(control::encode(state))).value();
  CHECK(final.oom_kills == 2);
  CHECK(final.usage.max_memory == 9U);
  CHECK_FALSE(final.usage.cpu_ns.has_value());
}

TEST_CASE("control: the processes of a full guest fit into an answer") {
  backend::ProcessInfo info;
  info.pid = 4'000'000;
  info.state = 'R';
  info.name = "a-name-of-fifte";
  info.command.assign(backend::kMaxCommand, 'x');
  const std::vector<backend::ProcessInfo> many(backend::kMaxProcesses + 5, info);
  const Fields fields = control::encode(many);
  CHECK(ipc::encode_frame(fields).size() < control::kLongestAnswer);
  CHECK(control::decode_processes(fields).value().size() == backend::kMaxProcesses);
}

TEST_CASE("control: answers that do not fit are refused") {
  CHECK(control::decode_value(Fields("ok")).error().code() == Errc::kProtocol);
  CHECK(control::decode_value(Fields("ok").set("value", std::int64_t{-1})).error().code() ==
        Errc::kProtocol);
  CHECK(control::decode_flag(Fields("ok")).error().code() == Errc::kProtocol);
  CHECK_FALSE(control::decode_hello(Fields("ok")).ok());
  CHECK_FALSE(control::decode_final(Fields("ok")).ok());
  CHECK_FALSE(control::decode_launched(Fields("ok").set("limits", Fields::List{"a"})).ok());
  for (const char* line : {"", "1 2 3", "1 2 3 4 5 R - 1 2 3", "1 2 3 4 5 \x1b - 1 2 3"}) {
    std::string text = line;
    text += std::string("\0n\0c", 4);
    CAPTURE(line);
    const bool is_good = text.find('R') != std::string::npos;
    CHECK(control::decode_processes(Fields("ok").set("processes", Fields::List{text})).ok() ==
          is_good);
  }
}

TEST_CASE("control client: a call gets the answer to itself") {
  Ends ends = stream_pair();
  ControlClient client(std::move(ends.host));
  answer(ends.guest, 1, 7);
  const auto got = client.call(Fields("cpu_time"), kLong);
  REQUIRE(got.ok());
  CHECK(control::decode_value(got.value()).value() == 7);
}

TEST_CASE("control client: an error of the guest cannot look like one of the connection") {
  Ends ends = stream_pair();
  ControlClient client(std::move(ends.host));
  Fields fields = ipc::error_fields(Error(Errc::kTimeout, "bad \x1b[2J").with_hint("h"));
  fields.set("seq", std::int64_t{1});
  REQUIRE(sys::write_all(ends.guest.get(), ipc::encode_frame(fields)).ok());
  const auto got = client.call(Fields("x"), kLong);
  REQUIRE_FALSE(got.ok());
  CHECK(got.error().code() == Errc::kSystem);
  CHECK(got.error().message() == "bad \\x1b[2J");
  CHECK(client.is_usable());
}

TEST_CASE("control client: a late answer is not taken for a new one") {
  Ends ends = stream_pair();
  ControlClient client(std::move(ends.host));
  CHECK(client.call(Fields("a"), kSoon).error().code() == Errc::kTimeout);
  CHECK(client.is_usable());
  answer(ends.guest, 1, 100);
  answer(ends.guest, 2, 200);
  const auto got = client.call(Fields("b"), kLong);
  REQUIRE(got.ok());
  CHECK(got.value().number("value") == 200);
}

TEST_CASE("control client: half an answer is completed by the next call") {
  Ends ends = stream_pair();
  ControlClient client(std::move(ends.host));
  Fields fields("ok");
  fields.set("seq", std::int64_t{1});
  const std::string frame = ipc::encode_frame(fields);
  REQUIRE(sys::write_all(ends.guest.get(), std::string_view(frame).substr(0, 7)).ok());
  CHECK(client.call(Fields("a"), kSoon).error().code() == Errc::kTimeout);
  REQUIRE(sys::write_all(ends.guest.get(), std::string_view(frame).substr(7)).ok());
  answer(ends.guest, 2, 5);
  CHECK(client.call(Fields("b"), kLong).value().number("value") == 5);
}

TEST_CASE("control client: rubbish, lies and a closed port end the connection") {
  Fields unasked("ok");
  unasked.set("seq", std::int64_t{9});
  const std::string cases[] = {std::string("\xff\xff\xff\x7f", 4),
                               std::string("\x01\x00\x00\x00\xff", 5),
                               ipc::encode_frame(Fields("ok")),
                               ipc::encode_frame(unasked),
                               {}};
  for (const std::string& bytes : cases) {
    Ends ends = stream_pair();
    ControlClient client(std::move(ends.host));
    REQUIRE(sys::write_all(ends.guest.get(), bytes).ok());
    if (bytes.empty()) ends.guest.reset();
    CHECK(client.call(Fields("a"), kLong).error().code() == Errc::kProtocol);
    CHECK_FALSE(client.is_usable());
    CHECK(client.call(Fields("a"), kLong).error().code() == Errc::kProtocol);
  }
}

TEST_CASE("control client: a guest that sends old answers without end is given up") {
  Ends ends = stream_pair();
  ControlClient client(std::move(ends.host));
  CHECK_FALSE(client.call(Fields("a"), Millis{1}).ok());
  REQUIRE(sys::set_nonblocking(ends.guest.get(), true).ok());
  Fields fields("ok");
  fields.set("seq", std::int64_t{1});
  const std::string frame = ipc::encode_frame(fields);
  std::jthread flood([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      (void)::send(ends.guest.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
    }
  });
  const auto got = client.call(Fields("b"), Millis{200});
  CHECK_FALSE(got.ok());
}

TEST_CASE("control client: a guest that does not read is given up") {
  Ends ends = stream_pair();
  ControlClient client(std::move(ends.host));
  Fields big("launch");
  big.set("profile", std::string(std::size_t{8} << 20, 'x'));
  CHECK(client.call(big, kSoon).error().code() == Errc::kTimeout);
  CHECK_FALSE(client.is_usable());
}
