// User: who a name of an image's configuration is, as the files of the image have it.
//
// Theory of operation
//  1. The image is read as overlayfs would show it: a name is looked for from the highest layer
//     down; a whiteout, a file or an opaque directory hides what is below.
//  2. A link is followed by going on with its text from where it stands, or from the image's own
//     root; never by the kernel, so it leads nowhere else. ".." at the root stays there.
//  3. Only regular files are opened, and read up to a limit.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/host_text.h"
#include "core/confine/idmap.h"
#include "core/image/store.h"
#include "core/workspace/beneath.h"

namespace sbx::image {

namespace {

constexpr Bytes kLongestFile{std::uint64_t{8} << 20U};
constexpr std::size_t kMostParts = 1000;  // of a path with its links
constexpr int kMostLinks = 40;            // as path_resolution(7)

/// The directories of one place of the image, the highest first.
using Dirs = std::vector<UniqueFd>;

class Walk {
 public:
  explicit Walk(Dirs root) { at_.push_back(std::move(root)); }

  /// The content of the file at `path`; nullopt when there is none.
  Result<std::optional<std::string>> read(std::string_view path) {
    at_.resize(1);
    push_front(path);
    while (!todo_.empty()) {
      const std::string part = std::move(todo_.front());
      todo_.pop_front();
      if (part == "..") {
        if (at_.size() > 1) at_.pop_back();
        continue;
      }
      SBX_ASSIGN(Found found, look(part));
      if (found.file.has_value()) {
        if (!todo_.empty()) return std::optional<std::string>();  // a file is no directory
        return std::optional(*std::move(found.file));
      }
      if (found.link.has_value()) {
        SBX_TRY(follow(*found.link));
      } else if (found.dirs.empty()) {
        return std::optional<std::string>();
      } else {
        at_.push_back(std::move(found.dirs));
      }
    }
    return std::optional<std::string>();
  }

 private:
  struct Found {
    Dirs dirs;
    std::optional<std::string> link;
    std::optional<std::string> file;
  };

  void push_front(std::string_view path) {
    std::deque<std::string> parts;
    for (const std::string_view part : text::split(path, '/')) {
      if (!part.empty() && part != ".") parts.emplace_back(part);
    }
    todo_.insert(todo_.begin(), parts.begin(), parts.end());
  }

  Status follow(const std::string& target) {
    if (++links_ > kMostLinks || todo_.size() > kMostParts) {
      return Error(Errc::kLimit, "too many links");
    }
    if (target.starts_with('/')) at_.resize(1);
    push_front(target);
    return {};
  }

  Result<Found> look(const std::string& name) {
    Found found;
    for (const UniqueFd& dir : at_.back()) {
      const auto seen = sys::fstatat(dir.get(), name, AT_SYMLINK_NOFOLLOW);
      if (!seen.ok()) {
        if (seen.error().sys_errno() == ENOENT) continue;
        return seen.error();
      }
      const mode_t mode = seen.value().st_mode;
      if (!S_ISDIR(mode)) {
        // What is no directory hides what is below it, and is itself hidden by a directory.
        if (!found.dirs.empty()) return found;
        SBX_TRY(read_other(dir.get(), name, seen.value(), found));
        return found;
      }
      SBX_ASSIGN(UniqueFd below, workspace::open_entry(dir.get(), name, O_RDONLY | O_DIRECTORY));
      SBX_ASSIGN(const bool is_last, workspace::is_opaque(below.get()));
      found.dirs.push_back(std::move(below));
      if (is_last) return found;
    }
    return found;
  }

  static Status read_other(int dir, const std::string& name, const struct stat& st, Found& into) {
    if (S_ISLNK(st.st_mode)) {
      SBX_ASSIGN(into.link, sys::readlinkat(dir, name));
    } else if (S_ISREG(st.st_mode)) {
      SBX_ASSIGN(const UniqueFd file, workspace::open_regular(dir, name));
      SBX_ASSIGN(into.file, sys::read_all(file.get(), kLongestFile));
    }
    return {};
  }

