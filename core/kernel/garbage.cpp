// Garbage: see garbage.h.
#include "core/kernel/garbage.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/kernel/initramfs.h"
#include "core/kernel/place.h"
#include "core/kernel/store.h"
#include "core/workspace/beneath.h"
#include "core/workspace/layer_store.h"

namespace sbx::kernel {

namespace {

constexpr std::string_view kHalf = "whoever made or removed it was killed";

std::uint64_t bytes_of(const struct stat& st) {
  constexpr std::uint64_t kStatBlock = 512;
  return static_cast<std::uint64_t>(st.st_blocks) * kStatBlock;
}

Result<UniqueFd> open_existing(const std::string& path) {
  return sys::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

/// Whether somebody is writing it.
bool is_held(int dir, const std::string& name) {
  const auto file = sys::openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  return file.ok() && ::flock(file.value().get(), LOCK_EX | LOCK_NB) != 0;
}

/// Why an initramfs is stale; empty when it is not. Kernels for all users count as well.
std::string_view why_stale(int dir,
                           const std::string& name,
                           const struct stat& st,
                           const std::vector<std::string>& current,
                           Millis unused_for) {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  if (name.starts_with(kTempPrefix)) return is_held(dir, name) ? std::string_view() : kHalf;
  if (std::ranges::find(current, name) != current.end()) return {};
  const std::int64_t touched = st.st_mtim.tv_sec * kNsPerS + st.st_mtim.tv_nsec;
  if (realtime_ns() - touched < unused_for.v * kNsPerMs) return {};
  return "no kernel and no sbx that was used lately has it";
}

void find_stale_initramfs(const std::string& state_dir,
                          Millis unused_for,
                          std::vector<Stale>& out) {
  const std::string where = text::cat(kernels_dir(state_dir), "/", kInitramfsDir);
  const auto dir = open_existing(where);
  if (!dir.ok()) return;
  std::vector<std::string> problems;
  const auto current = current_initramfs(list(state_dir, problems));
  const auto names = workspace::read_names(dir.value().get());
  if (!names.ok()) return;
  for (const std::string& name : names.value()) {
    const auto st = sys::fstatat(dir.value().get(), name, AT_SYMLINK_NOFOLLOW);
    // Without knowing what is in use only what is half made can be told.
    const bool is_known = current.ok() || name.starts_with(kTempPrefix);
    if (!st.ok() || !is_known) continue;
    const std::string_view why =
        why_stale(dir.value().get(),
                  name,
                  st.value(),
                  current.ok() ? current.value() : std::vector<std::string>(),
                  unused_for);
    if (why.empty()) continue;
    out.push_back({StaleKind::kInitramfs,
                   text::cat(where, "/", name),
                   std::string(why),
                   bytes_of(st.value())});
  }
}

}  // namespace

std::vector<Stale> stale_files(const std::string& state_dir, Millis unused_for) {
  std::vector<Stale> out;
  const std::string where = kernels_dir(state_dir);
  const auto dir = open_existing(where);
  if (!dir.ok()) return out;
  for (const std::string& name : abandoned(dir.value().get())) {
    Stale stale{StaleKind::kKernel, text::cat(where, "/", name), std::string(kHalf), 0};
    const auto use = workspace::disk_use(dir.value().get(), name);
    if (use.ok()) stale.bytes = use.value().bytes.v;
    out.push_back(std::move(stale));
  }
  find_stale_initramfs(state_dir, unused_for, out);
  return out;
}

Status remove_stale(const std::string& state_dir, const Stale& stale) {
  const std::string name = stale.path.substr(stale.path.rfind('/') + 1);
  std::string where = kernels_dir(state_dir);
  if (stale.kind == StaleKind::kKernel) {
    SBX_ASSIGN(const UniqueFd dir, open_existing(where));
    return remove_abandoned(dir.get(), name);
  }
  SBX_ASSIGN(const UniqueFd dir, open_existing(text::cat(where, "/", kInitramfsDir)));
  if (name.starts_with(kTempPrefix) && is_held(dir.get(), name)) return {};
  Status removed = sys::unlinkat(dir.get(), name);
  if (!removed.ok() && removed.error().code() == Errc::kNotFound) return {};
  return removed;
}

void sweep_abandoned(const std::string& state_dir) {
  const auto dir = open_existing(kernels_dir(state_dir));
  if (!dir.ok()) return;
  for (const std::string& name : abandoned(dir.value().get())) {
    (void)remove_abandoned(dir.value().get(), name);
  }
}

}  // namespace sbx::kernel
