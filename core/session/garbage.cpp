// Garbage: see garbage.h.
#include "core/session/garbage.h"

#include <set>
#include <string>
#include <utility>

#include "core/base/fs.h"
#include "core/base/text.h"
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

void collect_layers(const Store& store, Gc how, std::vector<GcEntry>& out) {
  const auto used = store.used_layers();
  if (!used.ok()) return;
  const std::set<std::string> names(used.value().begin(), used.value().end());
  const auto stale = workspace::stale_layers(store.layers(), names, Millis{0});
  if (!stale.ok()) return;
  for (const workspace::StaleLayer& layer : stale.value()) {
    GcEntry entry = entry_of(
        "layer", text::cat(store.layers_dir(), "/", layer.name), "no session has it any more");
    if (how == Gc::kRemove) settle(entry, fs::remove_tree(store.layers(), layer.name));
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
  if (is_ours) collect_layers(store, how, out);
  return out;
}

}  // namespace sbx::session
