// Layer sink: see layer_sink.h.
#include "core/image/layer_sink.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "core/base/text.h"
#include "core/image/field_codec.h"
#include "core/image/layer_import.h"

namespace sbx::image {

namespace {

constexpr std::uint64_t kFreeBytes = std::uint64_t{16} << 20U;  // that no ratio is asked of
constexpr std::size_t kMaxInflaterReport = std::size_t{64} << 10U;

/// Counts what goes into and comes out of a decompressor.
class RatioGuard {
 public:
  explicit RatioGuard(std::uint64_t ratio) : ratio_(ratio) {}
  void read(std::size_t bytes) { in_ += bytes; }
  Status wrote(std::size_t bytes) {
    out_ += bytes;
    if (out_ <= kFreeBytes || (out_ - kFreeBytes) / ratio_ <= in_) return {};
    return Error(Errc::kLimit,
                 text::cat("a compressed stream becomes more than ", ratio_, " times as long"));
  }

 private:
  std::uint64_t ratio_;
  std::uint64_t in_ = 0;
  std::uint64_t out_ = 0;
};

Status inflate(archive::Compression compression,
               const archive::NextBlock& input,
               std::uint64_t ratio,
               ByteRing& output,
               Sha256& digest) {
  RatioGuard guard(ratio);
  SBX_ASSIGN(archive::Decompressor plain,
             archive::Decompressor::open(compression, [&]() -> decltype(input()) {
               SBX_ASSIGN(const std::span<const std::byte> bytes, input());
               guard.read(bytes.size());
               return bytes;
             }));
  while (true) {
    SBX_ASSIGN(const std::span<const std::byte> bytes, plain.next());
    if (bytes.empty()) break;
    SBX_TRY(guard.wrote(bytes.size()));
    digest.update(bytes);
    SBX_TRY(output.write(bytes));
  }
  SBX_TRY(output.end());
  // What lies behind the last frame: who feeds us is not to be cut off.
  while (true) {
    SBX_ASSIGN(const std::span<const std::byte> rest, input());
    if (rest.empty()) return {};
  }
}

std::string prefixed_digest(Sha256& digest) {
  return "sha256:" + digest.hex();
}

}  // namespace

Result<Inflater> start_inflater(archive::Compression compression,
                                archive::NextBlock input,
                                std::uint64_t ratio,
                                ByteRing* input_ring) {
  SBX_ASSIGN(ByteRing output, ByteRing::create());
  const auto body = [&] {
    if (input_ring != nullptr) input_ring->be_consumer();
    output.be_producer();
    Sha256 digest;
    const Status done = inflate(compression, input, ratio, output, digest);
    FieldWriter report;
    report.add(done);
    report.add(std::string_view(prefixed_digest(digest)));
    output.be_nobody();
    return report.text();
  };
  SBX_ASSIGN(Worker worker, Worker::start("decompress", body));
  output.be_consumer();
  return Inflater{std::move(worker), std::move(output)};
}

Result<std::string> finish_inflater(Worker& worker) {
  SBX_ASSIGN(const std::string text, worker.finish(kMaxInflaterReport));
  FieldReader fields(text);
  Status status;
  SBX_TRY(fields.read(status));
  SBX_TRY(status);
  SBX_ASSIGN(const std::string_view digest, fields.bytes());
  SBX_TRY(fields.end());
  return std::string(digest);
}

Result<LayerSink> LayerSink::start(UniqueFd root,
                                   const LayerLimits& limits,
                                   archive::Compression compression,
                                   std::uint64_t ratio,
                                   ImportProgress* progress) {
  SBX_ASSIGN(ByteRing ring, ByteRing::create());
  std::optional<Inflater> inflater;
  if (compression != archive::Compression::kNone) {
    const archive::NextBlock compressed = [&ring] { return ring.next(); };
    SBX_ASSIGN(Inflater started, start_inflater(compression, compressed, ratio, &ring));
    ring.be_producer();
    inflater.emplace(std::move(started));
  }
  ByteRing& plain = inflater.has_value() ? inflater->output : ring;
  const auto body = [&] {
    ::umask(0);
    if (inflater.has_value()) ring.be_nobody();
    plain.be_consumer();
    const archive::NextBlock next = [&plain] { return plain.next(); };
    const LayerReport report = import_layer(std::move(root), limits, next, [progress] {
      if (progress != nullptr) ++progress->entries;
    });
    plain.be_nobody();
    return encode(report);
  };
  SBX_ASSIGN(Worker writer, Worker::start("unpack", body));
  if (inflater.has_value()) inflater->output.be_nobody();
  ring.be_producer();
  LayerSink sink(std::move(ring), std::move(writer));
  if (inflater.has_value()) sink.inflater_ = std::move(inflater->worker);
  return sink;
}

Status LayerSink::write(std::span<const std::byte> bytes) {
  Status done = ring_.write(bytes);
  if (!done.ok()) {
    is_broken_ = true;
    return done;
  }
  digest_.update(bytes);
  return {};
}

Result<LayerDone> LayerSink::finish(Ending ending) {
  if (ending == Ending::kCut) is_broken_ = true;
  if (!is_broken_ && !ring_.end().ok()) is_broken_ = true;
  ring_.be_nobody();
  LayerDone done;
  done.blob_digest = prefixed_digest(digest_);
  done.diff_id = done.blob_digest;
  Status inflated;
  if (inflater_.has_value()) {
    auto diff_id = finish_inflater(*inflater_);
    if (diff_id.ok()) done.diff_id = std::move(diff_id).value();
    if (!diff_id.ok()) inflated = std::move(diff_id).error();
  }
  auto text = writer_.finish(kMaxLayerReport);
  // The step that is not merely cut off by another one knows the cause.
  if (!inflated.ok() && !is_peer_gone(inflated.error())) return std::move(inflated).error();
  if (!text.ok()) return std::move(text).error();
  SBX_ASSIGN(done.report, decode_layer_report(text.value()));
  if (!done.report.status.ok()) return std::move(done.report.status).error();
  if (!inflated.ok()) return std::move(inflated).error();
  if (is_broken_) return sys_error("a step of the import ended too early", EPIPE);
  return done;
}

}  // namespace sbx::image
