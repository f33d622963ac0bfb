// pauser test: what becomes of requests when a freezer or an agent does not do what it should.
#include "core/supervise/pauser.h"

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace sbx::supervise {

namespace {

class FakeLink final : public backend::AgentLink {
 public:
  int fd() const override { return -1; }
  Status send(const ipc::Message& message, std::span<const int> /*fds*/) override {
    sent.push_back(std::get<ipc::SetFrozen>(message).is_frozen);
    return {};
  }
  Result<ipc::Received> receive() override { return Error(Errc::kNotFound, "nothing"); }

  std::vector<bool> sent;
};

/// A sandbox whose processes never stop, as one that waits for a dead disk.
class FakeSandbox final : public backend::Sandbox {
 public:
  backend::AgentLink& agent() override { return link; }
  int exit_fd() const override { return -1; }
  std::optional<backend::User> stream_owner(
      const std::optional<backend::User>& /*user*/) const override {
    return std::nullopt;
  }
  Status kill() override { return {}; }
  Result<uint64_t> cpu_time() const override { return uint64_t{0}; }
  Result<uint64_t> oom_kills() const override { return uint64_t{0}; }
  Result<backend::LiveUsage> usage() const override { return backend::LiveUsage(); }
  Result<std::vector<backend::ProcessInfo>> processes() const override {
    backend::ProcessInfo sleeper;
    sleeper.pid = 17;
    sleeper.state = 'D';
    sleeper.name = "dd\x1b";
    return std::vector<backend::ProcessInfo>{sleeper};
  }
  bool has_freezer() const override { return is_group; }
  Status set_frozen(bool is_frozen) override {
    asked.push_back(is_frozen);
    return {};
  }
  Result<bool> is_frozen_as(bool is_frozen) const override { return !is_frozen; }
  Status release_killed() override { return {}; }
  Result<backend::FinalState> finish() override { return backend::FinalState(); }
  std::span<const backend::InputMount> copies_needed() const override { return {}; }

  bool is_group = true;
  std::vector<bool> asked;
  FakeLink link;
};

struct Answers {
  std::vector<Status> all;
  std::function<void(Status)> one() {
    return [this](Status status) { all.push_back(std::move(status)); };
  }
};

}  // namespace

TEST_CASE("pauser: a stop that does not come about is undone, and says who was in the way") {
  Loop loop;
  FakeSandbox sandbox;
  Pauser pauser(loop, sandbox);
  Status result;
  pauser.request(true, [&](Status status) {
    result = std::move(status);
    loop.stop();
  });
  REQUIRE(loop.run().ok());
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code() == Errc::kTimeout);
  CHECK(result.error().message().find("17 (dd\\x1b)") != std::string::npos);
  CHECK_FALSE(pauser.is_frozen());
  CHECK(sandbox.asked.front());
  CHECK_FALSE(sandbox.asked.back());
}

TEST_CASE("pauser: the agent's refusal is the answer, and the next request is carried out") {
  Loop loop;
  FakeSandbox sandbox;
  sandbox.is_group = false;
  Pauser pauser(loop, sandbox);
  Answers answers;
  pauser.request(true, answers.one());
  pauser.request(true, answers.one());
  CHECK(sandbox.link.sent == std::vector<bool>{true});
  CHECK(pauser.take({true, ETIMEDOUT}));
  REQUIRE(answers.all.size() == 1);
  CHECK(answers.all[0].error().sys_errno() == ETIMEDOUT);
  CHECK(sandbox.link.sent == std::vector<bool>{true, true});
  CHECK(pauser.take({true, 0}));
  REQUIRE(answers.all.size() == 2);
  CHECK(answers.all[1].ok());
  CHECK(pauser.is_frozen());
}

TEST_CASE("pauser: an answer that nobody asked for breaks the protocol") {
  Loop loop;
  FakeSandbox sandbox;
  sandbox.is_group = false;
  Pauser pauser(loop, sandbox);
  CHECK_FALSE(pauser.take({true, 0}));
  Answers answers;
  pauser.request(true, answers.one());
  CHECK_FALSE(pauser.take({false, 0}));
}

TEST_CASE("pauser: the end of the sandbox answers all who wait, and all who come later") {
  Loop loop;
  FakeSandbox sandbox;
  sandbox.is_group = false;
  Pauser pauser(loop, sandbox);
  Answers answers;
  pauser.request(true, answers.one());
  pauser.request(false, answers.one());
  pauser.end();
  pauser.request(false, answers.one());
  REQUIRE(answers.all.size() == 3);
  for (const Status& each : answers.all) {
    CHECK(each.error().code() == Errc::kNotFound);
  }
  CHECK(pauser.take({true, 0}));  // too late to matter
}

}  // namespace sbx::supervise
