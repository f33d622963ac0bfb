// Run: the whole one-shot job - profile, plan, start, relay, end, artifacts, report.
//
// It prints nothing but the program's own output (and that only when it is not captured).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/backend/backend.h"
#include "core/base/result.h"
#include "core/run/options.h"
#include "core/run/report.h"

namespace sbx::run {

/// What callers may have set otherwise, and what a program of ours never wants. Part of begin() and
/// execute(); for those who do more before.
void settle_signals();

/// Begins a sandbox for Options::head before anything else of the job is known: it comes to be
/// while the command line is read. Letting go of it ends it. `has_mounts`: the command line seems
/// to name mounts.
std::shared_ptr<backend::HeadStart> begin(bool has_mounts);

/// Runs the job to its end and blocks until nothing of it is left. Never fails as such: a mistake
/// or a broken sandbox is a Report whose `outcome.cause` is kUsage or kSandboxError and whose
/// `failure` says why. Writes the status line to Options::status_fd. Relays to our descriptors 1
/// and 2, and from 0 with want_stdin. SIGINT, SIGTERM and SIGHUP end the job.
Report execute(const Options& options);

/// The memory limit that execute() would ask for; nullopt: none. The errors of a mistake in program
/// or profile, as there. Starts nothing.
Result<std::optional<Bytes>> memory_limit(const Options& options);

/// The same without the status line: one attempt of a run that may take several.
Report attempt(const Options& options);

/// A report of a run that did not take place because of `error`.
Report refused(const Options& options, const Error& error);
/// Sets what follows from `report.outcome`: exit status and whether a later try may succeed.
void settle_outcome(Report& report);

/// The line for Options::status_fd, when there is one.
void write_status(const Options& options, const Report& report);

/// What execute() would do, one line per step; starts nothing. kUsage and kUnsupported as there.
Result<std::string> plan_text(const Options& options);

}  // namespace sbx::run
