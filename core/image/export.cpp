// Export: see export.h.
#include "core/image/export.h"

#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/blob_tar.h"
#include "core/image/canonical.h"
#include "core/image/layer_tar.h"
#include "core/image/merged_mount.h"
#include "core/image/oci_json.h"
#include "core/image/storage_job.h"

namespace sbx::image {

namespace {

/// Writes a tar stream to the descriptor that it gets.
using Produce = std::function<Result<LayerTar>(int out)>;
using Consume = std::function<Status(int in)>;

/// Runs `produce` in a storage job and `consume` here, with a pipe between.
Result<LayerTar> stream(const confine::StorageIds& ids,
                        const Produce& produce,
                        const Consume& consume) {
  SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
  static_cast<void>(sys::set_pipe_size(pipe.w.get(), 1 << 20));
  SBX_ASSIGN(StorageJob job, StorageJob::start(ids, [&]() -> Result<std::string> {
               pipe.r.reset();
               SBX_ASSIGN(const LayerTar tar, produce(pipe.w.get()));
               pipe.w.reset();
               return to_text(tar);
             }));
  pipe.w.reset();
  SBX_TRY(consume(pipe.r.get()));
  pipe.r.reset();
  SBX_ASSIGN(const std::string answer, job.finish("read the image"));
  return parse_layer_tar(answer);
}

std::string hex_of(std::string_view text) {
  Sha256 digest;
  digest.update(text);
  return digest.hex();
}

struct WrittenLayer {
  std::string diff_id;
  Blob blob;
};

class LayerExporter {
 public:
  LayerExporter(const Store& store, const Opened& image, const OnExport& told)
      : store_(store), told_(told) {
    for (const LayerRef& layer : image.record.layers) {
      total_ += layer.bytes;
    }
  }

  Status prepare() {
    SBX_ASSIGN(ids_, confine::storage_ids());
    return {};
  }

  Status tell(std::uint64_t now) const { return told_ ? told_(done_ + now, total_) : Status(); }

  /// Writes the layer's tar to the position of `fd`.
  Result<WrittenLayer> write(const LayerRef& layer, int fd, archive::Compression how) {
    WrittenLayer written;
    archive::Compressed packed;
    SBX_ASSIGN(const LayerForJob source, layer_for_job(ids_, store_.layers(), layer.id));
    SBX_ASSIGN(const LayerTar tar,
               stream(
                   ids_,
                   [&](int out) { return write_layer_tar(source, out); },
                   [&](int in) -> Status {
                     SBX_ASSIGN(packed, archive::compress(in, fd, how, [this](std::uint64_t now) {
                                  return tell(now);
                                }));
                     return {};
                   }));
    done_ += packed.read;
    note(layer.id, tar);
    written.diff_id = tar.diff_id;
    written.blob = {kLayerType, packed.sha256, packed.written};
    if (how == archive::Compression::kGzip) written.blob.media_type += "+gzip";
    if (how == archive::Compression::kZstd) written.blob.media_type += "+zstd";
    return written;
  }

 private:
  /// A note that cannot be written costs disk space at an import, nothing else.
  void note(const std::string& id, const LayerTar& tar) const {
    if (canonical_of(store_.layers(), id).has_value()) return;
    const auto dir = sys::openat(store_.layers(), id, O_RDONLY | O_DIRECTORY);
    if (dir.ok()) static_cast<void>(note_canonical(dir.value().get(), tar));
  }

