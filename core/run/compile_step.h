// Compile step: one compiler in the sandbox, before the program and held to the same limits.
//
// It knows what became of the compiler and of its words, and nothing of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/run/report.h"
#include "core/supervise/relay.h"
#include "core/supervise/supervisor.h"

namespace sbx::run {

/// Of a compiler's words at most this much is passed on or kept: a wrong template can fill a disk.
inline constexpr Bytes kLongestCompilerText{std::uint64_t{1} << 20U};

class CompileStep {
 public:
  struct End {
    std::optional<int> wait_status;   ///< as waitpid(2); absent when it never ran or was cut short
    std::optional<Error> exec_error;  ///< it could not be started
    int exec_errno = 0;               ///< errno of that
    std::optional<Error> lost;        ///< its words could not be passed on (full disk)
    Output output;                    ///< stdout, then stderr; text only when it was captured
    double wall_s = 0;
  };

  CompileStep(Loop& loop, supervise::Supervisor& supervisor)
      : loop_(loop), supervisor_(supervisor) {}

  /// Starts the compiler, with empty stdin. `capture`: its words go into memory, else both streams
  /// to our stderr. `done` is called once on the loop, when it has ended, everything that it left
  /// running is killed and its words are delivered; not after an error from here.
  Status start(const backend::ExecSpec& spec,
               bool capture,
               std::optional<Bytes> limit,
               std::function<void()> done);
  /// What is known now. Call it once.
  End take_end();
  /// Drops what was not delivered; `done` is not called any more.
  void stop();

 private:
  std::unique_ptr<supervise::Relay> relay(UniqueFd source);
  void has_ended();
  void finish_if_drained();

  Loop& loop_;
  supervise::Supervisor& supervisor_;
  bool is_capturing_ = false;
  Bytes limit_ = kLongestCompilerText;
  std::function<void()> done_;
  std::unique_ptr<supervise::Relay> out_;
  std::unique_ptr<supervise::Relay> err_;
  bool has_ended_ = false;
  std::int64_t began_ns_ = 0;
  std::int64_t ended_ns_ = 0;
  End end_;
};

/// As its exit status is told: the compiler's own, 128 + N for signal N, 127 or 126 when it could
/// not be started; nullopt when it was cut short.
std::optional<int> exit_status(const CompileStep::End& end);

}  // namespace sbx::run
