// Kept root: see kept_root.h.
#include "core/backend/jail/kept_root.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "core/backend/jail/jail_codec.h"
#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/mount_exec.h"

namespace sbx::jail {

namespace {

constexpr mode_t kRootMode = 0755;
/// Younger ones stay, so that two versions of sbx in turn do not remove each other's.
constexpr time_t kUnusedSeconds = 86'400;

bool is_object(const confine::Step& step) {
  return std::holds_alternative<confine::MakeDir>(step) ||
         std::holds_alternative<confine::MakeFile>(step) ||
         std::holds_alternative<confine::MakeLink>(step);
}

/// The directory with its lock; nothing when it is not there, or is going.
Result<std::optional<UniqueFd>> hold(const std::string& path) {
  auto opened = sys::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!opened.ok()) {
    if (opened.error().code() == Errc::kNotFound) return std::optional<UniqueFd>();
    return std::move(opened).error();
  }
  if (::flock(opened.value().get(), LOCK_SH | LOCK_NB) != 0) return std::optional<UniqueFd>();
  // Removed between the opening and the lock?
  SBX_ASSIGN(const struct stat info, sys::fstat(opened.value().get()));
  if (info.st_nlink == 0) return std::optional<UniqueFd>();
  if (info.st_uid != ::geteuid()) return Error(Errc::kDenied, text::cat(path, " is not ours"));
  return std::optional<UniqueFd>(std::move(opened).value());
}

bool is_old(int fd) {
  const Result<struct stat> info = sys::fstat(fd);
  return info.ok() && info.value().st_ctime + kUnusedSeconds < ::time(nullptr);
}

/// Removes the kept roots, finished or not, that nobody holds.
void remove_unused(const std::string& parent, std::string_view keep) {
  DIR* list = ::opendir(parent.c_str());
  if (list == nullptr) return;
  const int dir = ::dirfd(list);
  while (const dirent* entry = ::readdir(list)) {  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string name(static_cast<const char*>(entry->d_name));
    if (name == "." || name == ".." || name == keep) continue;
    const auto fd = sys::openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!fd.ok() || !is_old(fd.value().get())) continue;
    if (::flock(fd.value().get(), LOCK_EX | LOCK_NB) != 0) continue;
    (void)fs::remove_tree(dir, name);  // what cannot be removed is left for the next time
  }
  (void)::closedir(list);
}

Result<UniqueFd> make(const std::string& parent,
                      const std::string& name,
                      std::span<const confine::Step> objects) {
  const fs::OwnerUmask mask;
  if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) {
    return sys_error(text::cat("make directory ", parent));
  }
  SBX_ASSIGN(fs::TempDir temp, fs::TempDir::create(parent, ".new-"));
  SBX_ASSIGN(UniqueFd held, sys::open(temp.path(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (::flock(held.get(), LOCK_SH | LOCK_NB) != 0) return sys_error("lock " + temp.path());
  SBX_TRY(confine::make_objects(held.get(), objects));
  SBX_TRY(sys::fchmod(held.get(), kRootMode));
  const std::string path = text::cat(parent, "/", name);
  if (::rename(temp.path().c_str(), path.c_str()) == 0) {
    temp.keep();
    remove_unused(parent, name);
    return held;
  }
  if (errno != EEXIST && errno != ENOTEMPTY) return sys_error(text::cat("rename to ", path));
  SBX_ASSIGN(std::optional<UniqueFd> others, hold(path));  // somebody was faster
  if (!others.has_value()) return Error(Errc::kTimeout, text::cat(path, " is being removed"));
  return *std::move(others);
}

}  // namespace

SplitBase split_base(std::vector<confine::Step> base) {
  SplitBase split;
  std::vector<std::string>& dirs = split.kept.dirs;
  for (confine::Step& step : base) {
    if (const auto* root = std::get_if<confine::NewRoot>(&step)) {
      split.own = *root;
      continue;
    }
    if (const auto* bind = std::get_if<confine::Bind>(&step)) {
      std::string parent = bind->path.substr(0, bind->path.rfind('/'));
      if (std::find(dirs.begin(), dirs.end(), parent) == dirs.end()) {
        dirs.push_back(std::move(parent));
      }
    }
    (is_object(step) ? split.objects : split.mounts).push_back(std::move(step));
  }
  return split;
}

std::vector<confine::Step> on_kept_root(SplitBase split) {
  std::vector<confine::Step> steps;
  steps.reserve(split.mounts.size() + 1);
  steps.emplace_back(std::move(split.kept));
  std::move(split.mounts.begin(), split.mounts.end(), std::back_inserter(steps));
  return steps;
}

std::vector<confine::Step> on_own_root(SplitBase split) {
  std::vector<confine::Step> steps;
  steps.reserve(split.objects.size() + split.mounts.size() + 1);
  steps.emplace_back(split.own);
  std::move(split.objects.begin(), split.objects.end(), std::back_inserter(steps));
  std::move(split.mounts.begin(), split.mounts.end(), std::back_inserter(steps));
  return steps;
}

Result<KeptRootDir> open_kept_root(const std::string& parent,
                                   std::span<const confine::Step> objects) {
  Sha256 digest;
  digest.update(encode_steps(objects));
  const std::string name = digest.hex();
  KeptRootDir root{text::cat(parent, "/", name), {}};
  SBX_ASSIGN(std::optional<UniqueFd> held, hold(root.path));
  if (held.has_value()) {
    root.held = *std::move(held);
    return root;
  }
  SBX_ASSIGN(root.held, make(parent, name, objects));
  return root;
}

}  // namespace sbx::jail
