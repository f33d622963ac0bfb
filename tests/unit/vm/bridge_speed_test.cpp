// Bridge speed: measured by hand, never asserted: unit_vm --no-skip --test-case='*by hand*'.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/backend/vm/bridge_process.h"

#include "tests/support/process.h"
#include "tests/unit/vm/bridge_pair.h"

using namespace sbx;
using namespace sbx::vm;

TEST_CASE("bridge, by hand: 2 GB of output from one process through two bridges to another" *
          doctest::skip()) {
  constexpr std::uint64_t kTotal = 2'000'000'000;
  auto pair = sys::socketpair_stream().value();
  auto bridge = start_bridge(std::move(pair.a));
  REQUIRE(bridge.ok());
  ipc::Channel channel(bridge.value().take_channel(), ipc::Side::kHost);
  const pid_t guest = ::fork();
  if (guest == 0) {
    (void)::signal(SIGPIPE, SIG_IGN);
    Turner turner;
    OneBridge one(turner, ipc::Side::kAgent, std::move(pair.b));
    auto inner = next(turner, *one.channel);
    const pid_t writer = ::fork();
    if (writer == 0) {
      const std::string piece(64 * 1024, 'x');
      for (std::uint64_t at = 0; at < kTotal;) {
        const auto size = std::min<std::uint64_t>(piece.size(), kTotal - at);
        const ssize_t n = ::write(inner->fds[1].get(), piece.data(), size);
        if (n <= 0) ::_exit(1);
        at += static_cast<std::uint64_t>(n);
      }
      ::_exit(0);
    }
    inner->fds.clear();
    (void)turner.loop.run();
    ::_exit(0);
  }
  pair.b.reset();
  sys::Pipe in = sys::pipe().value();
  sys::Pipe out = sys::pipe().value();
  ipc::Exec message;
  message.id = 1;
  const std::array<int, 3> fds{in.r.get(), out.w.get(), in.w.get()};
  REQUIRE(channel.send(message, fds).ok());
  out.w.reset();
  (void)sys::set_pipe_size(out.r.get(), 1 << 20);  // as a relay does
  const double begin = test::now();
  std::vector<char> piece(1 << 18);
  std::uint64_t read = 0;
  for (;;) {
    const ssize_t n = ::read(out.r.get(), piece.data(), piece.size());
    if (n <= 0) break;
    read += static_cast<std::uint64_t>(n);
  }
  const double seconds = test::now() - begin;
  std::printf("%.0f MB/s\n", static_cast<double>(read) / 1e6 / seconds);
  CHECK(read == kTotal);
  (void)::kill(guest, SIGKILL);
  (void)::waitpid(guest, nullptr, 0);
}
