// Jail: one sandbox made of namespaces, from the clone of its PID 1 to its end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/jail/jail_plan.h"
#include "core/backend/jail/jail_processes.h"
#include "core/backend/jail/layer_dirs.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/cgroup.h"
#include "core/confine/idmap.h"
#include "core/ipc/channel.h"

namespace sbx::jail {

class Link final : public backend::AgentLink {
 public:
  explicit Link(ipc::Channel channel) : channel_(std::move(channel)) {}
  int fd() const override { return channel_.fd(); }
  Status send(const ipc::Message& message, std::span<const int> fds) override {
    return channel_.send(message, fds);
  }
  Result<ipc::Received> receive() override { return channel_.receive(ipc::Wait::kNo); }
  ipc::Channel& channel() { return channel_; }

 private:
  ipc::Channel channel_;
};

class Jail final : public backend::Sandbox {
 public:
  Jail(ipc::Channel channel, pid_t pid, UniqueFd pidfd)
      : link_(std::move(channel)), pid_(pid), pidfd_(std::move(pidfd)) {}
  ~Jail() override { (void)finish(); }

  backend::AgentLink& agent() override { return link_; }
  int exit_fd() const override { return pidfd_.get(); }
  pid_t pid() const { return pid_; }
  std::optional<backend::User> stream_owner(
      const std::optional<backend::User>& user) const override;
  Status kill() override;
  Result<uint64_t> cpu_time() const override { return cgroup_.cpu_time(); }
  Result<uint64_t> oom_kills() const override { return cgroup_.oom_kills(); }
  Result<backend::LiveUsage> usage() const override;
  Result<std::vector<backend::ProcessInfo>> processes() const override;
  bool has_freezer() const override { return has_freezer_; }
  Status set_frozen(bool is_frozen) override;
  Result<bool> is_frozen_as(bool is_frozen) const override;
  Status release_killed() override;
  Result<backend::FinalState> finish() override;
  std::span<const backend::InputMount> copies_needed() const override { return copies_; }

  ipc::Channel& channel() { return link_.channel(); }
  void set_copies(std::vector<backend::InputMount> copies) { copies_ = std::move(copies); }
  void hold(confine::IdRange range) { range_ = std::move(range); }
  void hold(confine::Cgroup cgroup) { cgroup_ = std::move(cgroup); }
  /// The group that PID 1 started in; its join_dir() is -1 when it started in none.
  confine::Cgroup& cgroup() { return cgroup_; }
  /// The cgroup is made for a session. Puts what can be frozen apart from PID 1; where that cannot
  /// be done it is the agent who stops processes.
  void prepare_freezer();
  void hold_root(UniqueFd kept) { root_ = std::move(kept); }
  void hold(ThrowawayLayer layer) { throwaway_.emplace(std::move(layer)); }
  const std::optional<confine::IdRange>& range() const { return range_; }
  /// Which ids are inside, and who programs are there.
  void set_ids(const JailBasics& basics, const backend::User& job);

 private:
  Status settle_cgroup();
  Result<std::vector<pid_t>> payload() const;

  Link link_;
  pid_t pid_;
  UniqueFd pidfd_;
  confine::Cgroup cgroup_;
  bool has_freezer_ = false;
  std::optional<confine::IdRange> range_;
  backend::User job_;
  std::vector<IdView> ids_;
  UniqueFd root_;  // the kept root or base layer, so that nobody removes it
  std::optional<ThrowawayLayer> throwaway_;
  std::vector<backend::InputMount> copies_;
  bool is_reaped_ = false;
  backend::FinalState final_;
};

}  // namespace sbx::jail
