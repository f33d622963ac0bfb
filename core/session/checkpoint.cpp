// Checkpoint: see checkpoint.h.
#include "core/session/checkpoint.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/profile/saved.h"
#include "core/session/client.h"
#include "core/session/disk.h"
#include "core/session/event_log.h"
#include "core/session/layers.h"
#include "core/workspace/beneath.h"
#include "core/workspace/layer_copy.h"
#include "core/workspace/layer_squash.h"

namespace sbx::session {

namespace {

constexpr std::string_view kStacked = "stacked";
constexpr std::string_view kCopied = "copied";
constexpr Millis kGrace{5000};

Error no_checkpoint(const Record& record, const std::string& tag) {
  std::vector<std::string> tags;
  for (const Checkpoint& checkpoint : record.checkpoints) {
    tags.push_back(checkpoint.tag);
  }
  Error error(Errc::kNotFound,
              text::cat("session ", record.name, " has no checkpoint \"", text::escape(tag), "\""));
  if (const auto near = text::closest(tag, tags)) {
    return std::move(error).with_hint(text::cat("did you mean ", *near, "?"));
  }
  return std::move(error).with_hint(text::cat("sbx session checkpoints ", record.name));
}

/// The first of PREFIX1, PREFIX2 ... that no checkpoint has.
std::string free_tag(const Record& record, std::string_view prefix) {
  for (std::size_t number = 1;; ++number) {
    std::string tag = text::cat(prefix, number);
    if (record.find_checkpoint(tag) == nullptr) return tag;
  }
}

void note(const Lease& lease, EventKind kind, const std::vector<EventField>& fields) {
  auto events = EventLog::open(lease.dir());
  if (events.ok()) (void)events.value().append(kind, fields);
}

/// The session's own layers, above the base and the image, merged into one when there are too many.
Status bound_chain(const Store& store, std::vector<std::string>& layers) {
  const std::size_t own = base_index(layers) + 1;
  if (layers.size() < own + kMostLayers) return {};
  const auto first = layers.begin() + static_cast<std::ptrdiff_t>(own);
  const std::vector<std::string> own_ones(first, layers.end());
  SBX_ASSIGN(workspace::CopyReport merged, workspace::squash(store.layers(), own_ones));
  layers.erase(first, layers.end());
  layers.push_back(std::move(merged.id));
  return {};
}

/// The layers of the present state of a session that nobody is alive in; its writable layer becomes
/// one of them. The caller writes the record.
Result<Checkpoint> stack(const Store& store, Record& record) {
  Checkpoint made;
  made.created_ns = realtime_ns();
  made.way = kStacked;
  made.layers = record.lowers;
  made.layers.push_back(record.upper);
  SBX_TRY(workspace::drop_work_dirs(store.layers(), record.upper));
  SBX_TRY(bound_chain(store, made.layers));
  record.lowers = made.layers;
  SBX_ASSIGN(record.upper, new_layer(store));
  return made;
}

/// The same of a session that lives: its programs stand still while the layer is copied.
Result<Checkpoint> copy(const Store& store, const Record& record) {
  SBX_ASSIGN(Client client, Client::connect(store, record));
  // The supervisor takes connections of its own namespace only: it has looked once it answers.
  SBX_TRY(client.call(Fields("status")));
  reach_files_of(record);
  Checkpoint made;
  made.created_ns = realtime_ns();
  made.way = kCopied;
  const std::int64_t began = monotonic_ns();
  SBX_TRY(client.call(Fields("hold")));
  Status released;
  const auto release = [&] {
    auto answer = client.call(Fields("release"));
    if (!answer.ok()) released = std::move(answer).error();
    made.pause_ns = monotonic_ns() - began;
  };
  // Whatever happens to us, the supervisor lets go when the connection ends.
  SBX_ASSIGN(workspace::CopyReport copied,
             workspace::copy_layer(store.layers(), record.upper, {}, release));
  SBX_TRY(std::move(released));
  made.layers = record.lowers;
  made.layers.push_back(std::move(copied.id));
  if (copied.reflinked) made.way += ", blocks shared";
  SBX_TRY(bound_chain(store, made.layers));
  return made;
}

/// A virtual machine writes to its disk as long as it lives.
Status check_ended(const Lease& lease) {
  SBX_ASSIGN(const std::optional<Life> life, look_at_life(lease.dir()));
  if (!life.has_value()) {
    clear_crash(lease.dir());
    return {};
  }
  return Error(Errc::kUnsupported,
               text::cat("session ",
                         lease.name(),
                         " runs in a virtual machine: its disk can be kept only while it is "
                         "stopped"))
      .with_hint(text::cat("sbx session stop ", lease.name(), ", then the same again"));
}

/// The present state of a stopped session with a disk.
Result<Checkpoint> copy_present_disk(const Lease& lease, const Record& record) {
  SBX_TRY(check_ended(lease));
  Checkpoint made;
  made.created_ns = realtime_ns();
  SBX_ASSIGN(DiskCopy copied, copy_disk(lease.dir(), record.disk->file, lease.dir()));
  made.disk = std::move(copied.file);
  made.way = copied.reflinked ? text::cat(kCopied, ", blocks shared") : std::string(kCopied);
  return made;
}

/// A state that new sessions are made of: layers, or a disk in the session's directory.
Result<Checkpoint> state_at(const Store& store,
                            const Lease& lease,
                            const std::optional<std::string>& from) {
  SBX_ASSIGN(Record record, lease.read());
  if (from.has_value()) {
    const Checkpoint* const checkpoint = record.find_checkpoint(*from);
    if (checkpoint == nullptr) return no_checkpoint(record, *from);
    return *checkpoint;
  }
  if (record.disk.has_value()) {
    SBX_TRY(check_ended(lease));
    Checkpoint present;
    present.disk = record.disk->file;
    return present;
  }
  SBX_ASSIGN(Checkpoint made, capture(store, lease, record));
  SBX_TRY(lease.write(record));
  return made;
}

/// Goes back to the disk of `wanted`; what was there is the disk of the state that is kept.
Result<Checkpoint> exchange_disks(const Lease& lease, const Checkpoint& wanted, Record& record) {
  SBX_ASSIGN(DiskCopy copied, copy_disk(lease.dir(), wanted.disk, lease.dir()));
  Checkpoint kept;
  kept.created_ns = realtime_ns();
  kept.way = "set aside";
  kept.disk = std::exchange(record.disk->file, std::move(copied.file));
  return kept;
}

Result<Record> fork_one(const Store& store,
                        const Lease& source_lease,
                        const std::string& name,
                        const Checkpoint& state) {
  SBX_ASSIGN(const Record source, source_lease.read());
  constexpr std::size_t kIdLength = 10;
  Record record = source;
  record.name = name;
  record.id = fs::random_name(kIdLength);
  record.created_ns = realtime_ns();
  record.checkpoints.clear();
  record.forked_from = source.name;
  if (record.disk.has_value()) {
    SBX_ASSIGN(const Lease lease, store.create(record, [&](int dir, Record& made) -> Status {
      SBX_ASSIGN(DiskCopy copied, copy_disk(source_lease.dir(), state.disk, dir));
      made.disk->file = std::move(copied.file);
      return {};
    }));
    note(lease, EventKind::kForked, {{"from", source.name}});
    return lease.read();
  }
  record.lowers = state.layers;
  SBX_ASSIGN(record.upper, new_layer(store));
  auto lease = store.create(record);
  if (!lease.ok()) {
    drop_new_layer(store, record.upper);
    return std::move(lease).error();
  }
  note(lease.value(), EventKind::kForked, {{"from", source.name}});
  return record;
}

}  // namespace

Result<Checkpoint> capture(const Store& store, const Lease& lease, Record& record) {
  if (record.disk.has_value()) return copy_present_disk(lease, record);
  SBX_ASSIGN(const std::optional<Life> life, look_at_life(lease.dir()));
  if (life.has_value()) return copy(store, record);
  reach_files_of(record);
  return stack(store, record);
}

Result<Checkpoint> make_checkpoint(const Store& store,
                                   const std::string& session,
                                   const std::optional<std::string>& tag) {
  if (tag.has_value()) SBX_TRY(check_tag(*tag));
  SBX_ASSIGN(const Lease lease, store.lock(session));
  SBX_ASSIGN(Record record, lease.read());
  if (tag.has_value() && record.find_checkpoint(*tag) != nullptr) {
    return Error(Errc::kExists,
                 text::cat("session ", session, " has a checkpoint \"", *tag, "\" already"))
        .with_hint(
            text::cat("take another tag, or sbx session checkpoints ", session, " --rm ", *tag));
  }
  SBX_ASSIGN(const workspace::LayersLock held, hold_layers(store));
  SBX_ASSIGN(Checkpoint made, capture(store, lease, record));
  made.tag = tag.value_or(free_tag(record, "c"));
  record.checkpoints.push_back(made);
  SBX_TRY(lease.write(record));
  note(lease, EventKind::kCheckpoint, {{"tag", made.tag}, {"way", made.way}});
  return made;
}

Status remove_checkpoint(const Store& store, const std::string& session, const std::string& tag) {
  {
    SBX_ASSIGN(const Lease lease, store.lock(session));
    SBX_ASSIGN(Record record, lease.read());
    if (record.find_checkpoint(tag) == nullptr) return no_checkpoint(record, tag);
    std::erase_if(record.checkpoints, [&tag](const Checkpoint& each) { return each.tag == tag; });
    SBX_TRY(lease.write(record));
    sweep_disks(lease.dir(), record);
  }
  sweep_layers(store);
  return {};
}

Result<Restored> restore(const Store& store,
                         const std::string& session,
                         const std::string& tag,
                         const profile::EnvLookup& env,
                         const Warn& warn) {
  Restored restored;
  {
    SBX_ASSIGN(const Lease lease, store.lock(session));
    SBX_ASSIGN(Record record, lease.read());
    const Checkpoint* const wanted = record.find_checkpoint(tag);
    if (wanted == nullptr) return no_checkpoint(record, tag);
    const Checkpoint state = *wanted;
    SBX_ASSIGN(restored.was_alive, stop_locked(store, lease, kGrace));
    SBX_ASSIGN(const workspace::LayersLock held, hold_layers(store));
    if (record.disk.has_value()) {
      SBX_ASSIGN(restored.kept, exchange_disks(lease, state, record));
    } else {
      SBX_ASSIGN(restored.kept, stack(store, record));
      record.lowers = state.layers;
    }
    restored.kept.is_automatic = true;
    restored.kept.tag = free_tag(record, "auto");
    record.checkpoints.push_back(restored.kept);
    SBX_TRY(lease.write(record));
    note(lease, EventKind::kRestored, {{"tag", tag}, {"kept", restored.kept.tag}});
  }
  if (!restored.was_alive) return restored;
  Status started = start_again(store, session, env, warn);
  if (!started.ok() && started.error().code() != Errc::kExists) return std::move(started).error();
  return restored;
}

Result<std::vector<Record>> fork(const Store& store,
                                 const std::string& session,
                                 const std::vector<std::string>& names,
                                 const std::optional<std::string>& from) {
  for (const std::string& name : names) {
    SBX_TRY(check_name(name));
  }
  SBX_ASSIGN(const Lease lease, store.lock(session));
  SBX_ASSIGN(const workspace::LayersLock held, hold_layers(store));
  SBX_ASSIGN(const Checkpoint state, state_at(store, lease, from));
  std::vector<Record> made;
  for (const std::string& name : names) {
    auto record = fork_one(store, lease, name, state);
    if (record.ok()) {
      made.push_back(std::move(record).value());
      continue;
    }
    for (const Record& each : made) {
      if (auto other = store.lock(each.name); other.ok()) {
        (void)store.remove(std::move(other).value());
        if (!each.upper.empty()) drop_new_layer(store, each.upper);
      }
    }
    return std::move(record).error();
  }
  return made;
}

}  // namespace sbx::session
