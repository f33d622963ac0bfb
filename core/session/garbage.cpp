// Garbage: see garbage.h.
#include "core/session/garbage.h"

#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/image/vm_file.h"
#include "core/session/layers.h"
#include "core/session/lifecycle.h"
#include "core/workspace/layer_store.h"

namespace sbx::session {

namespace {

using run::Gc;
using run::GcEntry;
using workspace::LayersLock;

GcEntry entry_of(std::string_view kind, std::string path, std::string why) {
  GcEntry entry;
  entry.kind = kind;
  entry.leftover.name = std::move(path);
  entry.leftover.why = std::move(why);
  return entry;
}

void settle(GcEntry& entry, const Status& removed) {
  entry.is_removed = removed.ok();
  if (!removed.ok()) entry.problem = removed.error().message();
}

void collect_expired(const Store& store, Gc how, std::vector<GcEntry>& out) {
  for (const std::string& name : expired(store)) {
    GcEntry entry = entry_of("session", store.dir(name), "unused for its session.ttl");
    if (how == Gc::kRemove) settle(entry, remove(store, name, WhenAlive::kRefuse));
    out.push_back(std::move(entry));
  }
}

void collect_halves(const Store& store, bool is_any_age, Gc how, std::vector<GcEntry>& out) {
  for (const std::string& name : store.leftovers(is_any_age)) {
    GcEntry entry = entry_of("session", store.dir(name), "whoever made or removed it was killed");
    if (how == Gc::kRemove) settle(entry, store.remove_leftover(name));
    out.push_back(std::move(entry));
  }
}

/// States of builds that no build used for a week.
void collect_builds(const Store& store, Gc how, std::vector<GcEntry>& out) {
  constexpr std::int64_t kLongest = std::int64_t{7} * 24 * 3600 * 1'000'000'000;
  const auto images = image::Store::open(store.state_dir());
  if (!images.ok()) return;
  for (const std::string& name : images.value().names()) {
    if (!name.starts_with(image::kCachePrefix)) continue;
    const auto record = images.value().find(name);
    if (!record.ok() || realtime_ns() - record.value().created_ns < kLongest) continue;
    GcEntry entry = entry_of("image", name, "no build used this state for a week");
    if (how == Gc::kRemove) settle(entry, images.value().remove(name));
    out.push_back(std::move(entry));
  }
}

void collect_layers(const Store& store, Gc how, std::vector<GcEntry>& out) {
  const auto used = layers_in_use(store);
  if (!used.ok()) return;
  const auto stale = workspace::stale_layers(store.layers(), used.value(), Millis{0});
  if (!stale.ok()) return;
  for (const workspace::StaleLayer& layer : stale.value()) {
    const bool is_whole = workspace::is_layer_id(layer.name);
    GcEntry entry = entry_of("layer",
                             text::cat(store.layers_dir(), "/", layer.name),
                             is_whole ? "no session and no image has it any more"
                                      : "whoever made or removed it was killed");
    if (is_whole) {
      const auto use = workspace::disk_use(store.layers(), layer.name);
      if (use.ok()) entry.leftover.bytes = use.value().bytes.v;
    }
    if (how == Gc::kRemove) {
      const auto removed = workspace::remove_layer(store.layers(), layer.name);
      if (removed.ok() && !removed.value()) continue;  // somebody uses it now
      settle(entry, removed.ok() ? Status() : removed.error());
    }
    out.push_back(std::move(entry));
  }
}

void collect_vm_files(const Store& store, Gc how, std::vector<GcEntry>& out) {
  const auto images = image::Store::open(store.state_dir());
  if (!images.ok()) return;
  const auto stale = image::stale_vm_files(images.value());
  if (!stale.ok() || stale.value().empty()) return;
  // All at once.
  const auto swept = how == Gc::kRemove ? image::sweep_vm_files(images.value()) : std::uint64_t{0};
  for (const image::StaleVmFile& file : stale.value()) {
    GcEntry entry = entry_of("vm file",
                             text::cat(store.state_dir(), "/vm-files/", file.name),
                             "no image has what it was made of");
    entry.leftover.bytes = file.bytes;
    if (how == Gc::kRemove) settle(entry, swept.ok() ? Status() : swept.error());
    out.push_back(std::move(entry));
  }
}

}  // namespace

std::vector<GcEntry> collect_garbage(const Store& store, Gc how) {
  std::vector<GcEntry> out;
  collect_expired(store, how, out);
  // Whoever makes a session or a layer holds it shared, until a record names the layer.
  const auto lock = LayersLock::try_take(store.layers(), LayersLock::Mode::kExclusive);
  const bool is_ours = lock.ok() && lock.value().has_value();
  collect_halves(store, is_ours, how, out);
  if (is_ours) collect_builds(store, how, out);  // before their layers
  if (is_ours) collect_layers(store, how, out);
  collect_vm_files(store, how, out);
  return out;
}

}  // namespace sbx::session
