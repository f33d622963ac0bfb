// Layer sink: takes the bytes of one layer, compressed or not, and has it unpacked and digested by
// processes of their own while the bytes go on coming.
//
//   who calls ──ring──► decompressor and hasher ──ring──► writer of files      (compressed)
//   who calls, hasher ──ring──────────────────────────► writer of files        (plain)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/archive/archive_reader.h"
#include "core/base/result.h"
#include "core/base/sha256.h"
#include "core/base/unique_fd.h"
#include "core/image/byte_ring.h"
#include "core/image/import.h"
#include "core/image/layer_report.h"
#include "core/image/worker.h"

namespace sbx::image {

/// A decompressor in a process of its own.
struct Inflater {
  Worker worker;
  ByteRing output;  ///< we are its consumer
};
/// Starts one that reads `input`. More than `ratio` bytes for each byte of it are kLimit.
Result<Inflater> start_inflater(archive::Compression compression,
                                archive::NextBlock input,
                                std::uint64_t ratio,
                                ByteRing* input_ring = nullptr);
/// "sha256:<hex>" of all that it put out, once that was read to the end; or why it failed.
Result<std::string> finish_inflater(Worker& worker);

struct LayerDone {
  std::string blob_digest;  ///< "sha256:<hex>" of what was written into the sink
  std::string diff_id;      ///< the same of the plain tar stream
  LayerReport report;
};

/// Whether all of the stream has come.
enum class Ending : std::uint8_t { kWhole, kCut };

class LayerSink {
 public:
  /// `root`: the empty directory that the layer goes to.
  static Result<LayerSink> start(UniqueFd root,
                                 const LayerLimits& limits,
                                 archive::Compression compression,
                                 std::uint64_t ratio,
                                 ImportProgress* progress);

  /// Takes the next bytes. An error that is_peer_gone() is explained by finish().
  Status write(std::span<const std::byte> bytes);
  /// To be called when a write failed, too. The error is that of the step that failed first.
  Result<LayerDone> finish(Ending ending = Ending::kWhole);

 private:
  LayerSink(ByteRing ring, Worker writer) : ring_(std::move(ring)), writer_(std::move(writer)) {}

  ByteRing ring_;
  Worker writer_;
  std::optional<Worker> inflater_;
  Sha256 digest_;
  bool is_broken_ = false;
};

}  // namespace sbx::image
