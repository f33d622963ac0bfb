// Commit: an image out of a session of an image: the image's layers, and what the session changed
// as one layer more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/image/record.h"
#include "core/image/store.h"
#include "core/session/store.h"

namespace sbx::session {

struct CommitRequest {
  std::string image;   ///< its name; one that is there is replaced
  std::string source;  ///< Record::source of the image
  /// Settings of the new image; nullopt: those of the one that the session was made of.
  std::optional<image::Config> config;
};

struct Committed {
  image::Record image;
  std::int64_t pause_ns = 0;  ///< how long the session's programs stood still
  std::string way;            ///< "stacked" or "copied", as of a checkpoint
};

/// Programs that run in the session stand still while its changes are copied. kUnsupported for a
/// session of the host's programs: these are no image. Either the name has the whole image at the
/// end, or nothing is left but layers that no name refers to. Blocks.
Result<Committed> commit(const Store& store,
                         const image::Store& images,
                         const std::string& session,
                         const CommitRequest& request);

}  // namespace sbx::session
