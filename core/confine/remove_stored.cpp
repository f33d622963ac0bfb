// Remove stored: see remove_stored.h.
#include "core/confine/remove_stored.h"

#include "core/base/fs.h"
#include "core/confine/storage_ids.h"

namespace sbx::confine {

Status remove_stored(int dirfd, const std::string& name) {
  Status direct = fs::remove_tree(dirfd, name);
  if (direct.ok() || direct.error().code() != Errc::kDenied) return direct;
  const auto ids = storage_ids();
  // Root has removed all that it ever can.
  if (!ids.ok() || ids.value().kind != StorageIds::Kind::kSubids) return direct;
  const Status removed = run_as_storage_root(
      ids.value(), "remove", [&] { return fs::remove_tree(dirfd, name).ok() ? 0 : 1; });
  if (removed.ok()) return {};
  return direct;
}

}  // namespace sbx::confine
