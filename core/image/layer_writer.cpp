// Layer writer: see layer_writer.h.
#include "core/image/layer_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/idmap.h"
#include "core/workspace/beneath.h"

namespace sbx::image {

namespace {

using archive::Member;
using archive::MemberType;

constexpr mode_t kSpecialBits = 07000;
constexpr std::size_t kMaxLinkText = 4095;  // PATH_MAX without its NUL

/// Times that every file system can keep; others are brought into this range.
constexpr std::int64_t kFirstTime = -2'147'483'648;  // 1901
constexpr std::int64_t kLastTime = 15'032'385'535;   // 2446, as far as ext4 goes

timespec time_of(const Member& member) {
  timespec when{};
  if (!member.has_mtime) return when;
  when.tv_sec = std::clamp(member.mtime_s, kFirstTime, kLastTime);
  when.tv_nsec = when.tv_sec == member.mtime_s ? static_cast<long>(member.mtime_ns) : 0;
  return when;
}

Status check_owner(const Member& member) {
  const auto is_known = [](std::int64_t id) { return id >= 0 && id < confine::IdRange::kCount; };
  if (is_known(member.uid) && is_known(member.gid)) return {};
  return Error(Errc::kUnsupported,
               text::cat("it belongs to ",
                         is_known(member.uid) ? "group " : "user ",
                         is_known(member.uid) ? member.gid : member.uid,
                         ", and images have the ids 0 to 65535"));
}

/// What is done with an attribute.
enum class Keep : std::uint8_t { kYes, kNo };

Keep keeps_xattr(const Member& member, std::string_view name) {
  if (name == "security.capability" && member.type == MemberType::kFile) return Keep::kYes;
  // What overlayfs keeps there would change what the layer means; "trusted." is the same for root.
  const bool is_plain = name.starts_with("user.") && !name.starts_with("user.overlay.");
  return is_plain ? Keep::kYes : Keep::kNo;
}

}  // namespace

LayerWriter::LayerWriter(UniqueFd root, const LayerLimits& limits)
    : limits_(limits), dirs_(std::move(root), limits.depth) {}

Status LayerWriter::add(const Member& member, const Content& content) {
  if (++entries_ > limits_.entries) {
    return Error(Errc::kLimit, text::cat("it has more than ", limits_.entries, " entries"));
  }
  Status done = add_checked(member, content);
  if (done.ok()) return done;
  Error error = std::move(done).error();
  const std::string path = shown(member.path);
  if (error.message().starts_with(path)) return error;
  return std::move(error).prefixed(path);
}

Status LayerWriter::add_checked(const Member& member, const Content& content) {
  SBX_ASSIGN(MemberPath path, member_path(member.path, limits_.depth));
  if (path.marker == Marker::kIgnored) return {};
  const timespec when = time_of(member);
  if (!std::exchange(has_root_time_, true)) SBX_TRY(dirs_.set_root_time(when));
  if (path.name.empty() && path.marker == Marker::kNone) return root(member);
  if (path.marker == Marker::kNone) SBX_TRY(check_owner(member));
  Place place;
  SBX_ASSIGN(place.dirfd, dirs_.enter(path.dir, when));
  place.dir = std::move(path.dir);
  place.name = std::move(path.name);
  dirs_.touch();
  if (path.marker == Marker::kOpaque) return set_opaque(place.dirfd);
  if (path.marker == Marker::kWhiteout) return whiteout(place);
  if (!links_.empty()) links_.erase(place.path());
  switch (member.type) {
    case MemberType::kFile:
      return file(member, place, content);
    case MemberType::kDirectory:
      return directory(member, place);
    case MemberType::kSymlink:
      return symlink(member, place);
    case MemberType::kHardLink: {
      SBX_ASSIGN(const std::string target, link_target(member.link, limits_.depth));
      return hard_link(target, place);
    }
    case MemberType::kFifo:
      return fifo(member, place);
    case MemberType::kCharDevice:
    case MemberType::kBlockDevice:
    case MemberType::kOther:
      // No sandbox may use a device node of an image, and 0:0 would delete something.
      ++left_out_.devices;
      return {};
  }
  return {};
}

Status LayerWriter::root(const Member& member) {
  if (member.type != MemberType::kDirectory) {
    return Error(Errc::kDenied, "a member that would take the place of the root");
  }
  SBX_TRY(check_owner(member));
  SBX_TRY(dirs_.leave());
  if (::fchown(dirs_.root(), static_cast<uid_t>(member.uid), static_cast<gid_t>(member.gid)) != 0) {
    return sys_error("set the owner");
  }
  SBX_TRY(sys::fchmod(dirs_.root(), member.mode));
  SBX_TRY(xattrs(member, dirs_.root()));
  return dirs_.set_root_time(time_of(member));
}

Status LayerWriter::whiteout(const Place& place) {
  if (::mknodat(place.dirfd, place.name.c_str(), S_IFCHR, 0) == 0) return {};
  if (errno != EEXIST) return sys_error("make a whiteout");
  // What this layer has at the name stays; a directory hides what is below it.
  const auto dir = workspace::open_entry(place.dirfd, place.name, O_RDONLY | O_DIRECTORY);
  if (dir.ok()) return set_opaque(dir.value().get());
  return {};
}

/// Removes what an earlier member put there.
Status LayerWriter::replace(const Place& place) {
  SBX_ASSIGN(const mode_t was, dirs_.clear(place.dirfd, place.dir, place.name));
  if (S_ISDIR(was) && !links_.empty()) {
    links_.erase(links_.lower_bound(text::cat(place.path(), "/")),
                 links_.lower_bound(text::cat(place.path(), "0")));
  }
  return {};
}

Status LayerWriter::directory(const Member& member, const Place& place) {
  bool hides = false;
  auto made = sys::mkdirat(place.dirfd, place.name, member.mode & 0777U);
  if (!made.ok() && made.error().sys_errno() != EEXIST) return made;
  auto dir = workspace::open_entry(place.dirfd, place.name, O_RDONLY | O_DIRECTORY);
  if (!dir.ok()) {
    // A whiteout, or an earlier member of another kind, which hid what is below.
    SBX_TRY(replace(place));
    SBX_TRY(sys::mkdirat(place.dirfd, place.name, member.mode & 0777U));
    dir = workspace::open_entry(place.dirfd, place.name, O_RDONLY | O_DIRECTORY);
    if (!dir.ok()) return std::move(dir).error();
    hides = true;
  }
  const std::string path = place.path();
  dirs_.name(path);
  const int fd = dir.value().get();
  if (hides) SBX_TRY(set_opaque(fd));
  const bool is_new = made.ok() || hides;
  if (!is_new || member.uid != 0 || member.gid != 0) {
    SBX_TRY(sys::fchown(fd, static_cast<uid_t>(member.uid), static_cast<gid_t>(member.gid)));
  }
  if (!is_new || (member.mode & kSpecialBits) != 0) SBX_TRY(sys::fchmod(fd, member.mode));
  SBX_TRY(xattrs(member, fd));
  return dirs_.hold(std::move(dir).value(), path, time_of(member));
}

Status LayerWriter::file(const Member& member, const Place& place, const Content& content) {
  if (member.size > limits_.bytes - bytes_) {
    return Error(Errc::kLimit, text::cat("with it the content is above ", limits_.bytes, " bytes"));
  }
  bytes_ += member.size;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
  const mode_t mode = member.mode & 0777U;
  UniqueFd fd(::openat(place.dirfd, place.name.c_str(), kFlags, mode));
  if (!fd.valid() && errno == EEXIST) {
    SBX_TRY(replace(place));
    fd.reset(::openat(place.dirfd, place.name.c_str(), kFlags, mode));
  }
  if (!fd.valid()) return sys_error("make a file");
  SBX_TRY(copy(member, fd.get(), content));
  return attributes(member, fd.get());
}

Status LayerWriter::copy(const Member& member, int fd, const Content& content) {
  std::uint64_t end = 0;
  while (true) {
    SBX_ASSIGN(const archive::MemberData data, content());
    if (data.bytes.empty()) break;
    if (data.offset > member.size || data.bytes.size() > member.size - data.offset) {
      return Error(Errc::kProtocol, "more content than its size says");
    }
    std::span<const std::byte> left = data.bytes;
    auto at = static_cast<off_t>(data.offset);
    while (!left.empty()) {
      const ssize_t n = ::pwrite(fd, left.data(), left.size(), at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return sys_error("write");
      left = left.subspan(static_cast<std::size_t>(n));
      at += n;
    }
    end = std::max(end, static_cast<std::uint64_t>(at));
  }
  if (end < member.size) SBX_TRY(sys::ftruncate(fd, Bytes{member.size}));  // a hole at the end
  return {};
}

/// Owner, mode, attributes and time of a file that was made with the plain bits of its mode.
Status LayerWriter::attributes(const Member& member, int fd) {
  if (member.uid != 0 || member.gid != 0) {
    SBX_TRY(sys::fchown(fd, static_cast<uid_t>(member.uid), static_cast<gid_t>(member.gid)));
  }
  // After the owner: changing that takes them away.
  if ((member.mode & kSpecialBits) != 0) SBX_TRY(sys::fchmod(fd, member.mode));
  SBX_TRY(xattrs(member, fd));
  return set_time(fd, time_of(member));
}

Status LayerWriter::xattrs(const Member& member, int fd) {
  if (member.has_acl) ++left_out_.xattrs;
  for (const auto& [name, value] : member.xattrs) {
    if (keeps_xattr(member, name) == Keep::kNo) {
      ++left_out_.xattrs;
      continue;
    }
    if (::fsetxattr(fd, name.c_str(), value.data(), value.size(), 0) == 0) continue;
    const int err = errno;
    const bool is_unknown = err == EOPNOTSUPP || err == EINVAL || err == EPERM;
    if (!is_unknown) return sys_error(text::cat("set attribute ", shown(name)), err);
    ++left_out_.xattrs;
  }
  return {};
}

Status LayerWriter::symlink(const Member& member, const Place& place) {
  if (member.link.empty()) return Error(Errc::kProtocol, "a link to nothing");
  if (member.link.size() > kMaxLinkText) {
    return Error(Errc::kLimit, text::cat("a link's text has more than ", kMaxLinkText, " bytes"));
  }
  int result = ::symlinkat(member.link.c_str(), place.dirfd, place.name.c_str());
  if (result != 0 && errno == EEXIST) {
    SBX_TRY(replace(place));
    result = ::symlinkat(member.link.c_str(), place.dirfd, place.name.c_str());
  }
  if (result != 0) return sys_error("make a link");
  left_out_.xattrs += member.xattrs.size();
  return named_attributes(member, place);
}

/// Owner and time of something that cannot be opened.
Status LayerWriter::named_attributes(const Member& member, const Place& place) {
  if (member.uid != 0 || member.gid != 0) {
    SBX_TRY(sys::fchownat(place.dirfd,
                          place.name,
                          static_cast<uid_t>(member.uid),
                          static_cast<gid_t>(member.gid),
                          AT_SYMLINK_NOFOLLOW));
  }
  const std::array<timespec, 2> times{timespec{0, UTIME_OMIT}, time_of(member)};
  if (::utimensat(place.dirfd, place.name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) == 0) {
    return {};
  }
  return sys_error("set the time");
}

Status LayerWriter::fifo(const Member& member, const Place& place) {
  const mode_t mode = S_IFIFO | (member.mode & 0777U);
  int result = ::mknodat(place.dirfd, place.name.c_str(), mode, 0);
  if (result != 0 && errno == EEXIST) {
    SBX_TRY(replace(place));
    result = ::mknodat(place.dirfd, place.name.c_str(), mode, 0);
  }
  if (result != 0) return sys_error("make a FIFO");
  left_out_.xattrs += member.xattrs.size();
  return named_attributes(member, place);
}

Status LayerWriter::hard_link(const std::string& target, const Place& place) {
  SBX_ASSIGN(const bool is_made, try_link(target, place));
  if (is_made) return {};
  return note_link(place.path(), target);
}

/// Makes a link to what this layer has at `target`; false when it has nothing there.
Result<bool> LayerWriter::try_link(std::string target, const Place& place) {
  auto [dir, name] = workspace::split_path(target);
  const auto found = dirs_.find(dir);
  if (!found.ok()) return false;
  const auto st = sys::fstatat(found.value().get(), name, AT_SYMLINK_NOFOLLOW);
  if (!st.ok() || workspace::is_whiteout(st.value())) return false;
  if (S_ISDIR(st.value().st_mode)) {
    return Error(Errc::kDenied, text::cat("a hard link to a directory, ", shown(target)));
  }
  if (joined(dir, name) == place.path()) return true;  // itself
  SBX_TRY(replace(place));
  if (::linkat(found.value().get(), name.c_str(), place.dirfd, place.name.c_str(), 0) != 0) {
    const int err = errno;
    if (err == ENOENT) return false;  // it was below what this member replaced
    return sys_error(text::cat("make a hard link to ", shown(target)), err);
  }
  return true;
}

Status LayerWriter::note_link(const std::string& path, const std::string& target) {
  link_bytes_ += path.size() + target.size();
  if (link_bytes_ > kMaxNotes) {
    return Error(Errc::kLimit, "too many hard links to what is not there");
  }
  links_[path] = target;
  return {};
}

Status LayerWriter::finish() {
  // Targets that came after their links; links to such links, within reason.
  constexpr int kPasses = 4;
  bool is_moving = true;
  for (int pass = 0; pass < kPasses && is_moving; ++pass) {
    is_moving = false;
    for (auto it = links_.begin(); it != links_.end();) {
      auto [dir, name] = workspace::split_path(it->first);
      Place place;
      SBX_ASSIGN(place.dirfd, dirs_.enter(dir, timespec{}));
      place.dir = dir;
      place.name = name;
      dirs_.touch();
      auto made = try_link(it->second, place);
      if (!made.ok()) return std::move(made).error().prefixed(shown(it->first));
      is_moving = is_moving || made.value();
      it = made.value() ? links_.erase(it) : std::next(it);
    }
  }
  return dirs_.leave();
}

}  // namespace sbx::image
