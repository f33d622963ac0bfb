// Image: see image.h.
#include "cli/image.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "cli/directories.h"
#include "core/base/sys.h"
#include "core/image/vm_file.h"
#include "core/run/gc.h"
#include "core/session/lifecycle.h"
#include "core/session/store.h"

namespace sbx::cli {

namespace {

bool is_held(const image::Store& images, const std::string& id) {
  const auto dir = sys::openat(images.layers(), id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  return dir.ok() && ::flock(dir.value().get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

Result<image::Store> open_images() {
  SBX_ASSIGN(const Directories dirs, directories(State::kNeeded));
  return image::Store::open(dirs.state);
}

Result<image::Uses> uses_of(const image::Store& images, const image::Record& record) {
  std::set<std::string> layers;
  image::Uses uses;
  for (const image::LayerRef& layer : record.layers) {
    layers.insert(layer.id);
    uses.has_runs = uses.has_runs || is_held(images, layer.id);
  }
  SBX_ASSIGN(const session::Store sessions, session::Store::open(images.state_dir()));
  SBX_ASSIGN(const std::vector<session::Listing> all, sessions.list());
  for (const session::Listing& each : all) {
    const std::vector<std::string> used = session::layers_of(each.record);
    const bool is_user =
        std::ranges::any_of(used, [&layers](const std::string& id) { return layers.contains(id); });
    if (is_user) uses.sessions.push_back(each.record.name);
  }
  return uses;
}

void sweep_after(const image::Store& images) {
  const auto sessions = session::Store::open(images.state_dir());
  if (sessions.ok()) session::sweep_layers(sessions.value());
  run::remove_downloads(images.state_dir());
  (void)image::sweep_vm_files(images);
}

std::string short_id(const image::Record& record) {
  constexpr std::string_view kPrefix = "sha256:";
  constexpr std::size_t kShown = 12;
  if (!record.id.starts_with(kPrefix)) return "-";
  return record.id.substr(kPrefix.size(), kShown);
}

}  // namespace sbx::cli
