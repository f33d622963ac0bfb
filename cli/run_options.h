// RunOptions: turns the flags and words of `sbx run` into what the job's engine understands. Starts
// nothing.
#pragma once

#include <span>
#include <vector>

#include "cli/verb.h"
#include "core/base/result.h"
#include "core/run/batch_job.h"
#include "core/run/options.h"

namespace sbx::cli {

/// The program that FILE, -, -c or the words behind `--` name. kUsage when there is none, or two.
Result<run::Program> program_of(const Invocation& given);

/// Flags that set a profile's keys, in an order of ours: --set first, so that a flag of its own
/// wins over it wherever it stands on the command line.
Result<std::vector<profile::Override>> overrides_of(const Invocation& given);

/// What a job has in common with others: all but the program, its descriptors and where its
/// artifacts go. kUsage as below; sets the log's level.
Result<run::Options> common_options_of(const Invocation& given);

/// Everything. kUsage names the flag; nothing is created but the state directory.
Result<run::Options> options_of(const Invocation& given);

/// The flags that set one key of the profile, with that key.
std::span<const run::KeyField> key_fields();

/// The descriptor of --status-fd: open and writable, else kUsage.
Result<int> status_fd_of(const std::string& value);

/// Sets the log's level from --log-level, $SBX_LOG_LEVEL or -q, in this order.
Status set_log_level(const Invocation& given);

}  // namespace sbx::cli
