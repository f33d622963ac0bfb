// More descriptors: a program gets those that came with its exec, in order, and nothing else.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <string>
#include <variant>

#include <doctest/doctest.h>

#include "core/backend/backend.h"
#include "core/base/sys.h"
#include "core/base/text.h"

#include "tests/support/skip.h"
#include "tests/unit/backend/jail_driver.h"

using namespace sbx;

namespace {

/// Sends `exec` with `fds` and reads messages until the program has ended or could not start.
ipc::Message answer_to(backend::Sandbox& jail, const ipc::Exec& exec, std::span<const int> fds) {
  REQUIRE(jail.agent().send(exec, fds).ok());
  for (;;) {
    std::array<pollfd, 1> polled{{{jail.agent().fd(), POLLIN, 0}}};
    const auto ready = sys::poll(polled, Millis{20'000});
    REQUIRE(ready.ok());
    REQUIRE(ready.value() == 1);
    auto received = jail.agent().receive();
    REQUIRE_MESSAGE(received.ok(), (received.ok() ? "" : received.error().to_string()));
    ipc::Message& message = received.value().message;
    if (const auto* failed = std::get_if<ipc::SetupFailed>(&message)) {
      FAIL(text::cat(failed->step, ": ", failed->call));
    }
    if (std::holds_alternative<ipc::Exited>(message) ||
        std::holds_alternative<ipc::ExecFailed>(message)) {
      return std::move(message);
    }
  }
}

std::string all_of(const UniqueFd& pipe) {
  const auto all = sys::read_all(pipe.get(), Bytes{1U << 16});
  REQUIRE(all.ok());
  return all.value();
}

}  // namespace

TEST_CASE("exec: further descriptors are 3, 4, ... in the program, and no others are open") {
  SKIP_UNLESS("userns");
  const test::Workspace workspace(test::self());
  const profile::Profile profile;
  backend::LaunchRequest launch;
  launch.profile = &profile;
  launch.id = text::cat("m", ::getpid());
  launch.state_dir = workspace.state();
  auto plan = backend::jail_backend().plan(launch);
  REQUIRE(plan.ok());
  auto jail = plan.value()->launch(nullptr);
  REQUIRE(jail.ok());

  auto out = sys::pipe();
  auto third = sys::pipe();
  auto fourth = sys::pipe();
  REQUIRE(out.ok());
  REQUIRE(third.ok());
  REQUIRE(fourth.ok());
  const auto null = sys::open("/dev/null", 2);
  REQUIRE(null.ok());
  ipc::Exec exec;
  exec.id = 1;
  exec.argv = {"/bin/sh", "-c", "echo three >&3; echo four >&4; ls /proc/$$/fd"};
  exec.env = {"PATH=/usr/bin:/bin"};
  exec.cwd = "/work";
  exec.more_fds = 2;
  const std::array<int, 5> fds{null.value().get(),
                               out.value().w.get(),
                               null.value().get(),
                               third.value().w.get(),
                               fourth.value().w.get()};
  SUBCASE("they are given") {
    const ipc::Message answer = answer_to(*jail.value(), exec, fds);
    REQUIRE(std::holds_alternative<ipc::Exited>(answer));
    CHECK(std::get<ipc::Exited>(answer).wait_status == 0);
    for (auto* pipe : {&out, &third, &fourth}) {
      pipe->value().w.reset();
    }
    CHECK(all_of(third.value().r) == "three\n");
    CHECK(all_of(fourth.value().r) == "four\n");
    CHECK(all_of(out.value().r) == "0\n1\n2\n3\n4\n");
  }
  SUBCASE("one that did not come along is an error, not a program with a descriptor too few") {
    const ipc::Message answer = answer_to(*jail.value(), exec, std::span(fds).first(4));
    CHECK(std::holds_alternative<ipc::ExecFailed>(answer));
  }
}
