// Unpack: see unpack.h.
#include "core/archive/unpack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/archive/file_attributes.h"
#include "core/archive/part_file.h"
#include "core/archive/tar_reader.h"
#include "core/archive/tree_path.h"
#include "core/archive/unpack_dirs.h"
#include "core/base/fs.h"
#include "core/base/scope_exit.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10U;

using Parts = std::vector<std::string>;

class Unpacker {
 public:
  Unpacker(const UnpackRequest& request, UnpackTarget target, int in, TransferReport& report)
      : request_(request),
        name_(std::move(target.name)),
        is_directory_wanted_(target.is_directory_wanted),
        reader_(in),
        report_(report),
        dirs_(std::move(target.dir),
              request.is_keeping_parts ? Leftovers::kKeep : Leftovers::kRemove,
              report) {}

  Status run() {
    Status done = members();
    dirs_.finish();
    if (done.ok()) reader_.drain();
    return done;
  }

 private:
  Status members();
  Result<Parts> place_of(const std::string& path) const;
  Status add(const TarEntry& entry, const Parts& parts);
  Status add_file(const TarEntry& entry, const Parts& parts);
  Result<UniqueFd> begin_part(int dirfd, const TarEntry& entry, std::string& part);
  Status write_content(int fd, const TarEntry& entry);
  Status write_extent(int fd, const Extent& extent);
  Status add_symlink(const TarEntry& entry, const Parts& parts);
  Status add_hard_link(const TarEntry& entry, const Parts& parts);
  void count(std::uint64_t bytes);

  const UnpackRequest& request_;
  std::string name_;
  bool is_directory_wanted_;
  TarReader reader_;
  TransferReport& report_;
  UnpackDirs dirs_;
  std::vector<std::byte> buffer_;
};

std::span<const std::string> parent_of(const Parts& parts) {
  return std::span(parts).first(parts.size() - 1);
}

Status Unpacker::members() {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  while (true) {
    SBX_ASSIGN(const std::optional<TarEntry> entry, reader_.next());
    if (!entry.has_value()) return {};
    if (request_.progress != nullptr) request_.progress->total = reader_.total();
    if (++entries > request_.max_entries) {
      return Error(Errc::kLimit, text::cat("more than ", request_.max_entries, " files"));
    }
    if (entry->stored_size() > request_.max_bytes - bytes) {
      return Error(Errc::kLimit, text::cat("more than ", request_.max_bytes, " bytes"));
    }
    bytes += entry->stored_size();
    SBX_ASSIGN(const Parts parts, place_of(entry->path));
    if (is_directory_wanted_ && entry->type != TarType::kDirectory) {
      return Error(Errc::kNotFound, text::cat(request_.path, ": no such directory"));
    }
    is_directory_wanted_ = false;
    Status added = add(*entry, parts);
    if (!added.ok()) return std::move(added).error().prefixed(entry->path);
  }
}

/// Where a member goes: components below the directory. Refuses those outside of the tree that was
/// asked for, whose name the packing end has no say in.
Result<Parts> Unpacker::place_of(const std::string& path) const {
  SBX_ASSIGN(Parts parts, member_components(path));
  if (request_.members == Members::kAny) return parts;
  if (request_.root_name.empty()) {
    if (!name_.empty()) parts.insert(parts.begin(), name_);
    return parts;
  }
  if (parts.empty() || parts.front() != request_.root_name) {
    return Error(Errc::kProtocol,
                 text::cat("refused member ", path, ": it is not part of ", request_.root_name));
  }
  if (!name_.empty()) parts.front() = name_;
  return parts;
}

Status Unpacker::add(const TarEntry& entry, const Parts& parts) {
  ++report_.entries;
  if (request_.progress != nullptr) ++request_.progress->entries;
  if (entry.type == TarType::kDirectory) return dirs_.make(parts, entry);
  if (parts.empty()) return Error(Errc::kProtocol, "a file in place of the tree's root");
  switch (entry.type) {
    case TarType::kFile:
      return add_file(entry, parts);
    case TarType::kSymlink:
      return add_symlink(entry, parts);
    case TarType::kHardLink:
      return add_hard_link(entry, parts);
    case TarType::kSpecial:
    case TarType::kDirectory:
      break;
  }
  report_.note(NoteKind::kSpecialFile, entry.path);
  return {};
}

/// The hidden file that content goes to, new or gone on with.
Result<UniqueFd> Unpacker::begin_part(int dirfd, const TarEntry& entry, std::string& part) {
  if (entry.resume_at == 0) return create_part(dirfd, part);
  if (!request_.is_keeping_parts) return Error(Errc::kProtocol, "nothing was to be gone on with");
  SBX_ASSIGN(UniqueFd fd, open_part(dirfd, part));
  SBX_ASSIGN(const struct stat info, sys::fstat(fd.get()));
  if (static_cast<std::uint64_t>(info.st_size) != entry.resume_at) {
    return Error(Errc::kProtocol, "the unfinished file at the destination has changed");
  }
  return fd;
}

