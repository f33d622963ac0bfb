// Live dir: see live_dir.h.
#include "core/backend/vm/live_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "core/backend/vm/dir_names.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

constexpr mode_t kOwnDir = 0700;
constexpr mode_t kOwnFile = 0600;
constexpr std::string_view kLockEnd = ".lock";

std::string place(const std::string& state_dir) {
  return state_dir + "/vm/live";
}

bool try_lock(int fd) {
  return ::flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/// The file is still what its name says: nobody swept it between open and lock.
bool is_same_file(int parent, const std::string& name, int fd) {
  const auto by_name = sys::fstatat(parent, name, AT_SYMLINK_NOFOLLOW);
  const auto by_fd = sys::fstat(fd);
  return by_name.ok() && by_fd.ok() && by_name.value().st_ino == by_fd.value().st_ino;
}

std::vector<std::string> lock_names(int parent) {
  std::vector<std::string> names = dir_names(parent);
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(kLockEnd); });
  return names;
}

}  // namespace

Result<LiveDir> LiveDir::make(const std::string& state_dir, const std::string& id) {
  SBX_TRY(fs::mkdirs(place(state_dir), kOwnDir));
  SBX_ASSIGN(UniqueFd parent, fs::open_dir(place(state_dir)));
  const std::string lock_name = text::cat(id, kLockEnd);
  SBX_ASSIGN(UniqueFd lock,
             sys::openat(parent.get(), lock_name, O_RDWR | O_CREAT | O_NOFOLLOW, kOwnFile));
  if (!try_lock(lock.get()) || !is_same_file(parent.get(), lock_name, lock.get())) {
    return Error(Errc::kExists, text::cat("a virtual machine ", id, " is there already"));
  }
  SBX_TRY(sys::mkdirat(parent.get(), id, kOwnDir));
  SBX_ASSIGN(UniqueFd dir, sys::openat(parent.get(), id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return LiveDir(std::move(parent), id, std::move(lock), std::move(dir));
}

LiveDir::~LiveDir() {
  if (!parent_.valid()) return;
  (void)fs::remove_tree(parent_.get(), name_);
  (void)sys::unlinkat(parent_.get(), text::cat(name_, kLockEnd));
}

std::vector<std::string> stale_live_dirs(const std::string& state_dir) {
  std::vector<std::string> stale;
  const auto parent = fs::open_dir(place(state_dir));
  if (!parent.ok()) return stale;
  for (const std::string& name : lock_names(parent.value().get())) {
    const auto lock = sys::openat(parent.value().get(), name, O_RDWR | O_NOFOLLOW);
    if (!lock.ok() || !try_lock(lock.value().get())) continue;
    stale.push_back(name.substr(0, name.size() - kLockEnd.size()));
  }
  return stale;
}

Status remove_live_dir(const std::string& state_dir, const std::string& id) {
  SBX_ASSIGN(const UniqueFd parent, fs::open_dir(place(state_dir)));
  const std::string name = text::cat(id, kLockEnd);
  const auto lock = sys::openat(parent.get(), name, O_RDWR | O_NOFOLLOW);
  if (!lock.ok() || !try_lock(lock.value().get())) return {};
  if (!is_same_file(parent.get(), name, lock.value().get())) return {};
  SBX_TRY(fs::remove_tree(parent.get(), id));
  return sys::unlinkat(parent.get(), name);
}

}  // namespace sbx::vm
