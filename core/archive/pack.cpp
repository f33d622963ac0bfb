// Pack: see pack.h.
#include "core/archive/pack.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/archive/file_attributes.h"
#include "core/archive/pack_file.h"
#include "core/archive/part_file.h"
#include "core/archive/tar_writer.h"
#include "core/archive/tree_path.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

constexpr std::size_t kMaxLinks = 500'000;  // names of files with several names to remember
constexpr unsigned long kMqueueMagic = 0x19800202;

struct DirCloser {
  void operator()(DIR* dir) const { (void)::closedir(dir); }
};

/// One directory on the way down.
struct Level {
  std::unique_ptr<DIR, DirCloser> stream;
  std::string path;  // in the stream; empty for the content of the root
  dev_t dev = 0;

  int fd() const { return ::dirfd(stream.get()); }
  std::string path_of(std::string_view name) const {
    return path.empty() ? std::string(name) : text::cat(path, '/', name);
  }
};

/// Trees that the kernel makes up: endless, or different at each look.
bool is_kernel_tree(int fd) {
  constexpr std::array<unsigned long, 12> kMagics{PROC_SUPER_MAGIC,
                                                  SYSFS_MAGIC,
                                                  DEVPTS_SUPER_MAGIC,
                                                  CGROUP_SUPER_MAGIC,
                                                  CGROUP2_SUPER_MAGIC,
                                                  DEBUGFS_MAGIC,
                                                  TRACEFS_MAGIC,
                                                  SECURITYFS_MAGIC,
                                                  BPF_FS_MAGIC,
                                                  PSTOREFS_MAGIC,
                                                  EFIVARFS_MAGIC,
                                                  kMqueueMagic};
  struct statfs info {};
  if (::fstatfs(fd, &info) != 0) return false;
  return std::find(kMagics.begin(), kMagics.end(), static_cast<unsigned long>(info.f_type)) !=
         kMagics.end();
}

bool is_denied(const Error& error) {
  return error.sys_errno() == EACCES || error.sys_errno() == EPERM;
}

enum class Pass : std::uint8_t { kCount, kWrite };

class Packer {
 public:
  Packer(const PackRequest& request, int out, TransferReport& report)
      : request_(request), writer_(out), report_(report) {}

  Status run() {
    if (request_.is_announcing_total) {
      SBX_TRY(walk(Pass::kCount));
      SBX_TRY(writer_.add_total(total_));
      if (request_.progress != nullptr) request_.progress->total = total_;
    }
    SBX_TRY(walk(Pass::kWrite));
    return writer_.finish();
  }

 private:
  Status walk(Pass pass);
  Status begin();
  Status visit(int dirfd, const std::string& name, const std::string& path);
  Status add_directory(int dirfd,
                       const std::string& name,
                       const std::string& path,
                       const struct stat& info);
  Status enter(UniqueFd fd, const std::string& path, const std::string& stream_path);
  Status add_link(int dirfd,
                  const std::string& name,
                  const std::string& path,
                  const struct stat& info);
  Status add_file(int dirfd, const std::string& name, const std::string& path);
  Status add_content(int fd, TarEntry& entry, const struct stat& info);
  bool is_present(TarEntry& entry, int fd);
  Result<UniqueFd> open_any(int dirfd, const std::string& name, int flags, const struct stat& info);
  void note_failure(const Error& error, const std::string& path);
  Status write(const TarEntry& entry, const ReadContent& read = {});

  const PackRequest& request_;
  TarWriter writer_;
  TransferReport& report_;
  Pass pass_ = Pass::kWrite;
  std::vector<Level> levels_;
  std::map<std::pair<dev_t, ino_t>, std::string> links_;
  std::uint64_t total_ = 0;
};

Status Packer::walk(Pass pass) {
  pass_ = pass;
  levels_.clear();
  links_.clear();
  SBX_TRY(begin());
  while (!levels_.empty()) {
    Level& level = levels_.back();
    const dirent* found = ::readdir(level.stream.get());
    if (found == nullptr) {
      levels_.pop_back();
      continue;
    }
    const std::string name = found->d_name;
    if (name == "." || name == ".." || is_part_name(name)) continue;
    const std::string path = level.path_of(name);
    SBX_TRY(visit(level.fd(), name, path));
  }
  return {};
}

