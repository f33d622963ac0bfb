// Garbage: what may go of the sets of packages. See store.h.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/packages/store.h"

namespace sbx::packages {

namespace {

using run::Gc;
using run::GcEntry;

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kDay = 24L * 3600;

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

std::vector<std::string> names_in(int dir) {
  std::vector<std::string> names;
  auto again = sys::openat(dir, ".", O_RDONLY | O_DIRECTORY);
  if (!again.ok()) return names;
  const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(again.value().get()));
  if (!stream) return names;
  (void)again.value().release();
  while (const dirent* const entry = ::readdir(stream.get())) {
    names.emplace_back(static_cast<const char*>(entry->d_name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::int64_t unused_seconds(const struct stat& info) {
  return realtime_ns() / kNsPerSecond - info.st_mtim.tv_sec;
}

/// Why it may go, and the lock that keeps everybody else from taking it up; empty: it stays.
std::string reason_to_go(int packages,
                         const std::string& name,
                         const std::set<std::string>& used,
                         UniqueFd& lock) {
  constexpr std::int64_t kYoung = 60;  // its maker may not have locked it yet
  const bool is_half = name.starts_with(".tmp-");
  const bool is_wish = name.starts_with("wish-");
  if ((!is_half && !is_wish && !is_set_name(name)) || used.contains(name)) return {};
  auto opened = sys::openat(packages, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!opened.ok()) return {};
  const auto info = sys::fstat(opened.value().get());
  if (!info.ok()) return {};
  const std::int64_t unused = unused_seconds(info.value());
  if (unused < (is_half ? kYoung : kUnusedSeconds)) return {};
  if (::flock(opened.value().get(), LOCK_EX | LOCK_NB) != 0) return {};
  lock = std::move(opened).value();
  if (is_half) return "whoever made it was killed";
  return text::cat("nobody used it for ", unused / kDay, " days");
}

/// Under another name first: killed half way, it must not be taken for a whole set.
Status remove_entry(int packages, const std::string& name) {
  if (!is_set_name(name)) return fs::remove_tree(packages, name);
  constexpr std::size_t kRandom = 16;
  const std::string doomed = text::cat(".tmp-", fs::random_name(kRandom));
  SBX_TRY(sys::renameat(packages, name, packages, doomed));
  return fs::remove_tree(packages, doomed);
}

}  // namespace

std::vector<GcEntry> collect_garbage(const std::string& state_dir,
                                     const std::set<std::string>& used,
                                     Gc how) {
  std::vector<GcEntry> out;
  const std::string path = state_dir + "/packages";
  const auto dir = sys::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!dir.ok()) return out;
  for (const std::string& name : names_in(dir.value().get())) {
    UniqueFd lock;
    std::string why = reason_to_go(dir.value().get(), name, used, lock);
    if (why.empty()) continue;
    GcEntry entry;
    entry.kind = "packages";
    entry.leftover.name = text::cat(path, '/', name);
    entry.leftover.why = std::move(why);
    if (how == Gc::kRemove) {
      const Status removed = remove_entry(dir.value().get(), name);
      entry.is_removed = removed.ok();
      if (!removed.ok()) entry.problem = removed.error().message();
    }
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace sbx::packages
