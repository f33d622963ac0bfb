// Import: see import.h.
//
// Theory of operation
//   1. The lock on the layers is held shared from before anything is made until the name is there.
//   2. A directory is made for the layers to come ("staging"); a crash leaves it to the sweep.
//   3. A fork that is root of the storage ids and can reach nothing but that directory reads the
//      source and unpacks layers into it (outer.h). What it reports is checked.
//   4. Layers that depend on those below them are completed, in a fork of the same kind that can
//      read those.
//   5. The file system is flushed, then the layers get the names that their content has, by rename.
//      One that is there already is left alone.
//   6. The record is written.
// Whatever fails, the staging directory goes.
#include "core/image/import.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/scope_exit.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/landlock.h"
#include "core/confine/storage_ids.h"
#include "core/image/budget.h"
#include "core/image/canonical.h"
#include "core/image/field_codec.h"
#include "core/image/layer_complete.h"
#include "core/image/layer_key.h"
#include "core/image/layout_dir.h"
#include "core/image/outer.h"
#include "core/image/outer_report.h"
#include "core/image/worker.h"
#include "core/workspace/beneath.h"

namespace sbx::image {

namespace {

constexpr std::string_view kLayerPrefix = "img-";
constexpr std::size_t kMaxStatus = std::size_t{64} << 10U;

Error no_layout(const ImportRequest& request) {
  return Error(Errc::kUsage, "it is a directory and no OCI layout")
      .with_hint(text::cat(
          "tar -C ", text::escape(request.path), " -c . | sbx image import - ", request.name));
}

Result<UniqueFd> open_source(const ImportRequest& request) {
  if (request.path == "-") return sys::dup(STDIN_FILENO);
  return sys::open(request.path, O_RDONLY | O_NOCTTY);
}

/// Ids of the layers that are there, each with the one it has in the store: what sbx wrote as a tar
/// file itself is there as the layer that it was written from.
Result<PresentLayers> present_layers(int layers) {
  SBX_ASSIGN(const UniqueFd dir, workspace::open_directory(layers, ""));
  SBX_ASSIGN(const std::vector<std::string> names, workspace::read_names(dir.get()));
  SBX_ASSIGN(PresentLayers found, layer_aliases(layers));
  for (const std::string& name : names) {
    if (name.starts_with(kLayerPrefix)) found[name] = name;
  }
  return found;
}

/// A layer of the image in the making.
struct Part {
  LayerRef ref;
  const StagedLayer* staged = nullptr;  // none: it is in the store
};

class Import {
 public:
  Import(const Store& store, const ImportRequest& request, confine::StorageIds ids)
      : store_(store), request_(request), ids_(std::move(ids)) {}

  Result<Record> run() {
    SBX_ASSIGN(const UniqueFd source, open_source(request_));
    SBX_ASSIGN(const auto lock,
               workspace::LayersLock::take(store_.layers(), workspace::LayersLock::Mode::kShared));
    SBX_ASSIGN(workspace::NewLayer staging, workspace::NewLayer::begin(store_.layers()));
    const ScopeExit clean([&] { remove_stages(staging.fd()); });
    // Its owner inside has to be able to make entries in it.
    SBX_TRY(sys::fchown(staging.fd(), ids_.uids.front().outside, ids_.gids.front().outside));
    SBX_ASSIGN(present_, present_layers(store_.layers()));
    SBX_ASSIGN(const OuterReport report, read(source.get(), staging.fd()));
    SBX_TRY(report.status);
    if (request_.progress != nullptr && request_.progress->total > 0) {
      request_.progress->read = request_.progress->total.load();  // what is there is not read
    }
    SBX_ASSIGN(std::vector<Part> parts, put_together(report));
    SBX_TRY(complete(parts, staging.fd()));
    SBX_TRY(publish(parts, staging.fd()));
    SBX_TRY(drop_hidden(parts));
    const Record record = describe(report, parts);
    SBX_TRY(store_.put(record, lock));
    return record;
  }

 private:
  Result<OuterReport> read(int source, int staging) {
    OuterRequest outer;
    outer.source = source;
    outer.staging = staging;
    outer.budget = request_.budget;
    outer.tag = request_.tag;
    outer.progress = request_.progress;
    outer.present = present_;
    SBX_ASSIGN(const struct stat st, sys::fstat(source));
    if (!S_ISDIR(st.st_mode)) {
      if (S_ISREG(st.st_mode)) add_total(st);
      return run_outer(outer, staging);
    }
    SBX_ASSIGN(const std::optional<ImagePlan> plan, plan_dir(source, request_.tag));
    if (!plan.has_value()) return no_layout(request_);
    SBX_ASSIGN(outer.blobs, open_blobs(source, *plan, present_));
    OuterReport report;
    if (!outer.blobs.empty()) {
      for (const OpenedBlob& blob : outer.blobs) {
        SBX_ASSIGN(const struct stat size, sys::fstat(blob.fd.get()));
        add_total(size);
      }
      SBX_ASSIGN(report, run_outer(outer, staging));
    }
    report.image = plan->image;
    return report;
  }

