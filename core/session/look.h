// Look: what a session's supervisor tells of the processes inside and of what they use, as frames
// of the control socket (wire.h); and what the session's files take on the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/session/client.h"
#include "core/session/store.h"
#include "core/session/wire.h"

namespace sbx::session {

class Peer;

Fields processes_frame(std::span<const backend::ProcessInfo> processes);
/// kProtocol for anything else than such a frame.
Result<std::vector<backend::ProcessInfo>> parse_processes(const Fields& fields);

Fields usage_frame(const backend::LiveUsage& usage);
backend::LiveUsage parse_usage(const Fields& fields);

/// What the supervisor does on these requests (peer.h).
void tell_processes(Peer& peer, Frame& frame);
void tell_usage(Peer& peer, Frame& frame);

/// What a command asks. Blocks until the supervisor answers.
Result<std::vector<backend::ProcessInfo>> ask_processes(Client& client);
Result<backend::LiveUsage> ask_usage(Client& client);

struct FilesUse {
  Bytes bytes;                         ///< allocated blocks
  std::optional<std::uint64_t> files;  ///< nullopt: nobody on the host can count them
};
/// What the session's own layers take: all but the base, without those that only its checkpoints
/// name; or its disk. Works in every state; blocks for a walk over all files.
Result<FilesUse> disk_use(const Store& store, const Record& record);

}  // namespace sbx::session