  const Store& store_;
  const OnExport& told_;
  confine::StorageIds ids_;
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
};

Result<std::uint64_t> position(int fd) {
  const off64_t at = ::lseek64(fd, 0, SEEK_CUR);
  if (at == -1) return sys_error("seek in the archive");
  return static_cast<std::uint64_t>(at);
}

/// All layers, each stored once, under the name that `name_of` gives.
Result<std::vector<WrittenLayer>> write_layers(
    LayerExporter& exporter,
    const Opened& image,
    int fd,
    archive::Compression how,
    const std::function<std::string(const WrittenLayer&)>& name_of) {
  BlobTar tar(fd);
  std::vector<WrittenLayer> all;
  std::map<std::string, WrittenLayer> known;
  for (const LayerRef& layer : image.record.layers) {
    const auto found = known.find(layer.id);
    if (found != known.end()) {
      all.push_back(found->second);
      continue;
    }
    SBX_TRY(tar.begin());
    SBX_ASSIGN(WrittenLayer written, exporter.write(layer, fd, how));
    SBX_TRY(tar.end(name_of(written), written.blob.size));
    known.emplace(layer.id, written);
    all.push_back(std::move(written));
  }
  return all;
}

std::vector<std::string> diff_ids_of(const std::vector<WrittenLayer>& layers) {
  std::vector<std::string> ids;
  for (const WrittenLayer& layer : layers) {
    ids.push_back(layer.diff_id);
  }
  return ids;
}

Blob blob_of(const char* type, std::string_view text) {
  return {type, hex_of(text), text.size()};
}

}  // namespace

Result<ExportReport> export_oci(const Store& store,
                                const Opened& image,
                                int fd,
                                archive::Compression layers,
                                const OnExport& told) {
  SBX_ASSIGN(const std::uint64_t start, position(fd));
  LayerExporter exporter(store, image, told);
  SBX_TRY(exporter.prepare());
  BlobTar tar(fd);
  SBX_TRY(tar.add("oci-layout", kLayoutText));
  SBX_TRY(tar.add_directory("blobs/"));
  SBX_TRY(tar.add_directory("blobs/sha256/"));
  SBX_ASSIGN(const std::vector<WrittenLayer> written,
             write_layers(exporter, image, fd, layers, [](const WrittenLayer& layer) {
               return layer.blob.path();
             }));
  const std::string config = config_document(image.record, diff_ids_of(written));
  const Blob config_blob = blob_of(kConfigType, config);
  SBX_TRY(tar.add(config_blob.path(), config));
  std::vector<Blob> blobs;
  std::vector<std::string> paths;
  for (const WrittenLayer& layer : written) {
    blobs.push_back(layer.blob);
    paths.push_back(layer.blob.path());
  }
  const std::string manifest = manifest_document(config_blob, blobs);
  const Blob manifest_blob = blob_of(kManifestType, manifest);
  SBX_TRY(tar.add(manifest_blob.path(), manifest));
  SBX_TRY(tar.add("index.json", index_document(image.record, manifest_blob)));
  SBX_TRY(tar.add("manifest.json", docker_document(image.record, config_blob.path(), paths)));
  SBX_TRY(tar.finish());
  SBX_ASSIGN(const std::uint64_t end, position(fd));
  return ExportReport{end - start, text::cat("sha256:", manifest_blob.sha256)};
}

Result<ExportReport> export_docker(const Store& store,
                                   const Opened& image,
                                   int fd,
                                   const OnExport& told) {
  SBX_ASSIGN(const std::uint64_t start, position(fd));
  LayerExporter exporter(store, image, told);
  SBX_TRY(exporter.prepare());
  // An uncompressed blob's digest is its diff_id.
  const auto name_of = [](const WrittenLayer& layer) {
    return text::cat(layer.blob.sha256, ".tar");
  };
  SBX_ASSIGN(const std::vector<WrittenLayer> written,
             write_layers(exporter, image, fd, archive::Compression::kNone, name_of));
  const std::string config = config_document(image.record, diff_ids_of(written));
  const std::string config_hex = hex_of(config);
  const std::string config_name = text::cat(config_hex, ".json");
  std::vector<std::string> names;
  for (const WrittenLayer& layer : written) {
    names.push_back(name_of(layer));
  }
  BlobTar tar(fd);
  SBX_TRY(tar.add(config_name, config));
  SBX_TRY(tar.add("manifest.json", docker_document(image.record, config_name, names)));
  SBX_TRY(tar.finish());
  SBX_ASSIGN(const std::uint64_t end, position(fd));
  return ExportReport{end - start, text::cat("sha256:", config_hex)};
}

Result<ExportReport> export_tar(const Store& store,
                                const Opened& image,
                                int fd,
                                archive::Compression how,
                                const OnExport& told) {
  SBX_ASSIGN(const confine::StorageIds ids, confine::storage_ids());
  SBX_ASSIGN(const SharedLayers shared, share_layers(store, ids, image.record));
  std::uint64_t total = 0;
  for (const LayerRef& layer : image.record.layers) {
    total += layer.bytes;
  }
  archive::Compressed packed;
  SBX_ASSIGN(const LayerTar tar,
             stream(
                 ids,
                 [&](int out) -> Result<LayerTar> {
                   SBX_ASSIGN(const MergedMount merged, mount_merged(shared));
                   return write_tree_tar(merged.root.get(), TarOf::kTree, out);
                 },
                 [&](int in) -> Status {
                   SBX_ASSIGN(packed, archive::compress(in, fd, how, [&](std::uint64_t now) {
                                return told ? told(now, total) : Status();
                              }));
                   return {};
                 }));
  return ExportReport{packed.written, tar.diff_id};
}

}  // namespace sbx::image
