// Outer: see outer.h.
#include "core/image/outer.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "core/base/text.h"
#include "core/image/field_codec.h"
#include "core/image/source.h"
#include "core/image/stages.h"

namespace sbx::image {

namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::uint64_t kMostStages = 10'000;

/// Remembers the last bytes of a stream.
class Tail {
 public:
  void add(std::span<const std::byte> bytes) {
    if (bytes.size() > kTarBlock) bytes = bytes.last(kTarBlock);
    last_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (last_.size() > kTarBlock) last_.erase(0, last_.size() - kTarBlock);
  }
  bool is_zero() const {
    return std::ranges::all_of(last_, [](char c) { return c == 0; });
  }

 private:
  std::string last_;
};

Error unknown_format() {
  return Error(Errc::kProtocol, "it is no archive that can be imported")
      .with_hint(
          "give a tar file (plain, gzip, bzip2, xz, zstd, lz4) of a root file system or of "
          "an image (docker save, OCI archive)");
}

/// Moves all of `input` into a layer.
Result<LayerDone> pump(Peekable& input, LayerSink& sink) {
  Tail tail;
  Status status;
  while (true) {
    auto bytes = input.next();
    if (!bytes.ok()) {
      status = std::move(bytes).error();
      break;
    }
    if (bytes.value().empty()) break;
    tail.add(bytes.value());
    if (!sink.write(bytes.value()).ok()) break;  // finish() knows why
  }
  // A tar stream that is cut between two members is seen by nothing but its missing end.
  if (status.ok() && !tail.is_zero()) {
    status = Error(Errc::kProtocol, "the archive is cut off: it has no end mark");
  }
  auto done = sink.finish(status.ok() ? Ending::kWhole : Ending::kCut);
  if (!done.ok() && !is_peer_gone(done.error())) return done;
  if (!status.ok()) return std::move(status).error();
  return done;
}

class Outer {
 public:
  Outer(const OuterRequest& request, OuterReport& report)
      : request_(request), report_(report), stages_(request.staging, request.budget) {}

  Status run() {
    FdBlocks blocks(request_.source, [this](std::uint64_t bytes) {
      if (request_.progress != nullptr) request_.progress->read += bytes;
    });
    Peekable source([&blocks] { return blocks.next(); });
    SBX_ASSIGN(const std::string_view head, source.peek(kTarBlock));
    if (head.empty()) return Error(Errc::kProtocol, "there is nothing in it");
    const archive::Compression compression = archive::compression_of(head);
    if (compression == archive::Compression::kNone) return plain(source, &blocks);
    const archive::NextBlock compressed = [&source] { return source.next(); };
    SBX_ASSIGN(Inflater inflater, start_inflater(compression, compressed, stages_.ratio()));
    Peekable inflated([&inflater] { return inflater.output.next(); });
    Status done = plain(inflated, nullptr);
    inflater.output.be_nobody();
    const auto digest = finish_inflater(inflater.worker);
    if (!digest.ok() && !is_peer_gone(digest.error())) return digest.error();
    return done;
  }

 private:
  Status plain(Peekable& input, FdBlocks* /*file*/) {
    SBX_ASSIGN(const std::string_view head, input.peek(kTarBlock));
    if (!archive::is_tar_header(head)) return unknown_format();
    return root(input);
  }

  Status root(Peekable& input) {
    SBX_ASSIGN(Stages::Begun begun, stages_.begin());
    SBX_ASSIGN(LayerSink sink,
               LayerSink::start(std::move(begun.root),
                                begun.limits,
                                archive::Compression::kNone,
                                stages_.ratio(),
                                request_.progress));
    SBX_ASSIGN(LayerDone done, pump(input, sink));
    report_.staged.push_back({begun.stage, std::move(done.diff_id), std::move(done.report)});
    return {};
  }

  const OuterRequest& request_;
  OuterReport& report_;
  Stages stages_;
};

}  // namespace

OuterReport read_source(const OuterRequest& request) {
  OuterReport report;
  report.status = Outer(request, report).run();
  return report;
}

std::string encode(const OuterReport& report) {
  FieldWriter out;
  out.add(report.status);
  out.add(std::uint64_t{report.staged.size()});
  for (const StagedLayer& layer : report.staged) {
    out.add(std::string_view(layer.stage));
    out.add(std::string_view(layer.diff_id));
    out.add(std::string_view(encode(layer.report)));
  }
  return out.text();
}

Result<OuterReport> decode_outer_report(std::string_view text) {
  FieldReader fields(text);
  OuterReport report;
  SBX_TRY(fields.read(report.status));
  SBX_ASSIGN(std::uint64_t count, fields.number(kMostStages));
  for (; count > 0; --count) {
    StagedLayer layer;
    SBX_ASSIGN(const std::string_view stage, fields.bytes());
    SBX_ASSIGN(const std::string_view diff_id, fields.bytes());
    SBX_ASSIGN(const std::string_view inner, fields.bytes());
    SBX_ASSIGN(layer.report, decode_layer_report(inner));
    const bool is_number = !stage.empty() && stage.size() < 6 &&
                           stage.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_number) return Error(Errc::kProtocol, "malformed name in the report of an import");
    layer.stage = stage;
    layer.diff_id = diff_id;
    report.staged.push_back(std::move(layer));
  }
  SBX_TRY(fields.end());
  return report;
}

}  // namespace sbx::image
