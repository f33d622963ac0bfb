// Commit: see commit.h.
//
// Theory of operation
//  1. A forked child freezes the present state as a checkpoint does and says which layers it has:
//     reaching all files of a user's session puts a process into a namespace in which nothing else
//     can be started (reach_files_of).
//  2. The session's own layers are merged into a new one, by hard links.
//  3. The digest of that layer's tar is its name from then on: it moves there, or gives way to an
//     equal one that is there already.
//  4. The image's record is written. All of it under a shared lock on the layers.
#include "core/session/commit.h"

#include <fcntl.h>
#include <unistd.h>

#include <span>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/storage_ids.h"
#include "core/image/canonical.h"
#include "core/image/layer_key.h"
#include "core/image/layer_tar.h"
#include "core/image/storage_job.h"
#include "core/session/checkpoint.h"
#include "core/session/layers.h"
#include "core/session/wire.h"
#include "core/workspace/layer_squash.h"

namespace sbx::session {

namespace {

constexpr Bytes kLongestAnswer{std::uint64_t{1} << 20U};

/// The frozen present state, found by a child of ours.
Result<Checkpoint> capture_in_child(const Store& store, const Lease& lease) {
  SBX_ASSIGN(sys::Pipe answer, sys::pipe());
  const pid_t self = ::getpid();
  SBX_ASSIGN(Forked forked, fork_pidfd());
  if (forked.pid == 0) {
    die_with_parent_in_child(self);
    answer.r.reset();
    const auto captured = [&]() -> Result<Checkpoint> {
      SBX_ASSIGN(Record record, lease.read());
      SBX_ASSIGN(Checkpoint made, capture(store, lease, record));
      SBX_TRY(lease.write(record));
      return made;
    }();
    Fields fields = captured.ok() ? Fields("captured") : error_fields(captured.error());
    if (captured.ok()) {
      fields.set("layers", captured.value().layers);
      fields.set("way", captured.value().way);
      fields.set("pause_ns", captured.value().pause_ns);
    }
    (void)sys::write_all(answer.w.get(), encode_frame(fields));
    ::_exit(0);
  }
  ChildProcess child(forked.pid, std::move(forked.pidfd));
  answer.w.reset();
  auto said = sys::read_all(answer.r.get(), kLongestAnswer);
  SBX_TRY(child.wait());
  if (!said.ok()) return std::move(said).error();
  constexpr std::size_t kLengthSize = 4;
  if (said.value().size() <= kLengthSize) {
    return Error(Errc::kSystem, "freezing the session's files ended early");
  }
  SBX_ASSIGN(const Fields fields, decode_frame(std::string_view(said.value()).substr(kLengthSize)));
  if (auto error = error_of(fields)) return *std::move(error);
  Checkpoint made;
  made.layers = fields.list("layers");
  made.way = fields.text("way");
  made.pause_ns = fields.number("pause_ns");
  return made;
}

/// One layer with what `ids` change; its id, or "" when they change nothing.
Result<std::string> merge(int layers,
                          const std::vector<std::string>& ids,
                          const confine::StorageIds& owners) {
  if (owners.kind == confine::StorageIds::Kind::kRange) {  // root reaches all of them
    SBX_ASSIGN(const workspace::CopyReport merged, workspace::squash(layers, ids));
    return merged.id;
  }
  return image::run_storage_job(owners, "merge layers", [&]() -> Result<std::string> {
    SBX_ASSIGN(const workspace::CopyReport merged, workspace::squash(layers, ids));
    return merged.id;
  });
}

/// Names the layer `id` by its content. It is gone when such a one is there already.
Result<image::LayerRef> publish(int layers,
                                const std::string& id,
                                const confine::StorageIds& owners) {
  SBX_ASSIGN(const image::LayerTar tar, image::digest_layer(owners, layers, id));
  image::LayerRef layer;
  layer.id = image::layer_id({}, tar.diff_id, false);
  layer.diff_id = tar.diff_id;
  layer.bytes = tar.bytes;
  SBX_ASSIGN(const auto aliases, image::layer_aliases(layers));
  if (const auto other = aliases.find(layer.id); other != aliases.end()) layer.id = other->second;
  if (sys::fstatat(layers, layer.id, AT_SYMLINK_NOFOLLOW).ok()) {
    SBX_TRY(workspace::remove_layer(layers, id));
    return layer;
  }
  {
    SBX_ASSIGN(const UniqueFd dir, sys::openat(layers, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    SBX_TRY(image::note_canonical(dir.get(), tar));
  }
  SBX_TRY(sys::renameat(layers, id, layers, layer.id));
  SBX_TRY(sys::fsync(layers));
  return layer;
}

}  // namespace

Result<Committed> commit(const Store& store,
                         const image::Store& images,
                         const std::string& session,
                         const CommitRequest& request) {
  SBX_TRY(image::check_name(request.image));
  SBX_ASSIGN(const confine::StorageIds owners, confine::storage_ids());
  SBX_ASSIGN(const Lease lease, store.lock(session));
  SBX_ASSIGN(const Record record, lease.read());
  SBX_TRY(check_layers(record));
  if (!record.image.has_value()) {
    return Error(Errc::kUnsupported,
                 text::cat("session ", session, " has the host's own programs, which are no image"))
        .with_hint(
            "make one of an image, sbx session start --image NAME; sbx session export "
            "makes an archive of its files");
  }
  Committed done;
  SBX_ASSIGN(done.image, image::parse_record(record.image->record));
  SBX_ASSIGN(const workspace::LayersLock held, hold_layers(store));
  SBX_ASSIGN(const Checkpoint now, capture_in_child(store, lease));
  done.pause_ns = now.pause_ns;
  done.way = now.way;
  const std::size_t own = base_index(now.layers) + 1;
  const std::vector<std::string> own_ids(
      now.layers.begin() + static_cast<std::ptrdiff_t>(std::min(own, now.layers.size())),
      now.layers.end());
  SBX_ASSIGN(const std::string merged, merge(store.layers(), own_ids, owners));
  auto layer = publish(store.layers(), merged, owners);
  if (!layer.ok()) {
    (void)workspace::remove_layer(store.layers(), merged);
    return std::move(layer).error();
  }
  done.image.layers.push_back(std::move(layer).value());
  done.image.name = request.image;
  done.image.created_ns = realtime_ns();
  done.image.source = request.source;
  if (request.config.has_value()) done.image.config = *request.config;
  done.image.id = image::identity(done.image);
  SBX_TRY(images.put(done.image, held));
  return done;
}

}  // namespace sbx::session
