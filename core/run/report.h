// Report: what became of one run, and its JSON form (schema 1 of the result object).
//
// It holds bytes as the program wrote them; only to_json() decides how they are shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/confine/cgroup.h"
#include "core/run/artifacts.h"
#include "core/supervise/outcome.h"

namespace sbx::run {

inline constexpr int kReportSchema = 1;

/// What went wrong, for a person and for a program.
struct Failure {
  std::string code;     ///< stable word: "not_found", "required_missing", "memory_limit", ...
  std::string message;  ///< one line; may hold bytes from inside: escape before printing
  std::string fix;      ///< command or setting that mends it; may be empty
};

/// One of the program's output streams.
struct Output {
  std::string data;         ///< captured bytes, at most the output limit; empty when relayed
  std::uint64_t bytes = 0;  ///< what the program wrote, kept or not
  bool truncated = false;   ///< the limit was met: `bytes` is more than was passed on
};

/// Seconds spent; the clock is CLOCK_MONOTONIC.
struct Phases {
  double setup_s = 0;    ///< until the program or its compiler was started
  double run_s = 0;      ///< until its main process ended
  double collect_s = 0;  ///< kill, counters, artifacts
};

/// The compile step, when the profile has one and it was begun.
struct Compile {
  std::string command;             ///< "gcc"
  std::optional<int> exit_status;  ///< 128 + N for signal N; absent: cut short by a limit or signal
  Output output;  ///< the compiler's stdout, then its stderr; captured with capture
  double wall_s = 0;
  bool has_failed() const { return exit_status != 0; }
};

struct Denied {
  std::string what;    ///< "net", ...
  std::string target;  ///< "host:443"
  std::string rule;
};

/// The image that the root was made of.
struct ReportImage {
  std::string name;
  std::string id;
};

struct Report {
  std::string id;
  std::string profile;
  std::string isolation;
  std::string isolation_reason;
  std::optional<ReportImage> image;
  supervise::Outcome outcome;
  int exit_status = 0;  ///< what sbx itself should exit with
  bool retryable = false;
  std::optional<Failure> failure;
  std::optional<Compile> compile;  ///< the program was started only if it did not fail
  Output out;
  Output err;                             ///< unused with a terminal: both streams are one then
  std::vector<std::string> pip_packages;  ///< added ones, exactly: "numpy==1.26.4"
  std::vector<std::string> npm_packages;  ///< "left-pad@1.3.0"
  std::vector<Artifact> artifacts;
  bool artifacts_complete = true;  ///< false: some were left out, see the warnings
  confine::Usage usage;
  bool has_usage = false;  ///< something ran and was accounted
  Phases phases;
  std::vector<confine::InForce> limits;
  std::vector<Denied> denied;
  unsigned attempts = 0;     ///< how often it was started, with --retry; else 0
  bool is_recorded = false;  ///< `sbx runs show` finds it
  std::string skip_reason;   ///< kSkipped: what stood in the way
};

/// The result object of `run --json`, one line without the newline. Always valid UTF-8.
std::string to_json(const Report& report);

/// The same without the output, and with the first 1000 artifacts only: what a record keeps.
std::string to_record_json(const Report& report);

/// The line for --status-fd: the same object without output and artifacts.
std::string to_status_json(const Report& report);

}  // namespace sbx::run
