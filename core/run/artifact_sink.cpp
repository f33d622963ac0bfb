// Artifact sink: where -o leads - a new directory, an existing one, or an archive.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/archive/archive.h"
#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/artifact_file.h"
#include "core/run/artifact_tree.h"
#include "core/run/artifacts.h"
#include "core/run/out_place.h"
#include "core/run/scratch.h"

namespace sbx::run {

namespace {

struct Place {
  std::string parent;  // "." when there is none
  std::string name;
};

Place place_of(const std::string& target) {
  const std::size_t slash = target.rfind('/');
  if (slash == std::string::npos) return {".", target};
  return {slash == 0 ? "/" : target.substr(0, slash), target.substr(slash + 1)};
}

/// A link whose target is missing: nothing is there, and yet nothing of this name can be made.
Status check_no_dangling_link(const std::string& path, const std::string& target) {
  if (!sys::fstatat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW).ok()) return {};
  return Error(Errc::kUsage,
               text::cat("output ", target, ": ", path, " is a link that leads to nothing"))
      .with_hint("make the directory that it names, remove it, or choose another place with -o");
}

/// Names that no file system takes, when their directories are still to be made.
Status check_names(std::string_view path, const std::string& target) {
  for (const std::string_view name : text::split(path, '/')) {
    if (name.size() > NAME_MAX) return sys_error(text::cat("output ", target), ENAMETOOLONG);
  }
  return {};
}

/// Whether something could be made in `dir`, or `dir` itself with its missing parents.
Status check_can_make(std::string dir, const std::string& target) {
  for (;;) {
    const auto st = sys::fstatat(AT_FDCWD, dir, 0);
    if (st.ok() && !S_ISDIR(st.value().st_mode)) {
      return Error(Errc::kUsage, text::cat("output ", target, ": ", dir, " is not a directory"))
          .with_hint("choose another place with -o");
    }
    if (st.ok()) {
      if (::faccessat(AT_FDCWD, dir.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
      return sys_error(text::cat("output ", target, ": directory ", dir))
          .with_hint("choose a directory that you may write to with -o");
    }
    if (st.error().sys_errno() != ENOENT || dir == "." || dir == "/") {
      return sys_error(text::cat("output ", target), st.error().sys_errno());
    }
    SBX_TRY(check_no_dangling_link(dir, target));
    dir = place_of(dir).parent;
  }
}

mode_t current_umask() {
  const mode_t mask = ::umask(077);  // there is no call that only asks
  ::umask(mask);
  return mask;
}

/// A directory itself, and no link to one.
bool is_directory(const std::string& path) {
  const auto st = sys::fstatat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
  return st.ok() && S_ISDIR(st.value().st_mode);
}

class ArchiveCopy {
 public:
  ArchiveCopy(archive::ArchiveWriter& writer, const ArtifactRequest& request)
      : writer_(writer), request_(request) {}

  Status add(Artifact& item, const ArtifactList& list) {
    archive::ArchiveEntry entry;
    entry.path = item.saved_as.empty() ? item.path : item.saved_as;
    entry.mode = item.mode & 0777U;
    entry.mtime_ns = item.mtime_ns;
    if (item.type == ArtifactType::kDirectory) {
      entry.type = archive::EntryType::kDirectory;
      return writer_.add(entry);
    }
    if (item.type != ArtifactType::kFile || !item.skipped.empty()) return {};
    if (!item.link.empty() && writer_.keeps_hard_links()) return add_link(entry, item, list);
    auto file = ArtifactFile::open(request_.work_dir, item.path);
    if (!file.ok()) {
      item.skipped = file.error().message();
      return {};
    }
    entry.size = file.value().size();
    entry.data = file.value().extents();
    SBX_TRY(writer_.add(entry, [&](std::span<std::byte> buffer) -> Result<std::size_t> {
      if (request_.should_stop && request_.should_stop()) return sys_error("copy artifacts", EINTR);
      SBX_ASSIGN(const ArtifactFile::Piece piece, file.value().next(buffer));
      return piece.size;
    }));
    item.bytes = entry.size;
    item.sha256 = file.value().sha256();
    item.mime = file.value().mime(item.path);
    return {};
  }

 private:
  Status add_link(archive::ArchiveEntry& entry, Artifact& item, const ArtifactList& list) {
    for (const Artifact& original : list.items) {
      if (original.path != item.link) continue;
      item.skipped = original.skipped;
      if (!item.skipped.empty()) return {};
      item.sha256 = original.sha256;
      item.mime = original.mime;
      entry.link = original.saved_as.empty() ? original.path : original.saved_as;
    }
    entry.type = archive::EntryType::kHardLink;
    return writer_.add(entry);
  }

  archive::ArchiveWriter& writer_;
  const ArtifactRequest& request_;
};

}  // namespace

Result<ArtifactSink> ArtifactSink::open(const std::string& target) {
  std::string path = target;
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  if (path.empty()) {
    return Error(Errc::kUsage, "output: the name is empty").with_hint("-o DIR or -o FILE.tar.gz");
  }
  const auto st = sys::fstatat(AT_FDCWD, path, 0);
  if (st.ok() && S_ISDIR(st.value().st_mode)) {
    if (::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
      return sys_error(text::cat("output directory ", path))
          .with_hint("choose a directory that you may write to with -o");
    }
    return ArtifactSink(Kind::kDirectory, std::move(path));
  }
  const bool is_archive =
      archive::archive_format(path) != archive::ArchiveFormat::kNone && !target.ends_with('/');
  if (st.ok() && (!is_archive || !S_ISREG(st.value().st_mode))) {
    return Error(Errc::kUsage, text::cat("output ", path, ": exists and is not a directory"))
        .with_hint(
            "name a directory, or a file ending in .tar, .tar.gz, .tar.zst, .tar.xz or .zip");
  }
  SBX_TRY(check_can_make(place_of(path).parent, path));
  SBX_TRY(check_names(path, path));
  if (!st.ok() && st.error().sys_errno() != ENOENT) {
    return sys_error(text::cat("output ", path), st.error().sys_errno());
  }
  if (!st.ok() && !is_archive) SBX_TRY(check_no_dangling_link(path, path));
  return ArtifactSink(is_archive ? Kind::kArchive : Kind::kNewDirectory, std::move(path));
}

Status ArtifactSink::write(const ArtifactRequest& request, ArtifactList& list) const {
  reserve_manifest_name(list);
  const fs::OwnerUmask mask;
  constexpr mode_t kMode = 0777;
  switch (kind_) {
    case Kind::kDirectory:
      return write_into_directory(request, list);
    case Kind::kNewDirectory:
      // Another run of the same date may have made it meanwhile.
      if (how_.is_dated && is_directory(target_)) return write_into_directory(request, list);
      SBX_TRY(fs::mkdirs(place_of(target_).parent, kMode));
      return write_whole_directory(request, list, RENAME_NOREPLACE);
    case Kind::kArchive:
      SBX_TRY(fs::mkdirs(place_of(target_).parent, kMode));
      return write_archive(request, list);
  }
  return {};
}

Status ArtifactSink::announce(OutPlace place) const {
  if (!how_.announce) return {};
  place.path = absolute_path(target_);
  return how_.announce(place);
}

/// A directory that is not there yet, or one that is replaced as a whole.
Status ArtifactSink::write_whole_directory(const ArtifactRequest& request,
                                           ArtifactList& list,
                                           unsigned how) const {
  const Place place = place_of(target_);
  SBX_ASSIGN(const Scratch scratch, Scratch::create(place.parent, how_.state_dir));
  SBX_TRY(write_tree(scratch.fd(), request, list));
  SBX_TRY(sys::fchmod(scratch.fd(), 0777U & ~current_umask()));
  OutPlace made;
  made.kind = OutPlace::Kind::kDirectory;
  SBX_ASSIGN(const struct stat st, sys::fstat(scratch.fd()));
  made.inode = st.st_ino;
  Sha256 hash;
  hash.update(manifest_json(list));
  made.digest = hash.hex();
  SBX_TRY(announce(std::move(made)));
  // What an exchange brings here goes with the scratch directory.
  const Status renamed =
      sys::renameat(scratch.parent_fd(), scratch.name(), scratch.parent_fd(), place.name, how);
  if (renamed.ok()) return {};
  const std::string hint =
      how == RENAME_NOREPLACE
          ? text::cat("remove ", target_, ", which was not there when the run began")
          : std::string();
  return Error(renamed.error()).with_hint(hint);
}

Status ArtifactSink::write_into_directory(const ArtifactRequest& request,
                                          ArtifactList& list) const {
  SBX_ASSIGN(const UniqueFd dir, fs::open_dir(target_));
  if (how_.is_dated && is_directory(target_) && why_not_ours(dir.get(), {}).empty()) {
    return write_whole_directory(request, list, RENAME_EXCHANGE);
  }
  SBX_TRY(announce({}));
  SBX_ASSIGN(const Scratch scratch, Scratch::create(target_, how_.state_dir));
  SBX_TRY(write_files(scratch.fd(), request, list));
  SBX_TRY(move_files(scratch.fd(), dir.get(), list));
  return write_manifest(dir.get(), list);
}

Status ArtifactSink::write_archive(const ArtifactRequest& request, ArtifactList& list) const {
  const Place place = place_of(target_);
  SBX_ASSIGN(const Scratch scratch, Scratch::create(place.parent, how_.state_dir));
  SBX_ASSIGN(
      archive::ArchiveWriter writer,
      archive::ArchiveWriter::create(text::cat(scratch.path(), "/", place.name),
                                     list.has_holes ? archive::Holes::kYes : archive::Holes::kNo));
  ArchiveCopy copy(writer, request);
  std::int64_t newest = 0;
  for (Artifact& item : list.items) {
    SBX_TRY(copy.add(item, list));
    newest = std::max(newest, item.mtime_ns);
  }
  const std::string manifest = manifest_json(list);
  std::size_t at = 0;
  archive::ArchiveEntry entry;
  entry.path = kManifestName;
  entry.mtime_ns = newest;
  entry.size = manifest.size();
  SBX_TRY(writer.add(entry, [&](std::span<std::byte> buffer) -> Result<std::size_t> {
    const std::size_t n = std::min(buffer.size(), manifest.size() - at);
    std::memcpy(buffer.data(), manifest.data() + at, n);
    at += n;
    return n;
  }));
  SBX_TRY(writer.commit());
  SBX_ASSIGN(const struct stat st, sys::fstatat(scratch.fd(), place.name, AT_SYMLINK_NOFOLLOW));
  OutPlace made;
  made.kind = OutPlace::Kind::kArchive;
  made.inode = st.st_ino;
  made.bytes = static_cast<std::uint64_t>(st.st_size);
  made.mtime_ns = st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec;
  SBX_TRY(announce(std::move(made)));
  return sys::renameat(scratch.fd(), place.name, scratch.parent_fd(), place.name);
}

}  // namespace sbx::run
