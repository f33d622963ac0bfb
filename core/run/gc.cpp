// Gc: see gc.h.
#include "core/run/gc.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/cgroup.h"
#include "core/confine/remove_stored.h"
#include "core/run/scratch.h"

namespace sbx::run {
namespace {

constexpr std::string_view kTemporaryPrefix = ".sbx-";
constexpr std::size_t kTemporaryRandom = 16;
constexpr int kStateDepth = 2;

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// --- control groups ---

std::vector<Leftover> find_cgroups(const GcContext& /*context*/) {
  std::vector<Leftover> out;
  const auto layout = confine::probe_cgroups();
  if (!layout.ok()) return out;
  for (confine::StaleCgroup& group : confine::find_stale_cgroups(layout.value())) {
    out.push_back({.name = std::move(group.path),
                   .why = text::cat("its sbx, process ", group.pid, ", is gone"),
                   .bytes = group.memory});
  }
  return out;
}

Status remove_cgroup(const GcContext& /*context*/, const Leftover& leftover) {
  SBX_ASSIGN(const confine::CgroupLayout layout, confine::probe_cgroups());
  return confine::remove_stale_cgroup(layout, leftover.name.substr(leftover.name.rfind('/') + 1));
}

// --- files that were being written ---

/// Whether write_atomic() may have made a file of this name.
bool is_temporary(std::string_view name) {
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
  return name.starts_with(kTemporaryPrefix) &&
         name.size() == kTemporaryPrefix.size() + kTemporaryRandom &&
         name.find_first_not_of(kAlphabet, kTemporaryPrefix.size()) == std::string_view::npos;
}

std::int64_t age_of(const struct stat& info) {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  // A clock that was set back makes it older only later.
  return realtime_ns() / kNsPerSecond - info.st_ctim.tv_sec;
}

/// Holds the lock of a temporary file whose writer is gone; an error when there is none.
Result<UniqueFd> lock_abandoned(const std::string& path, Age least) {
  SBX_ASSIGN(UniqueFd file, sys::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  SBX_ASSIGN(const struct stat info, sys::fstat(file.get()));
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || age_of(info) < least.seconds) {
    return Error(Errc::kDenied, text::cat(path, ": is not, or not yet, to be removed"));
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return sys_error(text::cat("lock ", path));
  return file;
}

void find_temporaries_in(const std::string& dir, Age least, int depth, std::vector<Leftover>& out) {
  const std::unique_ptr<DIR, CloseDir> stream(::opendir(dir.c_str()));
  if (!stream) return;
  std::vector<std::string> below;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string_view name = static_cast<const char*>(entry->d_name);
    std::string path = text::cat(dir, "/", name);
    if (entry->d_type == DT_DIR && depth > 0 && !name.starts_with('.')) {
      below.push_back(std::move(path));
      continue;
    }
    if (entry->d_type != DT_REG || !is_temporary(name)) continue;
    const auto file = lock_abandoned(path, least);
    if (!file.ok()) continue;
    const auto info = sys::fstat(file.value().get());
    out.push_back({.name = std::move(path),
                   .why = "nobody writes it any more",
                   .bytes = info.ok() ? static_cast<std::uint64_t>(info.value().st_size) : 0});
  }
  for (const std::string& path : below) {
    find_temporaries_in(path, least, depth - 1, out);
  }
}

std::vector<Leftover> find_old_temporaries(const GcContext& context) {
  return find_temporaries(context, Age());
}

Status remove_temporary(const GcContext& /*context*/, const Leftover& leftover) {
  const auto file = lock_abandoned(leftover.name, Age());
  if (!file.ok()) {
    if (file.error().sys_errno() == ENOENT) return {};
    return file.error();
  }
  return sys::unlinkat(AT_FDCWD, leftover.name);
}

// --- roots of sandboxes that were being made ---

/// A directory that its maker locks as soon as it is open, and renames when it is complete.
constexpr std::string_view kUnfinishedPrefix = ".new-";

Result<UniqueFd> lock_unfinished(const std::string& path, Age least) {
  SBX_ASSIGN(UniqueFd dir, sys::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_ASSIGN(const struct stat info, sys::fstat(dir.get()));
  if (info.st_uid != ::geteuid() || age_of(info) < least.seconds) {
    return Error(Errc::kDenied, text::cat(path, ": is not, or not yet, to be removed"));
  }
  if (::flock(dir.get(), LOCK_EX | LOCK_NB) != 0) return sys_error(text::cat("lock ", path));
  return dir;
}

std::vector<Leftover> find_roots(const GcContext& context) {
  std::vector<Leftover> out;
  if (context.roots_dir.empty()) return out;
  const std::unique_ptr<DIR, CloseDir> stream(::opendir(context.roots_dir.c_str()));
  if (!stream) return out;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (!name.starts_with(kUnfinishedPrefix)) continue;
    std::string path = text::cat(context.roots_dir, "/", name);
    if (!lock_unfinished(path, Age()).ok()) continue;
    out.push_back({.name = std::move(path), .why = "nobody makes it any more", .bytes = {}});
  }
  return out;
}

Status remove_root(const GcContext& context, const Leftover& leftover) {
  const auto held = lock_unfinished(leftover.name, Age());
  if (!held.ok()) {
    if (held.error().sys_errno() == ENOENT) return {};
    return held.error();
  }
  SBX_ASSIGN(const UniqueFd parent, fs::open_dir(context.roots_dir));
  return fs::remove_tree(parent.get(), leftover.name.substr(leftover.name.rfind('/') + 1));
}

// --- changes of overlays that were to be thrown away, images that were being downloaded ---

/// Its user locks it before anything is in it, and makes another one when we were faster.
Result<UniqueFd> lock_unused(const std::string& path) {
  SBX_ASSIGN(UniqueFd dir, sys::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (::flock(dir.get(), LOCK_EX | LOCK_NB) != 0) return sys_error(text::cat("lock ", path));
  return dir;
}

std::vector<Leftover> find_unused(const GcContext& context, std::string_view subdir) {
  std::vector<Leftover> out;
  if (context.state_dir.empty()) return out;
  const std::string dir = text::cat(context.state_dir, "/", subdir);
  const std::unique_ptr<DIR, CloseDir> stream(::opendir(dir.c_str()));
  if (!stream) return out;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name.starts_with('.')) continue;
    std::string path = text::cat(dir, "/", name);
    if (!lock_unused(path).ok()) continue;
    out.push_back({.name = std::move(path), .why = "nobody uses it any more", .bytes = {}});
  }
  return out;
}

Status remove_unused(const GcContext& context, const Leftover& leftover, std::string_view subdir) {
  const auto held = lock_unused(leftover.name);
  if (!held.ok()) return held.error();
  SBX_ASSIGN(const UniqueFd parent, fs::open_dir(text::cat(context.state_dir, "/", subdir)));
  return confine::remove_stored(parent.get(), leftover.name.substr(leftover.name.rfind('/') + 1));
}

constexpr std::string_view kOverlays = "overlays";
constexpr std::string_view kDownloads = "downloads";

std::vector<Leftover> find_overlays(const GcContext& context) {
  return find_unused(context, kOverlays);
}
Status remove_overlay(const GcContext& context, const Leftover& leftover) {
  return remove_unused(context, leftover, kOverlays);
}
std::vector<Leftover> find_downloads(const GcContext& context) {
  return find_unused(context, kDownloads);
}
Status remove_download(const GcContext& context, const Leftover& leftover) {
  return remove_unused(context, leftover, kDownloads);
}

// --- sockets ---

/// Whether nobody listens: the kernel refuses, which it does for no other reason.
bool is_dead_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(static_cast<char*>(address.sun_path), path.data(), path.size());
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
    const UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) return false;
    const int done =
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    if (done == 0) return false;
    if (errno == EPROTOTYPE) continue;  // it has another type
    return errno == ECONNREFUSED;
  }
  return false;
}

