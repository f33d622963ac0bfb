// Failure: see failure.h.
#include "core/run/failure.h"

#include <string>

#include "core/base/text.h"
#include "core/base/units.h"

namespace sbx::run {

namespace {

Failure disk_failure(std::string_view limit, const std::vector<confine::InForce>& in_force) {
  const bool is_disk = limit == "disk";
  std::string value;
  for (const confine::InForce& held : in_force) {
    if (held.limit != limit) continue;
    const auto bytes = parse_count(held.value);
    value = text::cat(" of ", is_disk && bytes.ok() ? to_string(Bytes{bytes.value()}) : held.value);
  }
  if (!is_disk) {
    return {.code = "inodes_limit",
            .message = text::cat("the limit on files", value, " was hit: new ones were refused"),
            .fix = "allow more with --inodes (limits.inodes)"};
  }
  return {.code = "disk_full",
          .message = text::cat("the disk", value, " was full at the end"),
          .fix = "give it more with --disk (limits.disk); up to --memory files are kept in memory"};
}

}  // namespace

Failure deadline_failure(const Deadline& deadline, std::string_view when) {
  return {.code = "deadline",
          .message = text::cat("the deadline of ", to_string(deadline.given), " was reached", when),
          .fix = "give it more with --deadline"};
}

Failure limit_failure(const profile::Profile& profile,
                      std::string_view limit,
                      const std::vector<confine::InForce>& in_force) {
  if (limit == "disk" || limit == "inodes") return disk_failure(limit, in_force);
  const bool is_memory = limit == "memory";
  std::string value;
  if (is_memory && profile.limits.memory.has_value()) value = to_string(*profile.limits.memory);
  if (!is_memory && profile.limits.pids.has_value()) value = text::cat(*profile.limits.pids);
  return {.code = text::cat(limit, "_limit"),
          .message = text::cat("the ",
                               limit,
                               " limit",
                               value.empty() ? "" : " of ",
                               value,
                               is_memory ? " was hit: the kernel ended a process of the job"
                                         : " was hit: new processes or threads were refused"),
          .fix = is_memory ? "give it more with -m (limits.memory)"
                           : "allow more with --pids (limits.pids)"};
}

std::optional<Failure> failure_of(const Report& report, const FailureFacts& facts) {
  const supervise::Outcome& outcome = report.outcome;
  const profile::Profile& profile = facts.profile;
  if (outcome.error.has_value()) {
    const bool is_program = outcome.cause == supervise::Cause::kExited;
    Failure failure{.code = std::string(name(outcome.error->code())),
                    .message = outcome.error->message(),
                    .fix = outcome.error->hint()};
    if (is_program) failure.code = report.exit_status == 127 ? "not_found" : "not_executable";
    return failure;
  }
  switch (outcome.cause) {
    case supervise::Cause::kTimeout:
      if (facts.missed_deadline.has_value()) return deadline_failure(*facts.missed_deadline, {});
      return Failure{.code = "time_limit",
                     .message = text::cat("the time limit of ",
                                          to_string(profile.limits.timeout.value_or(Millis{0})),
                                          " was reached"),
                     .fix = "give it more with --timeout (limits.timeout)"};
    case supervise::Cause::kOom:
      return limit_failure(profile, "memory", {});
    case supervise::Cause::kCpuLimit:
      return Failure{.code = "cpu_limit",
                     .message = text::cat("the CPU time limit of ",
                                          to_string(profile.limits.cpu_time.value_or(Millis{0})),
                                          " was used up"),
                     .fix = "allow more with --cpu-time (limits.cpu_time)"};
    case supervise::Cause::kPolicyDenied:
      return Failure{.code = "required_missing",
                     .message = text::cat("no artifact matches ", text::join(facts.missing, ", ")),
                     .fix = "have the program write it into /work, or drop --require"};
    case supervise::Cause::kDiskFull:
    case supervise::Cause::kExited:
    case supervise::Cause::kSignal:
      if (report.exit_status != 0 && !outcome.limit_hit.empty()) {
        return limit_failure(profile, outcome.limit_hit, facts.limits);
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace sbx::run
