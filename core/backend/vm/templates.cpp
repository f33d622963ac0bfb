// Templates: see templates.h.
#include "core/backend/vm/templates.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "core/backend/vm/dir_names.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/scope_exit.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/budget.h"

namespace sbx::vm {

namespace {

constexpr mode_t kOwnDir = 0700;
constexpr mode_t kOwnFile = 0600;
constexpr const char* kMemory = "memory";
constexpr const char* kState = "state";
constexpr const char* kLock = "lock";
constexpr std::string_view kPartial = ".tmp-";
constexpr std::size_t kKeyLength = 32;
constexpr std::size_t kNameLength = 8;
constexpr std::uint64_t kBlock = 512;  // of st_blocks

std::string place(const std::string& state_dir) {
  return state_dir + "/vm/templates";
}

/// Path, size, times and place of a file: it changes when the file does.
Result<std::string> mark_of(const std::string& path) {
  SBX_ASSIGN(const struct stat info, sys::fstatat(AT_FDCWD, path, 0));
  return text::cat(path,
                   ' ',
                   info.st_size,
                   ' ',
                   info.st_ino,
                   ' ',
                   info.st_mtim.tv_sec,
                   '.',
                   info.st_mtim.tv_nsec,
                   '\n');
}

/// What of /proc/cpuinfo says which processor this is: a state that another one made may need what
/// this one lacks.
std::string processor() {
  constexpr Bytes kMost{std::uint64_t{1} << 20U};
  const auto info = fs::read_file("/proc/cpuinfo", kMost);
  if (!info.ok()) return {};
  std::string out;
  for (const std::string_view line : text::split(info.value(), '\n')) {
    if (line.empty()) break;  // the others are alike
    for (const std::string_view name : {"model name", "flags", "stepping", "microcode"}) {
      if (line.starts_with(name)) out += text::cat(line, '\n');
    }
  }
  return out;
}

Result<Template> open_files(int dir) {
  Template found;
  SBX_ASSIGN(found.memory, sys::openat(dir, kMemory, O_RDONLY | O_NOFOLLOW));
  SBX_ASSIGN(found.state, sys::openat(dir, kState, O_RDONLY | O_NOFOLLOW));
  return found;
}

std::optional<Template> find(int parent, const std::string& key) {
  const auto dir = sys::openat(parent, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!dir.ok()) return std::nullopt;
  auto files = open_files(dir.value().get());
  if (!files.ok()) return std::nullopt;
  (void)::futimens(dir.value().get(), nullptr);  // used now
  return std::move(files).value();
}

Result<UniqueFd> take_lock(int parent, int how) {
  SBX_ASSIGN(UniqueFd lock, sys::openat(parent, kLock, O_RDWR | O_CREAT | O_NOFOLLOW, kOwnFile));
  if (::flock(lock.get(), how) != 0) return sys_error("lock the templates of virtual machines");
  return lock;
}

std::vector<std::string> entries(int parent) {
  std::vector<std::string> names = dir_names(parent);
  std::erase(names, kLock);
  return names;
}

std::uint64_t bytes_of(int parent, const std::string& name) {
  std::uint64_t bytes = 0;
  for (const char* file : {kMemory, kState}) {
    const auto info = sys::fstatat(parent, text::cat(name, "/", file), AT_SYMLINK_NOFOLLOW);
    if (info.ok()) bytes += static_cast<std::uint64_t>(info.value().st_blocks) * kBlock;
  }
  return bytes;
}

}  // namespace

Result<std::string> template_key(const MachineSpec& spec,
                                 const std::string& qemu,
                                 std::string_view content) {
  Sha256 digest;
  SBX_ASSIGN(const std::string qemu_mark, mark_of(qemu));
  SBX_ASSIGN(const std::string kernel_mark, mark_of(spec.kernel));
  digest.update(qemu_mark);
  digest.update(kernel_mark);
  digest.update(text::cat(spec.initramfs, '\n'));
  digest.update(machine_shape(spec));
  digest.update(processor());
  digest.update(content);
  return digest.hex().substr(0, kKeyLength);
}

Result<Template> open_template(const std::string& state_dir,
                               const std::string& key,
                               Bytes most,
                               const MakeTemplate& make) {
  SBX_TRY(fs::mkdirs(place(state_dir), kOwnDir));
  SBX_ASSIGN(const UniqueFd parent, fs::open_dir(place(state_dir)));
  if (auto found = find(parent.get(), key)) return *std::move(found);
  SBX_ASSIGN(const UniqueFd lock, take_lock(parent.get(), LOCK_EX));
  if (auto found = find(parent.get(), key)) return *std::move(found);
  SBX_TRY(image::check_budget(state_dir, most));

  const std::string partial = text::cat(kPartial, fs::random_name(kNameLength));
  SBX_TRY(sys::mkdirat(parent.get(), partial, kOwnDir));
  ScopeExit undo([&] { (void)fs::remove_tree(parent.get(), partial); });
  SBX_ASSIGN(const UniqueFd dir,
             sys::openat(parent.get(), partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  {
    constexpr int kNew = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
    SBX_ASSIGN(const UniqueFd memory, sys::openat(dir.get(), kMemory, kNew, kOwnFile));
    SBX_ASSIGN(const UniqueFd state, sys::openat(dir.get(), kState, kNew, kOwnFile));
    SBX_TRY(make(memory.get(), state.get()));
    // A power cut must not leave a whole name with half a content.
    SBX_TRY(sys::fsync(memory.get()));
    SBX_TRY(sys::fsync(state.get()));
  }
  SBX_TRY(sys::renameat(parent.get(), partial, parent.get(), key));
  undo.cancel();
  return open_files(dir.get());
}

std::vector<StaleTemplate> stale_templates(const std::string& state_dir, Millis unused_for) {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  std::vector<StaleTemplate> stale;
  const auto parent = fs::open_dir(place(state_dir));
  if (!parent.ok()) return stale;
  const auto lock = take_lock(parent.value().get(), LOCK_EX | LOCK_NB);
  if (!lock.ok()) return stale;
  const std::int64_t oldest = realtime_ns() - unused_for.v * kNsPerMs;
  for (const std::string& name : entries(parent.value().get())) {
    const auto info = sys::fstatat(parent.value().get(), name, AT_SYMLINK_NOFOLLOW);
    if (!info.ok()) continue;
    const std::int64_t used =
        info.value().st_mtim.tv_sec * 1'000'000'000 + info.value().st_mtim.tv_nsec;
    const bool is_partial = name.starts_with(kPartial);
    if (!is_partial && used > oldest) continue;
    stale.push_back({name, bytes_of(parent.value().get(), name), is_partial});
  }
  return stale;
}

Status remove_template(const std::string& state_dir, const std::string& name) {
  SBX_ASSIGN(const UniqueFd parent, fs::open_dir(place(state_dir)));
  const auto lock = take_lock(parent.get(), LOCK_EX | LOCK_NB);
  if (!lock.ok()) return {};
  return fs::remove_tree(parent.get(), name);
}

}  // namespace sbx::vm
