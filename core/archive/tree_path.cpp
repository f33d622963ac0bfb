// Tree path: see tree_path.h.
#include "core/archive/tree_path.h"

#include <fcntl.h>
#include <linux/openat2.h>

#include <climits>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive {

const std::uint64_t kBelow = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

SplitPath split_path(std::string_view path) {
  SplitPath out;
  const std::size_t last = path.find_last_not_of('/');
  if (last == std::string_view::npos) {
    out.parent = path.empty() ? "." : "/";
    out.is_content = true;
    return out;
  }
  out.has_slash = last + 1 < path.size();
  path = path.substr(0, last + 1);
  const std::size_t slash = path.rfind('/');
  out.name = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
  out.parent = slash == std::string_view::npos ? "." : std::string(path.substr(0, slash + 1));
  out.is_content = out.name == "." || out.name == "..";
  return out;
}

std::string name_of_copy(std::string_view path) {
  SplitPath split = split_path(path);
  return split.is_content ? "" : std::move(split.name);
}

Result<UniqueFd> open_named_dir(Root root, const std::string& path, int flags) {
  const int all = flags | O_DIRECTORY;
  const std::string& name = path.empty() ? "." : path;
  if (root == Root::kHost) return sys::open(name, all);
  return sys::openat2(AT_FDCWD, name, static_cast<unsigned>(all), 0, RESOLVE_NO_MAGICLINKS);
}

Result<UniqueFd> open_below(int dirfd, const std::string& name, int flags, mode_t mode) {
  // With O_PATH openat2(2) takes no flag that has no meaning then.
  const int all = flags | O_NOFOLLOW | ((flags & O_PATH) != 0 ? 0 : O_NONBLOCK | O_NOCTTY);
  return sys::openat2(dirfd, name, static_cast<unsigned>(all), mode, kBelow);
}

Result<std::vector<std::string>> member_components(std::string_view path) {
  const auto refused = [path](std::string_view why) {
    return Error(Errc::kProtocol, text::cat("refused member ", path, ": ", why));
  };
  if (path.empty()) return refused("it has no name");
  if (path.front() == '/') return refused("its path is absolute");
  if (path.find('\0') != std::string_view::npos) return refused("a NUL byte in its name");
  std::vector<std::string> parts;
  for (const std::string_view part : text::split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") return refused("it leads out of the tree");
    if (part.size() > NAME_MAX) return refused("its name is too long");
    if (parts.size() >= kMaxTransferDepth) return refused("it is too deep");
    parts.emplace_back(part);
  }
  return parts;
}

}  // namespace sbx::archive
