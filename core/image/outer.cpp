// Outer: see outer.h.
#include "core/image/outer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/base/text.h"
#include "core/image/image_archive.h"
#include "core/image/layer_key.h"
#include "core/image/layer_path.h"
#include "core/image/source.h"
#include "core/image/stages.h"

namespace sbx::image {

namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::size_t kSniffed = std::size_t{64} << 10U;
constexpr std::string_view kBlobs = "blobs/sha256/";

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

/// How a stream is moved into a layer.
struct Pumped {
  Status read;  ///< of the stream
  bool has_end_mark = false;
};

Pumped pump(Peekable& input, LayerSink& sink) {
  Pumped pumped;
  Tail tail;
  while (true) {
    auto bytes = input.next();
    if (!bytes.ok()) {
      pumped.read = std::move(bytes).error();
      return pumped;
    }
    if (bytes.value().empty()) break;
    tail.add(bytes.value());
    if (!sink.write(bytes.value()).ok()) break;  // finish() knows why
  }
  pumped.has_end_mark = tail.is_zero();
  return pumped;
}

class Outer {
 public:
  Outer(const OuterRequest& request, OuterReport& report)
      : request_(request), report_(report), stages_(request.staging, request.budget) {}

  Status run() {
    if (!request_.blobs.empty()) return opened_blobs();
    FdBlocks blocks(request_.source, on_read());
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
  std::function<void(std::uint64_t)> on_read() {
    return [this](std::uint64_t bytes) {
      if (request_.progress != nullptr && !is_looking_) request_.progress->read += bytes;
    };
  }

  Status plain(Peekable& input, FdBlocks* file) {
    SBX_ASSIGN(const std::string_view head, input.peek(kSniffed));
    if (!archive::is_tar_header(head)) return unknown_format();
    if (!is_image_archive(head)) return root(input);
    if (file != nullptr && file->is_file()) return image_file(*file);
    return image_stream(input);
  }

  Result<LayerSink> start_sink(std::string& stage, archive::Compression compression) {
    SBX_ASSIGN(Stages::Begun begun, stages_.begin());
    stage = std::move(begun.stage);
    return LayerSink::start(
        std::move(begun.root), begun.limits, compression, stages_.ratio(), request_.progress);
  }

  Status root(Peekable& input) {
    std::string stage;
    SBX_ASSIGN(LayerSink sink, start_sink(stage, archive::Compression::kNone));
    Pumped pumped = pump(input, sink);
    // A tar stream that is cut between two members is seen by nothing but its missing end.
    if (pumped.read.ok() && !pumped.has_end_mark) {
      pumped.read = Error(Errc::kProtocol, "the archive is cut off: it has no end mark");
    }
    auto done = sink.finish(pumped.read.ok() ? Ending::kWhole : Ending::kCut);
    if (!done.ok() && !is_peer_gone(done.error())) return std::move(done).error();
    SBX_TRY(std::move(pumped.read));
    if (!done.ok()) return std::move(done).error();
    report_.staged.push_back(
        {stage, std::move(done.value().diff_id), std::move(done.value().report)});
    return {};
  }

  // --- archives of images ---

  /// The texts first, then what is needed of the rest.
  Status image_file(FdBlocks& file) {
    const archive::NextBlock next = [&file] { return file.next(); };
    const archive::SkipBytes skip = [&file](std::uint64_t bytes) { return file.skip(bytes); };
    is_looking_ = true;
    SBX_TRY(file.rewind());
    ImageArchive texts;
    SBX_TRY(texts.read(next, skip, {}));
    SBX_ASSIGN(const ImagePlan plan, plan_image(texts.find_text(), request_.tag));
    wanted_.emplace();
    std::string chain;
    for (const PlannedLayer& layer : plan.layers) {
      const bool is_there = !present_layer(request_.present, chain, layer.diff_id).empty();
      if (!is_there) wanted_->insert(texts.resolve(layer.path));
      chain = chain_id(chain, layer.diff_id);
    }
    is_looking_ = false;
    if (request_.progress != nullptr) request_.progress->read = 0;
    SBX_TRY(file.rewind());
    ImageArchive layers;
    if (!wanted_->empty()) SBX_TRY(layers.read(next, skip, on_layer()));
    return take_plan(plan, texts);
  }

  Status image_stream(Peekable& input) {
    ImageArchive archive;
    SBX_TRY(archive.read([&input] { return input.next(); }, {}, on_layer()));
    SBX_ASSIGN(const ImagePlan plan, plan_image(archive.find_text(), request_.tag));
    return take_plan(plan, archive);
  }

  Status opened_blobs() {
    for (const OpenedBlob& blob : request_.blobs) {
      FdBlocks blocks(blob.fd.get(), on_read());
      Peekable content([&blocks] { return blocks.next(); });
      SBX_ASSIGN(const std::string_view head, content.peek(kTarBlock));
      SBX_TRY(unpack(blob.path, archive::compression_of(head), content));
      SBX_TRY(check_diff_id(blob.path, report_.staged.back(), blob.diff_id));
    }
    return {};
  }

  ImageArchive::OnLayer on_layer() {
    return [this](const std::string& path, archive::Compression compression, Peekable& content) {
      if (wanted_.has_value() && !wanted_->contains(path)) return Status();
      Status done = unpack(path, compression, content);
      if (done.ok() || wanted_.has_value() || !is_of_layer(done.error())) return done;
      // Perhaps nobody wants it: what the image is made of is not known yet.
      failed_.emplace(path, std::move(done).error());
      return Status();
    };
  }

  static bool is_of_layer(const Error& error) {
    return error.code() == Errc::kProtocol || error.code() == Errc::kDenied ||
           error.code() == Errc::kUnsupported;
  }

  Status unpack(const std::string& path, archive::Compression compression, Peekable& content) {
    std::string stage;
    SBX_ASSIGN(LayerSink sink, start_sink(stage, compression));
    const Pumped pumped = pump(content, sink);
    auto done = sink.finish(pumped.read.ok() ? Ending::kWhole : Ending::kCut);
    if (!pumped.read.ok()) return pumped.read.error();
    if (!done.ok()) return std::move(done).error().prefixed(text::cat("layer ", shown(path)));
    if (path.starts_with(kBlobs) && path != blob_path(done.value().blob_digest)) {
      return Error(Errc::kProtocol,
                   text::cat("blob sha256:",
                             shown(path.substr(kBlobs.size())),
                             " has another digest: ",
                             done.value().blob_digest));
    }
    stages_.use(done.value().report);
    unpacked_[path] = report_.staged.size();
    report_.staged.push_back(
        {stage, std::move(done.value().diff_id), std::move(done.value().report)});
    return {};
  }

  static Status check_diff_id(const std::string& path,
                              const StagedLayer& layer,
                              const std::string& diff_id) {
    if (layer.diff_id == diff_id) return {};
    return Error(Errc::kProtocol,
                 text::cat("layer ",
                           shown(path),
                           " has the content ",
                           layer.diff_id,
                           ", but the configuration says ",
                           diff_id));
  }

  /// Whether all that the image consists of is there and as it has to be.
  Status take_plan(const ImagePlan& plan, const ImageArchive& archive) {
    std::string chain;
    for (const PlannedLayer& layer : plan.layers) {
      const bool is_there = !present_layer(request_.present, chain, layer.diff_id).empty();
      chain = chain_id(chain, layer.diff_id);
      const std::string path = archive.resolve(layer.path);
      const auto at = unpacked_.find(path);
      if (at != unpacked_.end()) {
        SBX_TRY(check_diff_id(layer.path, report_.staged[at->second], layer.diff_id));
      } else if (!is_there) {
        const auto failed = failed_.find(path);
        if (failed != failed_.end()) return failed->second;
        return Error(Errc::kNotFound, text::cat("layer ", shown(layer.path), " is missing"));
      }
    }
    report_.image = plan.image;
    return {};
  }

  const OuterRequest& request_;
  OuterReport& report_;
  Stages stages_;
  bool is_looking_ = false;                      // what is read now is read again
  std::optional<std::set<std::string>> wanted_;  // paths of layers; none: not known
  std::map<std::string, std::size_t> unpacked_;  // by path: index in the report
  std::map<std::string, Error> failed_;
};

}  // namespace

std::string present_layer(const PresentLayers& present,
                          std::string_view lower,
                          std::string_view diff_id) {
  for (const bool depends : {false, true}) {
    const auto at = present.find(layer_id(lower, diff_id, depends));
    if (at != present.end()) return at->second;
  }
  return {};
}

OuterReport read_source(const OuterRequest& request) {
  OuterReport report;
  report.status = Outer(request, report).run();
  return report;
}

}  // namespace sbx::image