  std::vector<Dirs> at_;  // from the root to where we are
  std::deque<std::string> todo_;
  int links_ = 0;
};

Result<std::string> read_file(int layers,
                              const std::vector<std::string>& ids,
                              std::string_view path) {
  Dirs root;
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    SBX_ASSIGN(UniqueFd dir, workspace::open_layer(layers, *id, "root"));
    root.push_back(std::move(dir));
  }
  auto text = Walk(std::move(root)).read(path);
  if (!text.ok()) return std::move(text).error().prefixed(text::cat("/", path, " of the image"));
  return std::move(text).value().value_or(std::string());
}

/// A decimal id of at most ten digits.
std::optional<std::uint32_t> parse_id(std::string_view text) {
  const auto number = parse_count(text);
  if (!number.ok() || number.value() > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(number.value());
}

struct GroupLine {
  std::string_view name;
  std::uint32_t gid = 0;
  std::string_view members;  // with commas between

  bool has(std::string_view user) const {
    const std::vector<std::string_view> all = text::split(members, ',');
    return std::ranges::any_of(all, [user](std::string_view m) { return text::trim(m) == user; });
  }
};

std::vector<GroupLine> parse_groups(std::string_view text) {
  std::vector<GroupLine> out;
  for (const std::string_view line : text::split(text, '\n')) {
    const std::vector<std::string_view> fields = text::split(line, ':');
    if (fields.size() < 4 || fields[0].empty()) continue;
    const auto gid = parse_id(text::trim(fields[2]));
    if (gid.has_value()) out.push_back({fields[0], *gid, fields[3]});
  }
  return out;
}

Error no_such(std::string_view kind, std::string_view name, std::string_view file) {
  return Error(Errc::kNotFound, text::cat("the image has no ", kind, " ", text::escape(name)))
      .with_hint(text::cat("see ", file, " of the image, or give a number"));
}

Status check_id(std::uint32_t id) {
  if (id < confine::IdRange::kCount) return {};
  return Error(Errc::kUnsupported,
               text::cat("id ", id, ": images have the ids 0 to ", confine::IdRange::kCount - 1));
}

/// The line of `user`, a name or a number; a name that is a number counts first.
std::optional<confine::PasswdLine> find_line(std::string_view passwd, std::string_view user) {
  const std::vector<confine::PasswdLine> lines = confine::parse_passwd(passwd);
  for (const confine::PasswdLine& line : lines) {
    if (line.name == user) return line;
  }
  const std::optional<std::uint32_t> uid = parse_id(user);
  for (const confine::PasswdLine& line : lines) {
    if (uid.has_value() && line.uid == *uid) return line;
  }
  return std::nullopt;
}

Result<std::uint32_t> find_group(const std::vector<GroupLine>& groups, std::string_view group) {
  for (const GroupLine& line : groups) {
    if (line.name == group) return line.gid;
  }
  if (const auto gid = parse_id(group)) return *gid;
  return no_such("group", group, "/etc/group");
}

}  // namespace

Result<ImageUser> find_user(int layers,
                            const std::vector<std::string>& ids,
                            std::string_view user) {
  constexpr std::size_t kMostGroups = 65536;  // NGROUPS_MAX
  const std::size_t colon = user.find(':');
  const std::string_view given = user.substr(0, colon);
  const std::string_view name = given.empty() ? std::string_view("0") : given;
  SBX_ASSIGN(const std::string passwd, read_file(layers, ids, "etc/passwd"));
  SBX_ASSIGN(const std::string group_text, read_file(layers, ids, "etc/group"));
  const std::vector<GroupLine> groups = parse_groups(group_text);

  ImageUser found;
  const std::optional<confine::PasswdLine> line = find_line(passwd, name);
  if (line.has_value()) {
    found.uid = line->uid;
    found.gid = line->gid;
    if (line->home.starts_with('/')) found.home = line->home;
  } else if (const auto uid = parse_id(name)) {
    found.uid = *uid;
  } else {
    return no_such("user", name, "/etc/passwd");
  }
  if (colon != std::string_view::npos && colon + 1 < user.size()) {
    SBX_ASSIGN(found.gid, find_group(groups, user.substr(colon + 1)));
  } else if (line.has_value()) {
    for (const GroupLine& group : groups) {
      if (!group.has(line->name) || group.gid == found.gid) continue;
      if (group.gid >= confine::IdRange::kCount || found.groups.size() >= kMostGroups) continue;
      found.groups.push_back(group.gid);
    }
    std::ranges::sort(found.groups);
    found.groups.erase(std::unique(found.groups.begin(), found.groups.end()), found.groups.end());
  }
  SBX_TRY(check_id(found.uid));
  SBX_TRY(check_id(found.gid));
  return found;
}

}  // namespace sbx::image
