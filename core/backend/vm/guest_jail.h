// Guest jail: the one sandbox of a guest, an ordinary jail, and what carries its messages out.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/vm/bridge.h"
#include "core/backend/vm/control.h"
#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::vm {

class GuestJail {
 public:
  /// `port`: of the agent.
  GuestJail(Loop& loop, UniqueFd port) : loop_(loop), port_(std::move(port)) {}

  /// Begins one whose plan is not known yet, so that it need not be done after a template.
  void prepare();
  /// Plans and launches it as the host would and puts it behind the port. kUsage when there is one.
  /// `machine_id` may be empty.
  Result<control::Launched> launch(const control::Launch& wanted,
                                   const control::Root& root,
                                   const std::string& machine_id,
                                   const std::vector<backend::InputMount>& inputs);
  /// Whether it was launched and not yet finished.
  bool is_alive() const { return sandbox_ != nullptr && !is_finished_; }
  /// kNotFound when there is none.
  Result<backend::Sandbox*> sandbox() const;
  /// Backend::Sandbox::finish(); the port is left alone from then on. Blocks for as long.
  Result<backend::FinalState> finish();
  /// Lets go of all that it holds, also of what is on the state disk. It has ended.
  void drop();
  /// kNotFound when there is none (any more).
  Result<Bridge*> bridge() const;
  /// Of /work, from readiness on; -1 before.
  int work_dir() const { return work_dir_.get(); }
  /// Of its PID 1, as we see it; 0 when there is none (any more).
  pid_t pid() const;

 private:
  void start_bridge();

  Loop& loop_;
  UniqueFd port_;
  std::shared_ptr<backend::HeadStart> head_;
  std::unique_ptr<backend::Sandbox> sandbox_;
  UniqueFd work_dir_;
  std::unique_ptr<Bridge> bridge_;  // before what it speaks to
  bool is_finished_ = false;
};

}  // namespace sbx::vm
