// Layer store: directories that appear by rename, locks that go with their holder.
#include "core/workspace/layer_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <unordered_set>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/remove_stored.h"
#include "core/workspace/beneath.h"

namespace sbx::workspace {
namespace {

constexpr std::string_view kTempPrefix = ".tmp-";
constexpr std::string_view kBasePrefix = "base-";
constexpr std::string_view kImagePrefix = "img-";
constexpr std::size_t kImageDigits = 24;
constexpr mode_t kDirMode = 0755;  // the state directory above is the caller's alone
constexpr int kDirFlags = O_RDONLY | O_DIRECTORY;

Result<UniqueFd> open_lock(int layers) {
  return sys::openat(layers, "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
}

/// Makes a directory of exactly this mode, whatever the umask is.
Status make_dir(int dirfd, const std::string& name, std::optional<Owner> owner) {
  SBX_TRY(sys::mkdirat(dirfd, name, kDirMode));
  SBX_ASSIGN(const UniqueFd dir, open_entry(dirfd, name, kDirFlags));
  if (owner.has_value()) SBX_TRY(sys::fchown(dir.get(), owner->uid, owner->gid));
  return sys::fchmod(dir.get(), kDirMode);
}

bool is_id_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_hex_digit(char c) {
  return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9');
}

Result<UniqueFd> open_layer_dir(int layers, const std::string& id) {
  if (!is_layer_id(id)) return Error(Errc::kUsage, text::cat("no name of a layer: ", id));
  // Not hostile yet, and perhaps a mount point (a disk limit).
  auto dir = sys::openat(layers, id, kDirFlags | O_NOFOLLOW);
  if (!dir.ok()) return std::move(dir).error().prefixed(text::cat("layer ", id));
  return dir;
}

/// Whether somebody is at work on an unfinished layer, or uses a finished one.
bool has_holder(int layers, const std::string& name) {
  const Result<UniqueFd> dir = open_entry(layers, name, kDirFlags);
  return dir.ok() && ::flock(dir.value().get(), LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK;
}

Millis age_of(const struct stat& st) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return Millis{(now.tv_sec - st.st_ctim.tv_sec) * 1000 +
                (now.tv_nsec - st.st_ctim.tv_nsec) / 1'000'000};
}

/// Adds up what lies below a directory.
class Meter {
 public:
  explicit Meter(int base) : cursor_(base) {}

  Result<DiskUse> run() {
    pending_.emplace_back();
    while (!pending_.empty()) {
      const std::string path = std::move(pending_.back());
      pending_.pop_back();
      SBX_TRY(visit(path));
    }
    return use_;
  }

 private:
  Status visit(const std::string& path) {
    const Result<int> dir = cursor_.open(path);
    if (!dir.ok() && dir.error().code() == Errc::kNotFound) return {};  // removed meanwhile
    if (!dir.ok()) return dir.error();
    SBX_ASSIGN(const struct stat self, sys::fstat(dir.value()));
    use_.bytes.v += static_cast<std::uint64_t>(self.st_blocks) * 512;
    SBX_ASSIGN(const std::vector<std::string> names, read_names(dir.value()));
    for (const std::string& name : names) {
      const auto st = sys::fstatat(dir.value(), name, AT_SYMLINK_NOFOLLOW);
      if (!st.ok()) continue;
      if (S_ISDIR(st.value().st_mode)) {
        pending_.push_back(join_path(path, name));
      } else {
        count(st.value());
      }
    }
    return {};
  }

  void count(const struct stat& st) {
    if (is_whiteout(st)) return;
    if (st.st_nlink > 1 && !seen_.insert(st.st_ino).second) return;
    ++use_.files;
    use_.bytes.v += static_cast<std::uint64_t>(st.st_blocks) * 512;
  }

  DirCursor cursor_;
  std::vector<std::string> pending_;
  std::unordered_set<ino_t> seen_;
  DiskUse use_;
};

}  // namespace

bool is_layer_id(std::string_view name) {
  if (name.starts_with(kImagePrefix)) {
    name.remove_prefix(kImagePrefix.size());
    return name.size() == kImageDigits && std::ranges::all_of(name, is_hex_digit);
  }
  if (name.starts_with(kBasePrefix) && name.size() > kBasePrefix.size() && name.size() < 100) {
    name.remove_prefix(kBasePrefix.size());
    return std::ranges::all_of(name, is_id_letter);
  }
  return name.size() == kLayerIdSize && std::ranges::all_of(name, is_id_letter);
}

// --- LayersLock ---

Result<LayersLock> LayersLock::take(int layers, Mode mode) {
  SBX_ASSIGN(UniqueFd fd, open_lock(layers));
  while (::flock(fd.get(), mode == Mode::kShared ? LOCK_SH : LOCK_EX) == -1) {
    if (errno != EINTR) return sys_error("lock the layers");
  }
  return LayersLock(std::move(fd));
}

Result<std::optional<LayersLock>> LayersLock::try_take(int layers, Mode mode) {
  SBX_ASSIGN(UniqueFd fd, open_lock(layers));
  if (::flock(fd.get(), (mode == Mode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) == -1) {
    if (errno == EWOULDBLOCK) return std::optional<LayersLock>();
    return sys_error("lock the layers");
  }
  return std::optional(LayersLock(std::move(fd)));
}

// --- NewLayer ---

Result<NewLayer> NewLayer::begin(int layers) {
  const fs::OwnerUmask mask;
  const std::string name = text::cat(kTempPrefix, fs::random_name(12));
  SBX_TRY(sys::mkdirat(layers, name, kDirMode));
  auto fd = open_entry(layers, name, kDirFlags);
  if (!fd.ok()) {
    static_cast<void>(sys::unlinkat(layers, name, AT_REMOVEDIR));
    return std::move(fd).error();
  }
  NewLayer layer(layers, name, std::move(fd).value());
  if (::flock(layer.fd(), LOCK_EX) == -1) return sys_error("lock a new layer");
  SBX_TRY(sys::fchmod(layer.fd(), kDirMode));
  return layer;
}

NewLayer::NewLayer(NewLayer&& other) noexcept
    : layers_(other.layers_), name_(std::exchange(other.name_, {})), fd_(std::move(other.fd_)) {}

NewLayer::~NewLayer() {
  if (!name_.empty()) static_cast<void>(confine::remove_stored(layers_, name_));
}

Result<std::string> NewLayer::publish() {
  constexpr int kTries = 16;
  Status renamed;
  for (int i = 0; i < kTries; ++i) {
    std::string id = fs::random_name(kLayerIdSize);
    renamed = sys::renameat(layers_, name_, layers_, id, RENAME_NOREPLACE);
    if (renamed.ok()) {
      name_.clear();
      fd_.reset();
      SBX_TRY(sys::fsync(layers_));
      return id;
    }
    if (renamed.error().sys_errno() != EEXIST) break;
  }
  return std::move(renamed).error().prefixed("new layer");
}

// --- layers ---

Result<std::string> make_layer(int layers, std::optional<Owner> owner) {
  SBX_ASSIGN(NewLayer layer, NewLayer::begin(layers));
  SBX_TRY(make_dir(layer.fd(), "fs", std::nullopt));
  SBX_ASSIGN(const UniqueFd content, open_entry(layer.fd(), "fs", kDirFlags));
  SBX_TRY(make_dir(content.get(), "root", owner));
  SBX_TRY(sys::fsync(content.get()));
  SBX_TRY(sys::fsync(layer.fd()));
  return layer.publish();
}

Status add_part(int layers,
                const std::string& id,
                const std::string& part,
                std::optional<Owner> owner) {
  if (part.empty() || part.find('/') != std::string::npos || part.starts_with('.')) {
    return Error(Errc::kInternal, text::cat("no name of a layer's part: ", part));
  }
  SBX_ASSIGN(const UniqueFd dir, open_layer(layers, id));
  Status made = make_dir(dir.get(), part, owner);
  if (!made.ok() && made.error().code() != Errc::kExists) return made;
  return {};
}

Result<UniqueFd> open_layer(int layers, const std::string& id, const std::string& part) {
  SBX_ASSIGN(const UniqueFd dir, open_layer_dir(layers, id));
  auto content = sys::openat(dir.get(), "fs", kDirFlags | O_NOFOLLOW);
  if (content.ok() && !part.empty()) {
    content = sys::openat(content.value().get(), part, kDirFlags | O_NOFOLLOW);
  }
  if (!content.ok()) return std::move(content).error().prefixed(text::cat("layer ", id));
  return content;
}

Result<std::vector<std::string>> layer_parts(int layers, const std::string& id) {
  SBX_ASSIGN(const UniqueFd content, open_layer(layers, id));
  SBX_ASSIGN(std::vector<std::string> parts, read_names(content.get()));
  std::ranges::sort(parts);
  return parts;
}

Status sync_layer(int layers, const std::string& id) {
  SBX_ASSIGN(const UniqueFd content, open_layer(layers, id));
  if (::syncfs(content.get()) == -1) return sys_error(text::cat("sync layer ", id));
  return {};
}

Status drop_work_dirs(int layers, const std::string& id) {
  SBX_ASSIGN(const UniqueFd dir, open_layer_dir(layers, id));
  return confine::remove_stored(dir.get(), "ovl");
}

Result<DiskUse> disk_use_below(int dir) {
  return Meter(dir).run();
}

Result<DiskUse> disk_use(int layers, const std::string& id) {
  SBX_ASSIGN(const UniqueFd content, open_layer(layers, id));
  return Meter(content.get()).run();
}

Result<std::vector<StaleLayer>> stale_layers(int layers,
                                             const std::set<std::string>& used,
                                             Millis min_age) {
  SBX_ASSIGN(const UniqueFd dir, open_directory(layers, ""));
  SBX_ASSIGN(std::vector<std::string> names, read_names(dir.get()));
  std::ranges::sort(names);
  std::vector<StaleLayer> stale;
  for (const std::string& name : names) {
    const bool is_temp = name.starts_with(kTempPrefix);
    if (!is_temp && (!is_layer_id(name) || used.contains(name))) continue;
    const auto st = sys::fstatat(layers, name, AT_SYMLINK_NOFOLLOW);
    if (!st.ok()) continue;
    const Millis age = age_of(st.value());
    if (!is_temp && age.v < min_age.v) continue;
    if (has_holder(layers, name)) continue;
    stale.push_back({name, age});
  }
  return stale;
}

Result<bool> remove_layer(int layers, const std::string& name) {
  auto dir = open_entry(layers, name, kDirFlags);
  if (!dir.ok()) {
    if (dir.error().code() == Errc::kNotFound) return true;
    return std::move(dir).error();
  }
  if (::flock(dir.value().get(), LOCK_EX | LOCK_NB) == -1) {
    if (errno == EWOULDBLOCK) return false;
    return sys_error(text::cat("lock layer ", name));
  }
  // A layer that is found by its content must not be found with half of it. A full disk may have no
  // room for a new name, a mount point none for another: then it has to go as it is.
  std::string now = text::cat(kTempPrefix, fs::random_name(12));
  if (name.starts_with(kTempPrefix) ||
      !sys::renameat(layers, name, layers, now, RENAME_NOREPLACE).ok()) {
    now = name;
  }
  SBX_TRY(confine::remove_stored(layers, now));
  return true;
}

Result<std::size_t> sweep(int layers,
                          const LayersLock& /*lock*/,
                          const std::set<std::string>& used,
                          Millis min_age) {
  SBX_ASSIGN(const std::vector<StaleLayer> stale, stale_layers(layers, used, min_age));
  std::size_t count = 0;
  Status first;
  for (const StaleLayer& layer : stale) {
    const Result<bool> removed = remove_layer(layers, layer.name);
    if (removed.ok() && removed.value()) ++count;
    if (!removed.ok() && first.ok()) first = removed.error();
  }
  if (!first.ok()) return std::move(first).error();
  return count;
}

}  // namespace sbx::workspace
