// Log_follow: reads a log to its end, or goes on as it grows until nothing can follow.
#pragma once

#include <functional>

#include "core/base/result.h"
#include "core/session/event_log.h"
#include "core/session/exec_log_reader.h"

namespace sbx::session {

/// What to do with each record or event; an error ends the reading and is handed on.
using TakeRecord = std::function<Status(const LogRecord&)>;
using TakeEvent = std::function<Status(const EventLine&)>;
/// Asked before each look at the files: true when nothing will be added any more. What is there
/// then is still read.
using IsOver = std::function<bool()>;
/// After everything that can be read now was taken.
using Caught = std::function<Status()>;

/// Everything that is there, or, with `is_over`, until that says so or the log says that the exec
/// has ended. `dirfd`: where the log lies. Blocks.
Status read_log(ExecLogReader& reader,
                int dirfd,
                const IsOver& is_over,
                const TakeRecord& take,
                const Caught& caught);
Status read_events(EventLogReader& reader,
                   int dirfd,
                   const IsOver& is_over,
                   const TakeEvent& take,
                   const Caught& caught);

}  // namespace sbx::session