std::vector<Leftover> find_sockets(const GcContext& context) {
  std::vector<Leftover> out;
  if (context.runtime_dir.empty()) return out;
  const std::unique_ptr<DIR, CloseDir> stream(::opendir(context.runtime_dir.c_str()));
  if (!stream) return out;
  while (const dirent* const entry = ::readdir(stream.get())) {
    if (entry->d_type != DT_SOCK) continue;
    std::string path = text::cat(context.runtime_dir, "/", static_cast<const char*>(entry->d_name));
    if (!is_dead_socket(path)) continue;
    out.push_back({.name = std::move(path), .why = "nobody listens on it", .bytes = {}});
  }
  return out;
}

Status remove_socket(const GcContext& /*context*/, const Leftover& leftover) {
  if (!is_dead_socket(leftover.name)) return {};
  return sys::unlinkat(AT_FDCWD, leftover.name);
}

// --- outputs that were being put together, or away ---

std::vector<Leftover> find_outputs(const GcContext& context) {
  std::vector<Leftover> out;
  for (std::string& path : reclaim_scratch(context.state_dir, Reclaim::kDryRun)) {
    out.push_back({.name = std::move(path), .why = "the run that made it is gone", .bytes = {}});
  }
  return out;
}

Status remove_output(const GcContext& context, const Leftover& leftover) {
  // All at once; each of the others then finds its own gone.
  static_cast<void>(reclaim_scratch(context.state_dir, Reclaim::kRemove));
  if (!sys::fstatat(AT_FDCWD, leftover.name, AT_SYMLINK_NOFOLLOW).ok()) return {};
  return Error(Errc::kSystem, text::cat("remove ", leftover.name, ": something in it stays"))
      .with_hint(text::cat("rm -rf ", leftover.name));
}

constexpr std::array<LeftoverKind, 7> kKinds{{
    {"cgroup", find_cgroups, remove_cgroup},
    {"temporary file", find_old_temporaries, remove_temporary},
    {"unfinished root", find_roots, remove_root},
    {"overlay", find_overlays, remove_overlay},
    {"download", find_downloads, remove_download},
    {"socket", find_sockets, remove_socket},
    {"output", find_outputs, remove_output},
}};

}  // namespace

std::vector<Leftover> find_temporaries(const GcContext& context, Age least) {
  std::vector<Leftover> out;
  if (!context.state_dir.empty()) find_temporaries_in(context.state_dir, least, kStateDepth, out);
  return out;
}

void remove_downloads(const std::string& state_dir) {
  GcContext context;
  context.state_dir = state_dir;
  for (const Leftover& leftover : find_downloads(context)) {
    static_cast<void>(remove_download(context, leftover));
  }
}

std::span<const LeftoverKind> leftover_kinds() {
  return kKinds;
}

std::vector<GcEntry> collect_garbage(const GcContext& context, Gc how) {
  std::vector<GcEntry> out;
  for (const LeftoverKind& kind : leftover_kinds()) {
    for (Leftover& leftover : kind.find(context)) {
      GcEntry entry{kind.name, std::move(leftover), false, {}};
      if (how == Gc::kRemove) {
        const Status removed = kind.remove(context, entry.leftover);
        // ENOENT: another gc was faster.
        entry.is_removed = removed.ok() || removed.error().sys_errno() == ENOENT;
        if (!entry.is_removed) entry.problem = removed.error().message();
      }
      out.push_back(std::move(entry));
    }
  }
  return out;
}

}  // namespace sbx::run
