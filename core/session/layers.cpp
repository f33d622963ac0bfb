// Layers of sessions: see layers.h.
#include "core/session/layers.h"

#include <utility>

#include "core/backend/backend.h"
#include "core/base/text.h"
#include "core/confine/idmap.h"
#include "core/confine/storage_ids.h"
#include "core/host/facts.h"
#include "core/image/store.h"
#include "core/run/python_hook.h"
#include "core/session/lifecycle.h"
#include "core/session/root_image.h"
#include "core/workspace/beneath.h"

namespace sbx::session {

namespace {

/// With ids of a range layers belong to those that no sandbox gets.
std::optional<workspace::Owner> layer_owner() {
  host::Facts host;
  if (!host.is_root() || !host.may_map_id_ranges()) return std::nullopt;
  return workspace::Owner{confine::IdRange::kStorage, confine::IdRange::kStorage};
}

}  // namespace

Result<workspace::LayersLock> hold_layers(const Store& store) {
  return workspace::LayersLock::take(store.layers(), workspace::LayersLock::Mode::kShared);
}

void reach_files_of(const Record& record) {
  if (record.image.has_value() && confine::reach_storage_ids().ok()) return;
  workspace::reach_own_files();
}

Result<std::string> new_layer(const Store& store) {
  return workspace::make_layer(store.layers(), layer_owner());
}

void drop_new_layer(const Store& store, const std::string& id) {
  (void)workspace::remove_layer(store.layers(), id);
}

Result<std::set<std::string>> layers_in_use(const Store& store) {
  SBX_ASSIGN(const std::vector<std::string> sessions, store.used_layers());
  SBX_ASSIGN(const std::vector<std::string> images, image::layers_of_images(store.state_dir()));
  std::set<std::string> all(sessions.begin(), sessions.end());
  all.insert(images.begin(), images.end());
  return all;
}

Status check_layers(const Record& record) {
  if (!record.disk.has_value()) return {};
  return Error(Errc::kUnsupported,
               text::cat("session ",
                         record.name,
                         " has its files on the disk of a virtual machine, which the host does not "
                         "read: not available for it yet"))
      .with_hint(text::cat("sbx session cp ",
                           record.name,
                           ":/work/. DIR copies files out (and starts the session if it is "
                           "stopped)"));
}

Result<const backend::Backend*> backend_of(const Record& record) {
  const backend::Backend* const found = backend::find_backend(record.isolation);
  if (found != nullptr) return found;
  return Error(Errc::kUnsupported,
               text::cat("session ",
                         record.name,
                         " has isolation \"",
                         text::escape(record.isolation),
                         "\", which this sbx does not know"));
}

Status refresh_base(const Store& store, const profile::Profile& profile, Record& record) {
  if (record.disk.has_value()) return {};
  SBX_ASSIGN(const backend::Backend* const backend, backend_of(record));
  backend::LaunchRequest request;
  request.profile = &profile;
  request.state_dir = store.state_dir();
  if (record.image.has_value()) {
    SBX_ASSIGN(request.image, image_root_of(record, store.layers_dir() + "/"));
  }
  request.files.push_back({std::string(run::kPythonHookPath), std::string(run::python_hook())});
  SBX_ASSIGN(std::string base, backend->base_layer(request, store.layers_dir()));
  const std::size_t at = base_index(record.lowers);
  if (at == record.lowers.size()) {
    record.lowers.push_back(std::move(base));
  } else {
    record.lowers[at] = std::move(base);
  }
  return {};
}

void sweep_layers(const Store& store) {
  using workspace::LayersLock;
  auto lock = LayersLock::try_take(store.layers(), LayersLock::Mode::kExclusive);
  if (!lock.ok() || !lock.value().has_value()) return;
  const auto used = layers_in_use(store);
  if (!used.ok()) return;
  (void)workspace::sweep(store.layers(), *lock.value(), used.value(), Millis{0});
}

}  // namespace sbx::session