/// Opens what the user named. Whatever fails here is the end.
Status Packer::begin() {
  const SplitPath split = split_path(request_.path);
  if (request_.root_name.empty() || request_.is_following) {
    SBX_ASSIGN(UniqueFd fd, open_named_dir(request_.root, request_.path, O_RDONLY));
    return enter(
        std::move(fd), request_.root_name.empty() ? "." : request_.root_name, request_.root_name);
  }
  SBX_ASSIGN(const UniqueFd parent, open_named_dir(request_.root, split.parent, O_PATH));
  struct stat info {};
  if (::fstatat(parent.get(), split.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return sys_error(request_.path, errno);
  }
  return visit(parent.get(), split.name, request_.root_name);
}

Status Packer::visit(int dirfd, const std::string& name, const std::string& path) {
  struct stat info {};
  if (::fstatat(dirfd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return {};  // gone meanwhile
  if (path.size() >= kMaxTarPath) {
    report_.note(NoteKind::kTooDeep, path);
    return {};
  }
  if (S_ISDIR(info.st_mode)) return add_directory(dirfd, name, path, info);
  if (pass_ == Pass::kCount) {
    if (!S_ISREG(info.st_mode)) return {};
    const auto blocks = static_cast<std::uint64_t>(info.st_blocks) * 512;
    total_ += std::min(blocks, static_cast<std::uint64_t>(info.st_size));
    return {};
  }
  if (S_ISREG(info.st_mode)) return add_file(dirfd, name, path);
  if (S_ISLNK(info.st_mode)) return add_link(dirfd, name, path, info);
  report_.note(NoteKind::kSpecialFile, path);
  return {};
}

/// Opens for reading; what the owner shut for itself only where that was asked for.
Result<UniqueFd> Packer::open_any(int dirfd,
                                  const std::string& name,
                                  int flags,
                                  const struct stat& info) {
  Result<UniqueFd> fd = open_below(dirfd, name, O_RDONLY | flags);
  const bool is_ours = request_.is_opening_all && info.st_uid == ::geteuid();
  if (fd.ok() || !is_ours || !is_denied(fd.error())) return fd;
  const mode_t opened = S_ISDIR(info.st_mode) ? S_IRUSR | S_IXUSR : S_IRUSR;
  if (::fchmodat(dirfd, name.c_str(), (info.st_mode & 07777U) | opened, 0) != 0) return fd;
  fd = open_below(dirfd, name, O_RDONLY | flags);
  if (fd.ok()) (void)::fchmod(fd.value().get(), info.st_mode & 07777U);
  return fd;
}

void Packer::note_failure(const Error& error, const std::string& path) {
  if (pass_ == Pass::kCount) return;
  report_.note(is_denied(error) ? NoteKind::kUnreadable : NoteKind::kChanged, path);
}

Status Packer::add_directory(int dirfd,
                             const std::string& name,
                             const std::string& path,
                             const struct stat& info) {
  if (levels_.size() >= kMaxTransferDepth) {
    if (pass_ == Pass::kWrite) report_.note(NoteKind::kTooDeep, path);
    return {};
  }
  Result<UniqueFd> fd = open_any(dirfd, name, O_DIRECTORY, info);
  if (!fd.ok()) {
    if (fd.error().sys_errno() == EMFILE || fd.error().sys_errno() == ENFILE) {
      return std::move(fd).error();
    }
    note_failure(fd.error(), path);
    return {};
  }
  if (!levels_.empty() && levels_.back().dev != info.st_dev && is_kernel_tree(fd.value().get())) {
    if (pass_ == Pass::kWrite) report_.note(NoteKind::kOtherTree, path);
    return {};
  }
  return enter(std::move(fd).value(), path, path);
}

/// Writes the directory's own member and makes its content the next to be visited.
Status Packer::enter(UniqueFd fd, const std::string& path, const std::string& stream_path) {
  SBX_ASSIGN(const struct stat info, sys::fstat(fd.get()));
  if (pass_ == Pass::kWrite) {
    TarEntry entry;
    entry.path = path;
    entry.type = TarType::kDirectory;
    entry.mode = kept_mode(info.st_mode, true);
    entry.mtime_ns = mtime_ns(info);
    entry.xattrs = read_xattrs(fd.get(), path, report_);
    SBX_TRY(write(entry));
  }
  Level level;
  level.stream.reset(::fdopendir(fd.get()));
  if (level.stream == nullptr) return sys_error(text::cat("read directory ", path), errno);
  (void)fd.release();
  level.path = stream_path;
  level.dev = info.st_dev;
  levels_.push_back(std::move(level));
  return {};
}

Status Packer::add_link(int dirfd,
                        const std::string& name,
                        const std::string& path,
                        const struct stat& info) {
  Result<std::string> target = sys::readlinkat(dirfd, name);
  if (!target.ok()) {
    note_failure(target.error(), path);
    return {};
  }
  TarEntry entry;
  entry.path = path;
  entry.type = TarType::kSymlink;
  entry.mode = 0777;
  entry.mtime_ns = mtime_ns(info);
  entry.link = std::move(target).value();
  return write(entry);
}

Status Packer::add_file(int dirfd, const std::string& name, const std::string& path) {
  struct stat info {};
  if (::fstatat(dirfd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return {};
  Result<UniqueFd> opened = open_any(dirfd, name, 0, info);
  if (!opened.ok()) {
    note_failure(opened.error(), path);
    return {};
  }
  const int fd = opened.value().get();
  SBX_ASSIGN(info, sys::fstat(fd));
  if (!S_ISREG(info.st_mode)) {
    report_.note(NoteKind::kChanged, path);
    return {};
  }
  TarEntry entry;
  entry.path = path;
  entry.mtime_ns = mtime_ns(info);
  if (info.st_nlink > 1) {
    const auto known = links_.find({info.st_dev, info.st_ino});
    if (known != links_.end()) {
      entry.type = TarType::kHardLink;
      entry.link = known->second;
      return write(entry);
    }
    if (links_.size() < kMaxLinks) {
      links_.emplace(std::pair(info.st_dev, info.st_ino), path);
    } else {
      report_.note(NoteKind::kLinkCut, path);
    }
  }
  entry.mode = kept_mode(info.st_mode, false);
  entry.size = static_cast<std::uint64_t>(info.st_size);
  const bool is_there = is_present(entry, fd);
  if (request_.progress != nullptr) {
    request_.progress->bytes += is_there ? entry.size : entry.resume_at;
  }
  if (is_there) {
    ++report_.skipped;
    return {};
  }
  if ((info.st_mode & (S_ISUID | S_ISGID)) != 0) report_.note(NoteKind::kSetuid, path);
  entry.xattrs = read_xattrs(fd, path, report_);
  return add_content(fd, entry, info);
}

/// Whether the destination has this very file. Sets resume_at where it has the begin of it.
bool Packer::is_present(TarEntry& entry, int fd) {
  if (request_.present == nullptr) return false;
  const Inventory::Item* whole = request_.present->find(entry.path);
  if (whole != nullptr && whole->digest.empty() && whole->size == entry.size &&
      whole->mtime_ns == entry.mtime_ns) {
    return true;
  }
  const SplitPath split = split_path(entry.path);
  std::string part = part_name(split.name, entry.size, entry.mtime_ns);
  if (split.parent != ".") part.insert(0, split.parent);
  const Inventory::Item* begun = request_.present->find(part);
  if (begun == nullptr || begun->digest.empty() || begun->size > entry.size) return false;
  const Result<std::string> digest = content_digest(fd, begun->size);
  if (digest.ok() && digest.value() == begun->digest) entry.resume_at = begun->size;
  return false;
}

Status Packer::add_content(int fd, TarEntry& entry, const struct stat& info) {
  const bool may_have_holes = static_cast<std::uint64_t>(info.st_blocks) * 512 < entry.size;
  std::vector<Extent> extents{{0, entry.size}};
  if (entry.size == 0) extents.clear();
  if (may_have_holes) extents = data_extents(fd, entry.size);
  if (entry.resume_at > 0) extents = extents_from(extents, entry.resume_at);
  const bool is_whole = extents.size() == 1 && extents.front().length == entry.size;
  entry.is_sparse = entry.size > 0 && !is_whole;
  if (entry.is_sparse) entry.data = extents;
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  ExtentReader reader(fd, std::move(extents));
  SBX_TRY(write(entry, [&](std::span<std::byte> buffer) -> Result<std::size_t> {
    SBX_ASSIGN(const std::size_t size, reader.read(buffer));
    if (request_.progress != nullptr) request_.progress->bytes += size;
    return size;
  }));
  if (reader.is_short()) report_.note(NoteKind::kChanged, entry.path);
  return {};
}

Status Packer::write(const TarEntry& entry, const ReadContent& read) {
  SBX_TRY(writer_.add(entry, read));
  ++report_.entries;
  report_.bytes = writer_.content_bytes();
  if (request_.progress != nullptr) ++request_.progress->entries;
  return {};
}

}  // namespace

Status pack(const PackRequest& request, int out, TransferReport& report) {
  return Packer(request, out, report).run();
}

}  // namespace sbx::archive
