// Unpack dirs: see unpack_dirs.h.
#include "core/archive/unpack_dirs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "core/archive/file_attributes.h"
#include "core/archive/part_file.h"
#include "core/archive/tree_path.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

constexpr std::size_t kMaxLeft = 65'536;

mode_t current_umask() {
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return mask;
}

Error explain(Error error, const std::string& path) {
  const int err = error.sys_errno();
  if (err != ELOOP && err != ENOTDIR) return std::move(error).prefixed(path);
  return Error(Errc::kDenied,
               text::cat(path, " is a link or no directory at the destination; not followed"));
}

}  // namespace

UnpackDirs::UnpackDirs(UniqueFd base, Leftovers leftovers, TransferReport& report)
    : base_(std::move(base)),
      leftovers_(leftovers),
      report_(report),
      implicit_mode_(0777U & ~current_umask()) {
  if (leftovers_ == Leftovers::kRemove) remove_parts(base_.get());
}

std::string UnpackDirs::path() const {
  std::string out;
  for (const Level& level : levels_) {
    out += text::cat(level.name, '/');
  }
  return out;
}

Result<int> UnpackDirs::enter(std::span<const std::string> parts) {
  std::size_t common = 0;
  while (common < levels_.size() && common < parts.size() &&
         levels_[common].name == parts[common]) {
    ++common;
  }
  while (levels_.size() > common) {
    leave();
  }
  for (const std::string& name : parts.subspan(common)) {
    SBX_TRY(step(name));
  }
  return top();
}

/// One component down.
Status UnpackDirs::step(const std::string& name) {
  Level level;
  level.name = name;
  Result<UniqueFd> fd = open_below(top(), name, O_RDONLY | O_DIRECTORY);
  const bool is_missing = !fd.ok() && fd.error().sys_errno() == ENOENT;
  if (is_missing) {
    SBX_TRY(sys::mkdirat(top(), name, 0700));
    level.attributes = Attributes{implicit_mode_, std::nullopt, {}};
    fd = open_below(top(), name, O_RDONLY | O_DIRECTORY);
  }
  if (!fd.ok()) return explain(std::move(fd).error(), text::cat(path(), name));
  level.fd = std::move(fd).value();
  if (!is_missing && leftovers_ == Leftovers::kRemove) remove_parts(level.fd.get());
  if (!is_missing && !left_.empty()) {
    SBX_ASSIGN(const struct stat info, sys::fstat(level.fd.get()));
    const auto known = left_.find({info.st_dev, info.st_ino});
    if (known != left_.end()) level.attributes = known->second;
  }
  levels_.push_back(std::move(level));
  return {};
}

Status UnpackDirs::make(std::span<const std::string> parts, const TarEntry& entry) {
  SBX_TRY(enter(parts));
  if (levels_.empty()) return {};  // the place itself was there before
  levels_.back().attributes = Attributes{kept_mode(entry.mode, true), entry.mtime_ns, entry.xattrs};
  return {};
}

void UnpackDirs::leave() {
  Level& level = levels_.back();
  if (level.attributes.has_value()) {
    const Attributes& wanted = *level.attributes;
    (void)::fchmod(level.fd.get(), wanted.mode);
    write_xattrs(level.fd.get(), wanted.xattrs, path(), report_);
    if (wanted.mtime_ns.has_value()) set_mtime(level.fd.get(), *wanted.mtime_ns);
    struct stat info {};
    if (left_.size() < kMaxLeft && ::fstat(level.fd.get(), &info) == 0) {
      left_.insert_or_assign({info.st_dev, info.st_ino},
                             Attributes{wanted.mode, wanted.mtime_ns, {}});
    }
  }
  levels_.pop_back();
}

Result<UniqueFd> UnpackDirs::find(std::span<const std::string> parts) const {
  SBX_ASSIGN(UniqueFd at, sys::openat(base_.get(), ".", O_PATH | O_DIRECTORY));
  for (const std::string& name : parts) {
    Result<UniqueFd> next = open_below(at.get(), name, O_PATH | O_DIRECTORY);
    if (!next.ok()) return explain(std::move(next).error(), name);
    at = std::move(next).value();
  }
  return at;
}

void UnpackDirs::finish() {
  while (!levels_.empty()) {
    leave();
  }
}

}  // namespace sbx::archive
