// Pauser: see pauser.h.
#include "core/supervise/pauser.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "core/base/text.h"

namespace sbx::supervise {

namespace {

/// How long a freezer may take. Only an uninterruptible sleep takes longer than some milliseconds.
constexpr Millis kGroupDeadline{2000};
/// The agent gives up by itself before this.
constexpr Millis kAgentDeadline{10'000};
constexpr Millis kLongestPause{20};
/// The agent sends a signal when it comes to it; the last look is after 1, 4, 16 ... 4096 ms.
constexpr Millis kLastSweep{4096};

Error ended() {
  return Error(Errc::kNotFound, "the sandbox has ended");
}

/// Those that a freezer waits for, for the message.
std::string sleepers(const backend::Sandbox& sandbox) {
  const auto all = sandbox.processes();
  std::string out;
  if (!all.ok()) return out;
  constexpr int kMost = 5;
  int count = 0;
  for (const backend::ProcessInfo& process : all.value()) {
    if (process.state != 'D' || ++count > kMost) continue;
    out += text::cat(out.empty() ? "" : ", ", process.pid, " (", text::escape(process.name), ")");
  }
  return out;
}

}  // namespace

void Pauser::request(bool is_frozen, std::function<void(Status)> then) {
  if (has_ended_) {
    then(ended());
    return;
  }
  queue_.push_back({is_frozen, std::move(then)});
  if (!is_busy_) start_next();
}

void Pauser::start_next() {
  while (!is_busy_ && !queue_.empty()) {
    is_busy_ = true;
    start();
  }
}

void Pauser::start() {
  const bool wanted = queue_.front().is_frozen;
  if (wanted == is_frozen_) {
    finish({});
    return;
  }
  if (sandbox_.has_freezer()) {
    if (Status begun = sandbox_.set_frozen(wanted); !begun.ok()) {
      roll_back(std::move(begun).error());
      return;
    }
    deadline_ = monotonic_now().v + kGroupDeadline.v;
    pause_ = Millis{1};
    look();
    return;
  }
  if (Status sent = sandbox_.agent().send(ipc::SetFrozen{wanted}, {}); !sent.ok()) {
    finish(std::move(sent));
    return;
  }
  is_asking_agent_ = true;
  timer_ = loop_.add_timer(kAgentDeadline, [this] {
    is_asking_agent_ = false;
    ++late_answers_;
    finish(Error(Errc::kTimeout, "the sandbox's PID 1 does not answer"));
  });
}

void Pauser::look() {
  const bool wanted = queue_.front().is_frozen;
  Result<bool> done = sandbox_.is_frozen_as(wanted);
  if (!done.ok()) {
    roll_back(std::move(done).error());
    return;
  }
  if (done.value()) {
    is_frozen_ = wanted;
    finish({});
    return;
  }
  if (monotonic_now().v >= deadline_) {
    const std::string who = sleepers(sandbox_);
    roll_back(Error(Errc::kTimeout,
                    text::cat(wanted ? "pause" : "resume",
                              ": not done after ",
                              to_string(kGroupDeadline),
                              who.empty() ? "" : "; waiting for the input or output of process ",
                              who))
                  .with_hint("try again when the device or the network file system answers"));
    return;
  }
  if (Status again = sandbox_.set_frozen(wanted); !again.ok()) {
    roll_back(std::move(again).error());
    return;
  }
  timer_ = loop_.add_timer(pause_, [this] { look(); });
  pause_.v = std::min(pause_.v * 2, kLongestPause.v);
}

void Pauser::roll_back(Error error) {
  if (queue_.front().is_frozen) (void)sandbox_.set_frozen(false);
  finish(std::move(error));
}

/// Nobody waits for this stop any more: it is undone.
void Pauser::take_late(const ipc::FrozenSet& answer) {
  --late_answers_;
  if (answer.error != 0) return;
  is_frozen_ = answer.is_frozen;
  if (!is_frozen_ || is_busy_) return;
  if (sandbox_.agent().send(ipc::SetFrozen{false}, {}).ok()) ++late_answers_;
}

bool Pauser::take(const ipc::FrozenSet& answer) {
  if (has_ended_) return true;
  if (late_answers_ > 0) {
    take_late(answer);
    return true;
  }
  if (!is_asking_agent_ || !is_busy_ || queue_.front().is_frozen != answer.is_frozen) return false;
  is_asking_agent_ = false;
  if (answer.error != 0) {
    finish(sys_error(answer.is_frozen ? "stop the processes of the sandbox"
                                      : "continue the processes of the sandbox",
                     answer.error));
    return true;
  }
  is_frozen_ = answer.is_frozen;
  finish({});
  return true;
}

void Pauser::finish(Status result) {
  timer_.remove();
  const Request request = std::move(queue_.front());
  queue_.pop_front();
  is_busy_ = false;
  if (request.then) request.then(std::move(result));
  if (!is_busy_) start_next();
}

void Pauser::release_killed() {
  if (!is_frozen_ || !sandbox_.has_freezer()) return;
  sweep_in(Millis{1});
}

void Pauser::sweep_in(Millis time) {
  sweep_timer_ = loop_.add_timer(time, [this, time] {
    if (!is_frozen_) return;
    // What it cannot release now it can at the next look, or when the sandbox ends.
    (void)sandbox_.release_killed();
    if (time.v < kLastSweep.v) sweep_in(Millis{time.v * 4});
  });
}

void Pauser::end() {
  if (has_ended_) return;
  has_ended_ = true;
  timer_.remove();
  sweep_timer_.remove();
  std::deque<Request> waiting = std::exchange(queue_, {});
  for (Request& request : waiting) {
    if (request.then) request.then(ended());
  }
}

}  // namespace sbx::supervise
