// Files request: how a command asks a session's supervisor for a file worker inside.
//
// "files" carries the stream, the pipe for the report and perhaps an inventory; the answer is
// "files" with the worker's number, and "files_end" with its wait status once it is over. The
// supervisor touches none of the data. "files_stop" ends a worker.
#pragma once

#include "core/ipc/message.h"
#include "core/session/wire.h"

namespace sbx::session {

class Peer;

/// The frame that asks for it.
Fields files_fields(const ipc::Files& request);

/// What the supervisor does with "files" and "files_stop".
void handle_files(Peer& peer, Frame& frame);
void handle_files_stop(Peer& peer, Frame& frame);

}  // namespace sbx::session
