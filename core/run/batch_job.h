// Batch job: one line of a job list, from JSON text to what the one-shot job's engine understands.
//
// Pure: it reads no file and starts nothing. A line is untrusted text: its length is bounded by
// whoever read it, and nothing is kept that is not in the line.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/profile/profile.h"
#include "core/run/options.h"

namespace sbx::run {

/// A field that sets one key of the profile to its text, as the flag of the same name does.
struct KeyField {
  std::string_view name;  ///< "memory"
  std::string_view key;   ///< "limits.memory"
};

struct BatchJob {
  std::string id;  ///< as given; empty: the line's number serves
  Program program;
  std::optional<std::string> input;  ///< text for the program's stdin
  std::optional<std::string> profile;
  std::optional<std::string> out;
  bool allow_outside = false;
  std::vector<std::string> inputs;
  std::vector<std::string> require;
  std::vector<std::string> packages;
  std::vector<profile::Override> overrides;  ///< in the order of the command line's
};

/// Longest id, in bytes.
inline constexpr std::size_t kLongestJobId = 200;

/// Reads one line. kUsage for text that is no JSON object, an unknown, repeated or wrongly typed
/// field, or a job without one program to run; the hint says what was meant where that is clear.
/// `keys` must outlive the call only.
Result<BatchJob> parse_batch_job(std::string_view line, std::span<const KeyField> keys);

/// `defaults` with the job's own words on top: they win over equal ones, lists are added to.
/// Stdin is left to the caller.
Options batch_options(const Options& defaults, BatchJob job);

}  // namespace sbx::run
