// Tool: follows a program's links and picks the tree of each.
#include "core/profile/tool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/profile/rules.h"

namespace sbx::profile {
namespace {

constexpr int kMostLinks = 40;  // as the kernel (path_resolution(7))

Error wrong(std::string message) {
  return {Errc::kUsage, std::move(message)};
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

std::string_view base_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool exists(const std::string& path) {
  return sys::fstatat(AT_FDCWD, path, 0).ok();
}

/// The base of every jail.
bool is_shown_anyway(std::string_view path) {
  constexpr std::array<std::string_view, 7> kShown{
      "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives"};
  return std::any_of(
      kShown.begin(), kShown.end(), [path](std::string_view dir) { return is_within(path, dir); });
}

/// Whether a directory holds more than what was installed into it.
bool is_shared(const std::string& dir, std::string_view home) {
  if (parent_of(dir) == "/" || (!home.empty() && is_within(home, dir))) return true;
  const bool is_hidden_in_home = parent_of(dir) == home && base_of(dir).starts_with('.');
  return is_hidden_in_home && !exists(dir + "/pyvenv.cfg");
}

/// The tree to show for the program at `path`, or the file itself.
std::string tree_of(const std::string& path, std::string_view home) {
  const std::string dir = parent_of(path);
  const std::string_view name = base_of(dir);
  if (name != "bin" && name != "sbin") return path;
  const std::string prefix = parent_of(dir);
  return is_shared(prefix, home) ? path : prefix;
}

Status check_program(const std::string& path) {
  const Result<struct stat> info = sys::fstatat(AT_FDCWD, path, 0);
  if (!info.ok()) {
    return wrong(info.error().code() == Errc::kNotFound
                     ? "is not there"
                     : text::cat("cannot be used: ", info.error().message()));
  }
  if (!S_ISREG(info.value().st_mode)) return wrong("is no program");
  if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0) return wrong("is not executable");
  return {};
}

/// Scripts of pyenv and asdf, links to rustup: they look for the program where no sandbox sees it.
bool is_stand_in(std::string_view path, std::string_view real) {
  return path.find("/shims/") != std::string_view::npos ||
         (base_of(real) == "rustup" && base_of(path) != "rustup");
}

Status add(std::vector<Mount>& mounts, std::string path, const std::string& beneath) {
  if (is_shown_anyway(path)) return {};
  if (!beneath.empty() && !is_within(path, beneath)) {
    return wrong(text::cat("leads to '",
                           text::escape(path),
                           "' outside the profile's own directory, which needs --allow-outside"));
  }
  const std::string complaint = target_complaint(path);
  if (!complaint.empty()) return wrong(text::cat("cannot be shown: it ", complaint));
  const bool is_covered = std::any_of(mounts.begin(), mounts.end(), [&path](const Mount& mount) {
    return is_within(path, mount.target);
  });
  if (is_covered) return {};
  mounts.push_back(Mount{path, path, MountMode::kReadOnly, beneath});
  return {};
}

}  // namespace

Result<std::vector<Mount>> tool_mounts(const HostTool& tool, std::string_view home) {
  SBX_TRY(check_program(tool.path));
  std::vector<Mount> mounts;
  std::string path = tool.path;
  for (int links = 0; links < kMostLinks; ++links) {
    SBX_TRY(add(mounts, tree_of(path, home), tool.beneath));
    const Result<std::string> target = sys::readlinkat(AT_FDCWD, path);
    if (!target.ok()) break;  // the program itself
    // By its letters: inside, every directory on the way is one, also where the host has a link.
    const std::filesystem::path next(target.value());
    path = (next.is_absolute() ? next : parent_of(path) / next).lexically_normal().string();
  }
  if (is_stand_in(tool.path, path)) {
    return wrong(
        "is a version manager's stand-in: name the program itself, as \"pyenv which\", \"asdf "
        "which\" or \"rustup which\" prints it");
  }
  return mounts;
}

}  // namespace sbx::profile
