// VM file: see vm_file.h.
//
// Theory of operation
//  1. Under the exclusive lock the file is looked for again: of many who ask one makes it.
//  2. An empty temporary file is given to the storage root, whose job mounts the layers and runs
//     mkfs on them. The program sees ids as inside, and of the host only what root of those ids may
//     see. It writes through its descriptor: the way to the file is closed to it.
//  3. The file is taken back, flushed and renamed. What a killed command left is a ".tmp-".
#include "core/image/vm_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

#include "core/base/fs.h"
#include "core/base/process.h"
#include "core/base/scope_exit.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/budget.h"
#include "core/image/merged_mount.h"
#include "core/image/storage_job.h"
#include "core/image/tool.h"
#include "core/workspace/beneath.h"

namespace sbx::image {

namespace {

constexpr const char* kDir = "vm-files";
constexpr std::string_view kTemp = ".tmp-";
constexpr std::array<std::string_view, 2> kTypes{"erofs", "ext4"};
constexpr std::uint64_t kBlock = 4096;

/// "sha256:<hex>" without what stands before the digits.
std::string hex_of(const std::string& id) {
  return id.substr(id.find(':') + 1);
}

Result<UniqueFd> open_dir(const std::string& state_dir) {
  SBX_ASSIGN(const UniqueFd state, fs::open_dir(state_dir));
  if (Status made = sys::mkdirat(state.get(), kDir, 0700);
      !made.ok() && made.error().code() != Errc::kExists) {
    return std::move(made).error();
  }
  return sys::openat(state.get(), kDir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

/// Waits for it, or not (EWOULDBLOCK).
Result<UniqueFd> take_lock(int dir, int extra) {
  SBX_ASSIGN(UniqueFd lock, sys::openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  while (::flock(lock.get(), LOCK_EX | extra) != 0) {
    if (errno != EINTR) return sys_error("lock the files of images");
  }
  return lock;
}

Result<std::optional<VmFile>> find(int dir, const std::string& where, const std::string& name) {
  auto file = sys::openat(dir, name, O_RDONLY | O_NOFOLLOW);
  if (!file.ok() && file.error().sys_errno() == ENOENT) return std::optional<VmFile>();
  if (!file.ok()) return std::move(file).error();
  SBX_ASSIGN(const struct stat st, sys::fstat(file.value().get()));
  VmFile found;
  found.file = std::move(file).value();
  found.path = text::cat(where, "/", name);
  found.type = name.substr(name.rfind('.') + 1);
  found.bytes = static_cast<std::uint64_t>(st.st_size);
  return std::optional(std::move(found));
}

struct Maker {
  std::string type;
  std::string program;
};

Result<Maker> choose_maker(const std::string& type) {
  if (type.empty() || type == "erofs") {
    if (auto path = find_tool("mkfs.erofs")) return Maker{"erofs", *std::move(path)};
  }
  if (type.empty() || type == "ext4") {
    if (auto path = find_tool("mke2fs")) return Maker{"ext4", *std::move(path)};
  }
  return Error(Errc::kUnsupported,
               type == "ext4" ? "mke2fs is not installed" : "mkfs.erofs is not installed")
      .with_hint(type == "ext4" ? "as root: apt-get install e2fsprogs"
                                : "as root: apt-get install erofs-utils");
}

struct TreeSize {
  std::uint64_t bytes = 0;  ///< whole blocks
  std::uint64_t entries = 0;
};

/// Counts what an ext4 file system has to hold.
Result<TreeSize> measure(int root) {
  TreeSize size;
  workspace::DirCursor cursor(root);
  std::vector<std::string> pending{""};
  while (!pending.empty()) {
    const std::string path = std::move(pending.back());
    pending.pop_back();
    SBX_ASSIGN(const int dir, cursor.open(path));
    SBX_ASSIGN(const std::vector<std::string> names, workspace::read_names(dir));
    size.bytes += kBlock * (1 + names.size() / 16);
    for (const std::string& name : names) {
      SBX_ASSIGN(const struct stat st, sys::fstatat(dir, name, AT_SYMLINK_NOFOLLOW));
      ++size.entries;
      if (S_ISDIR(st.st_mode)) pending.push_back(workspace::join_path(path, name));
      const auto bytes = static_cast<std::uint64_t>(st.st_size);
      size.bytes += S_ISREG(st.st_mode) ? (bytes / kBlock + 2) * kBlock : kBlock;
    }
  }
  return size;
}

Result<std::vector<std::string>> command_of(const Maker& maker,
                                            const MergedMount& merged,
                                            const std::string& out,
                                            const std::string& id) {
  const std::string hex = hex_of(id);
  // A valid UUID (version 8) of the image's own, so that equal images give equal files.
  const std::string uuid = text::cat(hex.substr(0, 8),
                                     "-",
                                     hex.substr(8, 4),
                                     "-8",
                                     hex.substr(13, 3),
                                     "-a",
                                     hex.substr(17, 3),
                                     "-",
                                     hex.substr(20, 12));
  if (maker.type == "erofs") {
    return std::vector<std::string>{
        maker.program, "--quiet", "-zlz4", "--preserve-mtime", "-U", uuid, out, merged.path};
  }
  SBX_ASSIGN(const TreeSize size, measure(merged.root.get()));
  const std::uint64_t inodes = size.entries + size.entries / 16 + 64;
  const std::uint64_t bytes = size.bytes + size.bytes / 16 + inodes * 256 + (16U << 20U);
  return std::vector<std::string>{maker.program,
                                  "-q",
                                  "-F",
                                  "-t",
                                  "ext4",
                                  "-b",
                                  "4096",
                                  "-m",
                                  "0",
                                  "-O",
                                  "^has_journal",
                                  "-N",
                                  text::cat(inodes),
                                  "-U",
                                  uuid,
                                  "-E",
                                  "root_owner=0:0",
                                  "-d",
                                  merged.path,
                                  out,
                                  text::cat(bytes / 1024, "k")};
}

/// The last line that a program wrote.
std::string last_line(int fd) {
  constexpr Bytes kMost{1U << 20U};
  if (::lseek64(fd, 0, SEEK_SET) == -1) return {};
  const auto all = sys::read_all(fd, kMost);
  if (!all.ok()) return {};
  const std::vector<std::string_view> lines = text::split(text::trim(all.value()), '\n');
  return text::escape(lines.back());
}

/// In a storage job.
Result<std::string> make_in_job(const Maker& maker,
                                const SharedLayers& shared,
                                const Record& record,
                                int out) {
  SBX_ASSIGN(const MergedMount merged, mount_merged(shared));
  SBX_ASSIGN(const UniqueFd said, sys::memfd_create("mkfs"));
  // Its number must be one that spawn() can pass on as it is.
  SBX_ASSIGN(const UniqueFd file, sys::dup(out, 3));
  SpawnOptions options;
  SBX_ASSIGN(options.argv,
             command_of(maker, merged, text::cat("/proc/self/fd/", file.get()), record.id));
  options.env = std::vector<std::string>{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"};
  options.cwd = std::string("/");
  options.out = said.get();
  options.err = said.get();
  options.pass_fds = {file.get()};
  SBX_ASSIGN(ChildProcess child, spawn(options));
  SBX_ASSIGN(const int status, child.wait());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::string();
  return Error(Errc::kSystem, text::cat(maker.program, " failed: ", last_line(said.get())));
}

Status make(const Store& store, const Maker& maker, const Record& record, int dir, int out) {
  SBX_ASSIGN(const confine::StorageIds ids, confine::storage_ids());
  SBX_ASSIGN(const SharedLayers shared, share_layers(store, ids, record));
  const bool is_range = ids.kind == confine::StorageIds::Kind::kRange;
  if (is_range) {
    SBX_TRY(sys::fchown(out, ids.uids.front().outside, ids.gids.front().outside));
  }
  auto made = run_storage_job(
      ids, "make a file of the image", [&] { return make_in_job(maker, shared, record, out); });
  if (!made.ok()) return std::move(made).error();
  if (is_range) SBX_TRY(sys::fchown(out, ::geteuid(), ::getegid()));
  SBX_TRY(sys::fchmod(out, 0444));
  SBX_TRY(sys::fsync(out));
  return sys::fsync(dir);
}

}  // namespace

Result<VmFile> vm_file(const Store& store, const Opened& image, const std::string& type) {
  const std::string where = text::cat(store.state_dir(), "/", kDir);
  SBX_ASSIGN(const UniqueFd dir, open_dir(store.state_dir()));
  SBX_ASSIGN(const UniqueFd lock, take_lock(dir.get(), 0));
  const std::string hex = hex_of(image.record.id);
  for (const std::string_view each : kTypes) {
    if (!type.empty() && type != each) continue;
    SBX_ASSIGN(auto found, find(dir.get(), where, text::cat(hex, ".", each)));
    if (found.has_value()) return *std::move(found);
  }
  SBX_ASSIGN(const Maker maker, choose_maker(type));
  // At most: erofs is compressed, and what a layer hides is not in it.
  std::uint64_t most = 0;
  for (const LayerRef& layer : image.record.layers) {
    most += layer.bytes;
  }
  SBX_TRY(check_budget(store.state_dir(), Bytes{most}));
  const std::string temp = text::cat(kTemp, fs::random_name(12));
  SBX_ASSIGN(const UniqueFd out,
             sys::openat(dir.get(), temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  ScopeExit undo([&] { static_cast<void>(sys::unlinkat(dir.get(), temp)); });
  SBX_TRY(make(store, maker, image.record, dir.get(), out.get()));
  const std::string name = text::cat(hex, ".", maker.type);
  SBX_TRY(sys::renameat(dir.get(), temp, dir.get(), name));
  undo.cancel();
  SBX_TRY(sys::fsync(dir.get()));
  SBX_ASSIGN(auto made, find(dir.get(), where, name));
  if (!made.has_value()) return Error(Errc::kInternal, text::cat(name, " has vanished"));
  made->is_new = true;
  return *std::move(made);
}

namespace {

/// `lock` is held.
Result<std::vector<StaleVmFile>> stale_in(const Store& store, int dir) {
  std::vector<std::string> problems;
  SBX_ASSIGN(const std::vector<Record> records, store.list(problems));
  std::set<std::string> used;
  for (const Record& record : records) {
    used.insert(hex_of(record.id));
  }
  for (const std::string& problem : problems) {
    if (!problem.empty()) return Error(Errc::kProtocol, problem);
  }
  SBX_ASSIGN(const std::vector<std::string> names, workspace::read_names(dir));
  std::vector<StaleVmFile> stale;
  for (const std::string& name : names) {
    if (name == "lock" || used.contains(name.substr(0, name.find('.')))) continue;
    const auto st = sys::fstatat(dir, name, AT_SYMLINK_NOFOLLOW);
    if (!st.ok()) continue;
    stale.push_back({name, static_cast<std::uint64_t>(st.value().st_blocks) * 512});
  }
  return stale;
}

/// Without making the directory; nullopt when it is not there or in use.
Result<std::optional<std::pair<UniqueFd, UniqueFd>>> open_locked(const Store& store) {
  using Pair = std::pair<UniqueFd, UniqueFd>;
  auto dir = fs::open_dir(text::cat(store.state_dir(), "/", kDir));
  if (!dir.ok() && dir.error().code() == Errc::kNotFound) return std::optional<Pair>();
  if (!dir.ok()) return std::move(dir).error();
  auto lock = take_lock(dir.value().get(), LOCK_NB);
  if (!lock.ok() && lock.error().sys_errno() == EWOULDBLOCK) return std::optional<Pair>();
  if (!lock.ok()) return std::move(lock).error();
  return std::optional<Pair>(std::in_place, std::move(dir).value(), std::move(lock).value());
}

}  // namespace

Result<std::vector<StaleVmFile>> stale_vm_files(const Store& store) {
  SBX_ASSIGN(const auto opened, open_locked(store));
  if (!opened.has_value()) return std::vector<StaleVmFile>();
  return stale_in(store, opened->first.get());
}

Result<std::uint64_t> sweep_vm_files(const Store& store) {
  SBX_ASSIGN(const auto opened, open_locked(store));
  if (!opened.has_value()) return std::uint64_t{0};
  SBX_ASSIGN(const std::vector<StaleVmFile> stale, stale_in(store, opened->first.get()));
  std::uint64_t freed = 0;
  for (const StaleVmFile& each : stale) {
    SBX_TRY(sys::unlinkat(opened->first.get(), each.name));
    freed += each.bytes;
  }
  return freed;
}

std::uint64_t vm_files_use(const std::string& state_dir) {
  const auto dir = fs::open_dir(text::cat(state_dir, "/", kDir));
  if (!dir.ok()) return 0;
  const auto names = workspace::read_names(dir.value().get());
  std::uint64_t bytes = 0;
  for (const std::string& name : names.ok() ? names.value() : std::vector<std::string>()) {
    const auto st = sys::fstatat(dir.value().get(), name, AT_SYMLINK_NOFOLLOW);
    if (st.ok()) bytes += static_cast<std::uint64_t>(st.value().st_blocks) * 512;
  }
  return bytes;
}

}  // namespace sbx::image