Status Unpacker::add_file(const TarEntry& entry, const Parts& parts) {
  SBX_ASSIGN(const int dirfd, dirs_.enter(parent_of(parts)));
  const std::string& name = parts.back();
  // Both ends know a file by what it is called in the stream.
  const bool is_renamed = parts.size() == 1 && !name_.empty();
  std::string part = part_name(is_renamed ? request_.root_name : name, entry.size, entry.mtime_ns);
  SBX_ASSIGN(const UniqueFd fd, begin_part(dirfd, entry, part));
  ScopeExit undo([&] { static_cast<void>(sys::unlinkat(dirfd, part)); });
  Status written = write_content(fd.get(), entry);
  if (!written.ok()) {
    const Result<struct stat> info = sys::fstat(fd.get());
    const bool is_worth_keeping =
        info.ok() && static_cast<std::uint64_t>(info.value().st_size) >= kMinPartSize;
    if (request_.is_keeping_parts && is_worth_keeping) undo.cancel();
    return written;
  }
  SBX_TRY(sys::ftruncate(fd.get(), Bytes{entry.size}));
  (void)::fchmod(fd.get(), kept_mode(entry.mode, false));
  write_xattrs(fd.get(), entry.xattrs, entry.path, report_);
  set_mtime(fd.get(), entry.mtime_ns);
  SBX_TRY(sys::renameat(dirfd, part, dirfd, name));
  undo.cancel();
  return {};
}

Status Unpacker::write_content(int fd, const TarEntry& entry) {
  if (buffer_.empty()) buffer_.resize(kChunk);
  if (!entry.is_sparse) return write_extent(fd, {0, entry.size});
  for (const Extent& extent : entry.data) {
    SBX_TRY(write_extent(fd, extent));
  }
  return {};
}

Status Unpacker::write_extent(int fd, const Extent& extent) {
  std::uint64_t at = extent.offset;
  const std::uint64_t end = extent.offset + extent.length;
  while (at < end) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), end - at));
    SBX_ASSIGN(const std::size_t size, reader_.read(std::span(buffer_).first(want)));
    if (size == 0) return Error(Errc::kProtocol, "its content ended early");
    std::size_t done = 0;
    while (done < size) {
      const ssize_t n =
          ::pwrite(fd, buffer_.data() + done, size - done, static_cast<off_t>(at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return sys_error("write", errno);
      done += static_cast<std::size_t>(n);
    }
    at += size;
    count(size);
  }
  return {};
}

void Unpacker::count(std::uint64_t bytes) {
  report_.bytes += bytes;
  if (request_.progress != nullptr) request_.progress->bytes += bytes;
}

Status Unpacker::add_symlink(const TarEntry& entry, const Parts& parts) {
  SBX_ASSIGN(const int dirfd, dirs_.enter(parent_of(parts)));
  const std::string temp = part_name(fs::random_name(16), 0, 0);
  SBX_TRY(sys::symlinkat(entry.link, dirfd, temp));
  ScopeExit undo([&] { static_cast<void>(sys::unlinkat(dirfd, temp)); });
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, to_timespec(entry.mtime_ns)};
  (void)::utimensat(dirfd, temp.c_str(), times, AT_SYMLINK_NOFOLLOW);
  SBX_TRY(sys::renameat(dirfd, temp, dirfd, parts.back()));
  undo.cancel();
  return {};
}

Status Unpacker::add_hard_link(const TarEntry& entry, const Parts& parts) {
  SBX_ASSIGN(const Parts target, place_of(entry.link));
  if (target.empty()) return Error(Errc::kProtocol, "a hard link to a directory");
  SBX_ASSIGN(const UniqueFd from, dirs_.find(parent_of(target)));
  SBX_ASSIGN(const int dirfd, dirs_.enter(parent_of(parts)));
  const std::string temp = part_name(fs::random_name(16), 0, 0);
  // Without AT_SYMLINK_FOLLOW: a link that was swapped in is linked itself, and seen below.
  if (::linkat(from.get(), target.back().c_str(), dirfd, temp.c_str(), 0) != 0) {
    return sys_error(text::cat("hard link to ", entry.link), errno);
  }
  // Renaming one name of a file onto another does nothing (rename(2)), so it always goes.
  const ScopeExit remove([&] { static_cast<void>(sys::unlinkat(dirfd, temp)); });
  SBX_ASSIGN(const struct stat info, sys::fstatat(dirfd, temp, AT_SYMLINK_NOFOLLOW));
  if (!S_ISREG(info.st_mode)) {
    return Error(Errc::kDenied, text::cat("hard link to ", entry.link, ", which is no plain file"));
  }
  return sys::renameat(dirfd, temp, dirfd, parts.back());
}

}  // namespace

Result<UnpackTarget> resolve_target(const UnpackRequest& request) {
  UnpackTarget target;
  Result<UniqueFd> dir = open_named_dir(request.root, request.path, O_RDONLY);
  if (dir.ok()) {
    target.dir = std::move(dir).value();
    return target;
  }
  const int err = dir.error().sys_errno();
  if (request.members == Members::kAny || (err != ENOENT && err != ENOTDIR)) {
    return std::move(dir).error();
  }
  const SplitPath split = split_path(request.path);
  if (split.is_content) return std::move(dir).error();
  SBX_ASSIGN(target.dir, open_named_dir(request.root, split.parent, O_RDONLY));
  target.name = split.name;
  target.is_directory_wanted = split.has_slash;
  return target;
}

Status unpack(const UnpackRequest& request, int in, TransferReport& report) {
  SBX_ASSIGN(UnpackTarget target, resolve_target(request));
  return Unpacker(request, std::move(target), in, report).run();
}

}  // namespace sbx::archive
