// process: runs a program with a time limit, and keeps all that it wrote and how it ended.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sbx::test {

struct Identity;
class Pty;

/// What to run. Descriptors given here stay the caller's.
struct Spec {
  std::vector<std::string> argv{};  ///< argv[0] is a path, or looked up in PATH
  std::vector<std::string> env{};   ///< "K=V"; empty means: see clean_env
  bool clean_env = true;            ///< env empty: a small environment for `as`, else none at all
  std::string cwd{};                ///< empty: as the test
  const Identity* as = nullptr;     ///< nullptr: as the test itself
  std::optional<std::string> input{};  ///< bytes for stdin; unset: /dev/null
  int in = -1, out = -1, err = -1;     ///< descriptors instead of /dev/null and captures
  std::vector<int> keep{};             ///< further descriptors, at the same numbers
  Pty* pty = nullptr;                  ///< its terminal becomes controlling tty and 0, 1, 2
  double timeout = 60;                 ///< seconds, times slowness(); then SIGKILL
  bool own_group = false;              ///< a process group of its own
};

/// How it ended. Exactly one of code and signal is set (the other is -1 or 0).
struct Outcome {
  int code = -1;
  int signal = 0;
  bool timed_out = false;
  double seconds = 0;
  std::string out;
  std::string err;
  /// One text with all of it, for INFO and messages.
  std::string show() const;
};

/// A started program. The destructor kills and reaps it.
class Child {
 public:
  explicit Child(const Spec& spec);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  pid_t pid() const { return pid_; }
  void kill(int sig) const;
  /// True when it has not ended yet.
  bool running();
  /// Reads output until `text` was seen on stdout or stderr; false after `seconds`.
  bool wait_for_text(std::string_view text, double seconds);
  /// Waits for its end, at most the time limit (from the start), then kills.
  Outcome wait();
  /// What was captured so far.
  const std::string& out() const { return outcome_.out; }
  const std::string& err() const { return outcome_.err; }

 private:
  void pump(double seconds);
  bool reap(bool block);

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string input_;
  double started_ = 0, deadline_ = 0;
  bool done_ = false;
  Outcome outcome_;
};

/// Child(spec).wait().
Outcome run(const Spec& spec);

/// Seconds on CLOCK_MONOTONIC.
double now();
/// Sleeps for `seconds` (not scaled).
void pause(double seconds);

}  // namespace sbx::test
