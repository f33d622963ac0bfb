// Tree: see tree.h.
#include "core/packages/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::packages {

namespace {

constexpr std::size_t kMostEntries = 2'000'000;
constexpr std::size_t kMostDepth = 100;
constexpr mode_t kDirMode = 0755;
constexpr mode_t kFileMode = 0644;
constexpr mode_t kProgramMode = 0755;

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

/// A directory that is being looked through.
struct Level {
  UniqueFd fd;
  std::unique_ptr<DIR, CloseDir> stream;
};

Result<Level> open_level(UniqueFd fd) {
  SBX_TRY(sys::fchmod(fd.get(), kDirMode));
  SBX_ASSIGN(UniqueFd again, sys::openat(fd.get(), ".", O_RDONLY | O_DIRECTORY));
  Level level;
  level.stream.reset(::fdopendir(again.get()));
  if (!level.stream) return sys_error("read a directory of packages");
  (void)again.release();
  level.fd = std::move(fd);
  return level;
}

/// A regular file: opened without reading, so that no mode can be in the way.
Status tidy_file(int dir, const std::string& name, const struct stat& info) {
  constexpr mode_t kModes = 07777;
  constexpr mode_t kAnyExec = 0111;
  const mode_t wanted = (info.st_mode & kAnyExec) != 0 ? kProgramMode : kFileMode;
  if ((info.st_mode & kModes) == wanted) return {};
  if (::fchmodat(dir, name.c_str(), wanted, 0) != 0) {  // it is no link, and nobody swaps it
    return sys_error(text::cat("change the mode of ", text::escape(name)));
  }
  return {};
}

}  // namespace

Status tidy_tree(int dir) {
  std::vector<Level> levels;
  SBX_ASSIGN(UniqueFd top, sys::openat(dir, ".", O_RDONLY | O_DIRECTORY));
  SBX_ASSIGN(Level first, open_level(std::move(top)));
  levels.push_back(std::move(first));
  std::size_t count = 0;
  while (!levels.empty()) {
    const dirent* const entry = ::readdir(levels.back().stream.get());
    if (entry == nullptr) {
      levels.pop_back();
      continue;
    }
    const std::string name = static_cast<const char*>(entry->d_name);
    if (name == "." || name == "..") continue;
    if (++count > kMostEntries) {
      return Error(Errc::kLimit, "packages with more than 2 million files");
    }
    const int parent = levels.back().fd.get();
    SBX_ASSIGN(const struct stat info, sys::fstatat(parent, name, AT_SYMLINK_NOFOLLOW));
    if (S_ISLNK(info.st_mode)) continue;
    if (S_ISREG(info.st_mode)) {
      SBX_TRY(tidy_file(parent, name, info));
      continue;
    }
    if (!S_ISDIR(info.st_mode)) {
      return Error(Errc::kProtocol,
                   text::cat("packages: ", text::escape(name), " is neither file nor directory"));
    }
    if (levels.size() >= kMostDepth) {
      return Error(Errc::kLimit, "packages with too deep directories");
    }
    if (::fchmodat(parent, name.c_str(), kDirMode, 0) != 0) return sys_error("open up a directory");
    SBX_ASSIGN(UniqueFd below, sys::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    SBX_ASSIGN(Level level, open_level(std::move(below)));
    levels.push_back(std::move(level));
  }
  return {};
}

}  // namespace sbx::packages
