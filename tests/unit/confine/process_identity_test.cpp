// process identity test: a record's process is told from any other one.
#include "core/confine/process_identity.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <doctest/doctest.h>

namespace sbx::confine {

TEST_CASE("process identity: of a living process, of none, and of a zombie") {
  const auto self = identity_of(::getpid());
  REQUIRE(self.ok());
  CHECK(life_of(self.value()) == Life::kAlive);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(identity_of(child).ok());
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(identity_of(child).ok());
}

TEST_CASE("process identity: another start time, boot or namespace is another process") {
  const auto self = identity_of(::getpid());
  REQUIRE(self.ok());
  ProcessIdentity other = self.value();
  other.start += 1;
  CHECK(life_of(other) == Life::kGone);
  other = self.value();
  other.boot = "an earlier one";
  CHECK(life_of(other) == Life::kGone);
  other = self.value();
  other.pid_namespace += 1;
  CHECK(life_of(other) == Life::kUnknown);
  CHECK_FALSE(open_process(other).ok());
}

TEST_CASE("process identity: a pidfd is given for exactly this process, and leads back to it") {
  const auto self = identity_of(::getpid());
  REQUIRE(self.ok());
  auto pidfd = open_process(self.value());
  REQUIRE(pidfd.ok());
  REQUIRE(pidfd.value().valid());
  const auto pid = pid_of(pidfd.value().get());
  REQUIRE(pid.ok());
  CHECK(pid.value() == ::getpid());
  ProcessIdentity former = self.value();
  former.start -= 1;
  auto none = open_process(former);
  REQUIRE(none.ok());
  CHECK_FALSE(none.value().valid());
}

}  // namespace sbx::confine
