// Copy: files into a session, out of it, or from one to another, as `sbx session cp` does it.
//
// Theory of operation. Data goes as a tar stream over a pipe between two ends: file workers inside
// sessions (files_request.h) or a forked child of this process (copy_child.h). We wait for both and
// read their reports. A signal ends the end that sends; the one that receives sees the stream cut,
// removes what is unfinished and says so. With `is_resuming` the receiving side lists first what it
// has (image/inventory.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/archive/transfer.h"
#include "core/base/result.h"
#include "core/session/client.h"

namespace sbx::session {

/// One side of a copy.
struct CopyPlace {
  /// Makes a connection to the session's supervisor; empty: a place of the host.
  std::function<Result<Client>()> connect;
  std::string path;        ///< bytes, as the user wrote it
  bool is_stream = false;  ///< "-": a tar stream on our stdin or stdout

  bool is_session() const { return static_cast<bool>(connect); }
};

struct CopyProgress {
  std::uint64_t bytes = 0;
  std::uint64_t total = 0;  ///< 0: not known
};

struct CopyOptions {
  bool is_resuming = false;
  /// Called some times a second; empty: nobody looks, and nothing is counted beforehand.
  std::function<void(const CopyProgress&)> on_progress;
};

struct CopyResult {
  archive::TransferReport from;  ///< what could not be read or taken along
  archive::TransferReport to;    ///< what could not be kept
  std::optional<int> signal;     ///< it was interrupted by this one
};

/// Copies, and returns when both ends are over. One side at least is a session. Errors: kUsage for
/// sides that do not fit, else what ended it. Blocks; signals that end commands are caught.
Result<CopyResult> copy(const CopyPlace& from, const CopyPlace& to, const CopyOptions& options);

/// One line: what was copied and what was not (schema 1).
std::string copy_json(const CopyResult& result);

}  // namespace sbx::session
