// sessions: a state directory of its own with the sessions of one test case, all removed at the
// end.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "tests/e2e/sbx.h"
#include "tests/support/user.h"

namespace sbx::test {

class Sessions {
 public:
  /// `below`: the state directory's path below a fresh directory.
  explicit Sessions(std::string below = "state");
  /// In a state directory that outlives the case; sessions in it are removed first.
  struct In {
    std::string state_dir;
  };
  explicit Sessions(In in);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  /// A call of sbx with this state directory.
  Spec spec(Args args) const;
  Outcome sbx(Args args) const { return run(spec(std::move(args))); }
  /// `sbx session ARGS…`.
  Outcome call(Args args) const;
  /// `sbx session start NAME -p bash FLAGS…`; a failure fails the case.
  void start(const std::string& name, const Args& flags = {}) const;
  /// `sbx session exec NAME FLAGS… -- bash -c CODE`, and its arguments.
  Outcome exec(const std::string& name, std::string_view code, const Args& flags = {}) const;
  static Args exec_args(const std::string& name, std::string_view code, const Args& flags = {});
  /// Starts it with -d; its number.
  std::string detached(const std::string& name, std::string_view code) const;
  /// A value of `sbx session show NAME`; "" when there is none.
  std::string show(const std::string& name, std::string_view pointer) const;
  std::string state(const std::string& name) const { return show(name, "/state"); }
  pid_t supervisor(const std::string& name) const;
  /// PID 1 of its sandbox, as the host sees it.
  pid_t init(const std::string& name) const;
  /// Repeats `code` inside until it exits with 0; false after 20 s.
  bool comes(const std::string& name, std::string_view code) const;

  const std::string& state_dir() const { return state_dir_; }
  const WorkDir& dir() const { return dir_; }

 private:
  void clear() const;
  WorkDir dir_;
  std::string state_dir_;
};

/// Waits until `is_so()`; false after 20 s.
template <typename Check>
bool comes_true(const Check& is_so) {
  constexpr double kLongest = 20;
  constexpr double kStep = 0.01;
  for (double waited = 0; waited < kLongest; waited += kStep) {
    if (is_so()) return true;
    pause(kStep);
  }
  return false;
}

}  // namespace sbx::test
