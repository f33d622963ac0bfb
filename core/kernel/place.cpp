// Place: see place.h.
#include "core/kernel/place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/beneath.h"

namespace sbx::kernel {

namespace {

constexpr mode_t kDirMode = 0755;  // the state directory itself is closed to others
constexpr std::size_t kRandom = 12;

std::string temp_name() {
  return text::cat(kTempPrefix, fs::random_name(kRandom));
}

/// Holds a hidden directory; an invalid descriptor when somebody else does, or it is gone.
UniqueFd hold(int kernels, const std::string& name) {
  auto fd = sys::openat(kernels, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd.ok() || ::flock(fd.value().get(), LOCK_EX | LOCK_NB) != 0) return UniqueFd();
  return std::move(fd).value();
}

}  // namespace

std::string kernels_dir(const std::string& state_dir) {
  return state_dir + "/kernels";
}

bool is_reserved(std::string_view name) {
  return name == kInitramfsDir || name == kLockFile;
}

Result<UniqueFd> open_kernels_dir(const std::string& state_dir) {
  const fs::OwnerUmask mask;
  const std::string dir = kernels_dir(state_dir);
  SBX_TRY(fs::mkdirs(dir, kDirMode));
  return sys::open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Result<UniqueFd> take_lock(int kernels) {
  SBX_ASSIGN(UniqueFd lock, sys::openat(kernels, kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return sys_error("lock the directory of kernels");
  }
  return lock;
}

Result<Draft> Draft::make(int kernels, const std::string& where) {
  constexpr int kTries = 16;
  const fs::OwnerUmask mask;
  for (int i = 0; i < kTries; ++i) {
    Draft draft;
    draft.name_ = temp_name();
    draft.path_ = text::cat(where, "/", draft.name_);
    SBX_TRY(sys::mkdirat(kernels, draft.name_, kDirMode));
    draft.fd_ = hold(kernels, draft.name_);
    // A gc that was faster is removing it.
    const bool is_ours =
        draft.fd_.valid() && sys::fstatat(kernels, draft.name_, AT_SYMLINK_NOFOLLOW).ok();
    if (!is_ours) continue;
    draft.kernels_ = kernels;
    return draft;
  }
  return Error(Errc::kSystem, text::cat("make a directory in ", where, ": it does not stay"));
}

Draft::Draft(Draft&& other) noexcept
    : kernels_(std::exchange(other.kernels_, -1)),
      fd_(std::move(other.fd_)),
      name_(std::move(other.name_)),
      path_(std::move(other.path_)) {}

Draft::~Draft() {
  if (kernels_ != -1) (void)fs::remove_tree(kernels_, name_);
}

Status Draft::commit(const std::string& name) {
  SBX_TRY(sys::fchmod(fd_.get(), kDirMode));
  SBX_TRY(sys::fsync(fd_.get()));
  Status renamed = sys::renameat(kernels_, name_, kernels_, name, RENAME_NOREPLACE);
  if (renamed.ok()) {
    const int kernels = std::exchange(kernels_, -1);
    return sys::fsync(kernels);
  }
  if (renamed.error().code() != Errc::kExists) return renamed;
  // What was there goes with this object, under the hidden name.
  SBX_TRY(sys::renameat(kernels_, name_, kernels_, name, RENAME_EXCHANGE));
  return sys::fsync(kernels_);
}

Status remove_whole(int kernels, const std::string& name) {
  const std::string hidden = temp_name();
  SBX_TRY(sys::renameat(kernels, name, kernels, hidden, RENAME_NOREPLACE));
  return fs::remove_tree(kernels, hidden);
}

std::vector<std::string> abandoned(int kernels) {
  std::vector<std::string> out;
  const auto names = workspace::read_names(kernels);
  if (!names.ok()) return out;
  for (const std::string& name : names.value()) {
    if (name.starts_with(kTempPrefix) && hold(kernels, name).valid()) out.push_back(name);
  }
  return out;
}

Status remove_abandoned(int kernels, const std::string& name) {
  const UniqueFd held = hold(kernels, name);
  if (!held.valid()) return {};
  return fs::remove_tree(kernels, name);
}

}  // namespace sbx::kernel
