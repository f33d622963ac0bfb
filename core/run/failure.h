// Failure texts: what went wrong with a run, in words for a person and a stable word for a program.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/confine/cgroup.h"
#include "core/profile/profile.h"
#include "core/run/options.h"
#include "core/run/report.h"

namespace sbx::run {

/// What a text depends on besides the report's outcome and exit status.
struct FailureFacts {
  const profile::Profile& profile;
  std::vector<confine::InForce> limits;
  const std::vector<std::string>& missing;  ///< globs of --require without a match
  std::optional<Deadline> missed_deadline;
};

/// The text for what went wrong; none for what is the program's own affair.
std::optional<Failure> failure_of(const Report& report, const FailureFacts& facts);

/// The limit `limit` ("memory", "pids", "disk", "inodes") was met.
Failure limit_failure(const profile::Profile& profile,
                      std::string_view limit,
                      const std::vector<confine::InForce>& in_force);

/// The deadline passed; `when` goes behind the sentence, e.g. " while waiting".
Failure deadline_failure(const Deadline& deadline, std::string_view when);

}  // namespace sbx::run