  void add_total(const struct stat& st) {
    if (request_.progress == nullptr) return;
    request_.progress->total += static_cast<std::uint64_t>(st.st_size);
  }

  Result<OuterReport> run_outer(const OuterRequest& outer, int staging) {
    SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
    SBX_ASSIGN(ChildProcess child, confine::fork_as_storage_root(ids_, [&] {
                 pipe.r.reset();
                 ::signal(SIGPIPE, SIG_IGN);
                 ::umask(0);
                 // A kernel without it has the namespaces and the descriptors all the same.
                 (void)confine::landlock_only_beneath_in_child(std::span(&staging, 1), {});
                 return sys::write_all(pipe.w.get(), encode(read_source(outer))).ok() ? 0 : 1;
               }));
    pipe.w.reset();
    Worker worker("import", std::move(child), std::move(pipe.r));
    SBX_ASSIGN(const std::string text, worker.finish(kMaxOuterReport));
    return decode_outer_report(text);
  }

  /// The layers of the image, lowest first.
  Result<std::vector<Part>> put_together(const OuterReport& report) {
    std::map<std::string_view, const StagedLayer*> staged;
    std::vector<std::string> diff_ids;
    for (const StagedLayer& layer : report.staged) {
      staged.emplace(layer.diff_id, &layer);
      if (!report.image.has_value()) diff_ids.push_back(layer.diff_id);
    }
    if (report.image.has_value()) diff_ids = report.image->diff_ids;
    std::vector<Part> parts;
    std::string chain;
    for (const std::string& diff_id : diff_ids) {
      Part part;
      part.ref.diff_id = diff_id;
      part.ref.id = present_layer(present_, chain, diff_id);
      const auto at = staged.find(diff_id);
      if (part.ref.id.empty() && at == staged.end()) {
        return Error(Errc::kProtocol, text::cat("layer ", diff_id, " was not unpacked"));
      }
      if (part.ref.id.empty()) {
        part.staged = at->second;
        part.ref.bytes = at->second->report.bytes;
        part.ref.id = layer_id(chain, diff_id, at->second->report.depends_on_lower());
      } else {
        part.ref.bytes = at != staged.end() ? at->second->report.bytes : known_bytes(part.ref.id);
      }
      chain = chain_id(chain, diff_id);
      // Of the same layer twice the upper one decides alone: the lower one shows nothing through
      // it, and overlayfs takes no layer twice.
      std::erase_if(parts, [&](const Part& lower) { return lower.ref.id == part.ref.id; });
      parts.push_back(std::move(part));
    }
    return parts;
  }

  /// What another image says of the size of a layer.
  std::uint64_t known_bytes(const std::string& id) const {
    std::vector<std::string> problems;
    const auto records = store_.list(problems);
    if (!records.ok()) return 0;
    for (const Record& record : records.value()) {
      for (const LayerRef& layer : record.layers) {
        if (layer.id == id) return layer.bytes;
      }
    }
    return 0;
  }

  Status complete(const std::vector<Part>& parts, int staging) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const StagedLayer* layer = parts[i].staged;
      const bool is_needed = layer != nullptr && layer->report.depends_on_lower() &&
                             (i > 0 || !layer->report.links.empty());
      if (!is_needed) continue;
      SBX_ASSIGN(const UniqueFd root, open_part(parts[i], staging));
      std::vector<UniqueFd> lower;
      for (std::size_t below = i; below > 0; --below) {
        SBX_ASSIGN(UniqueFd fd, open_part(parts[below - 1], staging));
        lower.push_back(std::move(fd));
      }
      SBX_TRY(run_complete(root.get(), std::move(lower), layer->report));
    }
    return {};
  }

  Result<UniqueFd> open_part(const Part& part, int staging) const {
    if (part.staged == nullptr) return workspace::open_layer(store_.layers(), part.ref.id, "root");
    return workspace::open_directory(staging, part.staged->stage + "/fs/root");
  }

