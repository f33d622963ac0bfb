// Copy child: our own end of a copy, in a forked process, so that the command can wait for both
// ends, show progress and take signals while files are read and written.
//
// The child has only its streams, ignores the signals that the terminal sends to all, and writes
// one report at its end, as a file worker inside does. A child that reads files dies with the
// command; one that writes files sees the end of its stream and leaves no half file.
#pragma once

#include <functional>

#include "core/archive/transfer.h"
#include "core/base/process.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::session {

/// What the child does with its descriptors; runs in the child. They are `in`, `out` or both.
struct ChildFds {
  int in = -1;
  int out = -1;
};
using ChildWork = std::function<Status(const ChildFds& fds, archive::TransferReport& report)>;

struct CopyChild {
  ChildProcess process;
  UniqueFd report;  ///< read end
};

/// Forks it. `in` and `out` are those that it may use, -1 for none, and stay the caller's.
Result<CopyChild> start_copy_child(const ChildFds& fds, const ChildWork& work);

/// The work of a child that only passes a stream on.
ChildWork relay_work(archive::TransferProgress* progress);

/// Memory that the child's progress can be read from; null when there is none.
archive::TransferProgress* shared_progress();

}  // namespace sbx::session
