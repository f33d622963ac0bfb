// Gate: the one asynchronous question "may this happen?" that stands before an effect.
//
// Callers are written as continuations, so that a verdict may come at once or after a person has
// been asked. Until approvals exist every sandbox uses AllowGate.
#pragma once

#include <functional>
#include <string>

namespace sbx::supervise {

enum class GateKind { kExec, kEgress, kSecret };

struct GateRequest {
  GateKind kind = GateKind::kExec;
  std::string subject;  ///< what is asked for, e.g. the program's argv[0]
};

struct Verdict {
  bool is_allowed = true;
  std::string reason;  ///< shown to the user when denied
};

class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  virtual ~Gate() = default;
  /// Calls `then` exactly once, now or later, on the supervisor's loop.
  virtual void decide(GateRequest request, std::function<void(Verdict)> then) = 0;
};

/// Allows everything, at once.
class AllowGate final : public Gate {
 public:
  void decide(GateRequest /*request*/, std::function<void(Verdict)> then) override { then({}); }
};

}  // namespace sbx::supervise
