// Language: what a failed compile step or a missing compiler or interpreter means for the report.
#pragma once

#include "core/profile/profile.h"
#include "core/run/job.h"
#include "core/run/report.h"

namespace sbx::run {

/// The profile's own command is not there inside: that is no fault of the program. Turns its ENOENT
/// into a sandbox error (kUnsupported) that names the Debian package.
void judge_missing_tool(const JobRequest& request,
                        bool is_profile_command,
                        const profile::Profile& profile,
                        JobEnd& end);

/// Moves what became of the compiler into the report, and has the failure say that it was it.
void add_compile(const JobRequest& request, JobEnd& end, Report& report);

}  // namespace sbx::run