  Status run_complete(int root, std::vector<UniqueFd> lower, const LayerReport& report) {
    SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
    SBX_ASSIGN(ChildProcess child, confine::fork_as_storage_root(ids_, [&] {
                 pipe.r.reset();
                 ::signal(SIGPIPE, SIG_IGN);
                 ::umask(0);
                 std::vector<int> readable;
                 for (const UniqueFd& fd : lower)
                   readable.push_back(fd.get());
                 (void)confine::landlock_only_beneath_in_child(std::span(&root, 1), readable);
                 FieldWriter out;
                 out.add(complete_layer(root, std::move(lower), report, request_.budget.bytes.v));
                 return sys::write_all(pipe.w.get(), out.text()).ok() ? 0 : 1;
               }));
    pipe.w.reset();
    Worker worker("complete a layer", std::move(child), std::move(pipe.r));
    SBX_ASSIGN(const std::string text, worker.finish(kMaxStatus));
    FieldReader fields(text);
    Status status;
    SBX_TRY(fields.read(status));
    return status;
  }

  Status publish(const std::vector<Part>& parts, int staging) {
    const bool is_needed =
        std::ranges::any_of(parts, [](const Part& part) { return part.staged != nullptr; });
    if (!is_needed) return {};
    if (::syncfs(staging) != 0) return sys_error("flush the layers to the disk");
    for (const Part& part : parts) {
      if (part.staged == nullptr) continue;
      const Status renamed = sys::renameat(
          staging, part.staged->stage, store_.layers(), part.ref.id, RENAME_NOREPLACE);
      if (!renamed.ok() && renamed.error().sys_errno() != EEXIST) return renamed;
    }
    return sys::fsync(store_.layers());
  }

  /// Leaves out what lies below a layer that hides all of it: overlayfs merges the roots of layers
  /// whatever their attributes say.
  Status drop_hidden(std::vector<Part>& parts) {
    for (std::size_t i = parts.size(); i > 0; --i) {
      SBX_ASSIGN(const UniqueFd root,
                 workspace::open_layer(store_.layers(), parts[i - 1].ref.id, "root"));
      SBX_ASSIGN(const bool is_opaque, workspace::is_opaque(root.get()));
      if (!is_opaque) continue;
      parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i - 1));
      break;
    }
    return {};
  }

  Record describe(const OuterReport& report, const std::vector<Part>& parts) {
    Record record;
    record.name = request_.name;
    record.created_ns = realtime_ns();
    record.source = request_.source;
    record.architecture = host_architecture();
    if (report.image.has_value()) {
      if (!report.image->architecture.empty()) record.architecture = report.image->architecture;
      record.variant = report.image->variant;
      record.config = report.image->config;
    }
    for (const Part& part : parts) {
      record.layers.push_back(part.ref);
      if (request_.left_out != nullptr && part.staged != nullptr) {
        request_.left_out->devices += part.staged->report.left_out.devices;
        request_.left_out->xattrs += part.staged->report.left_out.xattrs;
      }
    }
    record.id = identity(record);
    return record;
  }

  /// What is left in the staging directory belongs to ids that this process may not have.
  void remove_stages(int staging) {
    const auto names = workspace::read_names(staging);
    if (!names.ok() || names.value().empty()) return;
    static_cast<void>(confine::run_as_storage_root(ids_, "clean up", [&] {
      for (const std::string& name : names.value()) {
        static_cast<void>(fs::remove_tree(staging, name));
      }
      return 0;
    }));
  }

  const Store& store_;
  const ImportRequest& request_;
  confine::StorageIds ids_;
  PresentLayers present_;
};

}  // namespace

Result<Record> import_image(const Store& store, const ImportRequest& request) {
  SBX_TRY(check_name(request.name));
  SBX_ASSIGN(confine::StorageIds ids, confine::storage_ids());
  SBX_ASSIGN(const Room room, state_room(store.state_dir()));
  if (room.left.v == 0) return no_room(store.state_dir(), room, std::nullopt);
  // Of a disk without room the kernel tells, more exactly: holes take none.
  ImportRequest bounded = request;
  const bool is_bounded = room.is_of_budget && room.left < request.budget.bytes;
  if (is_bounded) bounded.budget.bytes = room.left;
  auto record = Import(store, bounded, std::move(ids)).run();
  if (record.ok()) return record;
  const std::string& message = record.error().message();
  const bool is_over = is_bounded && record.error().code() == Errc::kLimit &&
                       message.find("content is above") != std::string::npos;
  Error error =
      is_over ? no_room(store.state_dir(), room, std::nullopt) : std::move(record).error();
  return std::move(error).prefixed(
      text::cat("import ", request.path == "-" ? "standard input" : text::escape(request.path)));
}

}  // namespace sbx::image
