// Disk file: see disk_file.h.
#include "core/backend/vm/disk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "core/base/fs.h"
#include "core/base/process.h"
#include "core/base/scope_exit.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/tool.h"
#include "core/workspace/copy_file.h"

namespace sbx::vm {

namespace {

constexpr mode_t kOwnDir = 0700;
constexpr mode_t kOwnFile = 0600;
constexpr std::size_t kNameLength = 8;

std::string place(const std::string& state_dir) {
  return state_dir + "/vm/disks";
}

Status format(const std::string& path, DiskKind kind) {
  const auto maker = image::find_tool("mkfs.ext4");
  if (!maker.has_value()) {
    return Error(Errc::kUnsupported, "mkfs.ext4 is missing, which makes disks of virtual machines")
        .with_hint("as root: apt-get install e2fsprogs");
  }
  SpawnOptions options;
  options.argv = {*maker,
                  "-q",
                  "-F",
                  "-m",
                  "0",
                  "-O",
                  kind == DiskKind::kScratch ? "^has_journal,^resize_inode" : "^resize_inode",
                  "-E",
                  "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0"};
  if (kind == DiskKind::kKept) options.argv.insert(options.argv.end(), {"-J", "size=16"});
  options.argv.push_back(path);
  options.env = std::vector<std::string>{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  SBX_ASSIGN(ChildProcess child, spawn(options));
  SBX_ASSIGN(const int status, child.wait());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Error(Errc::kSystem, text::cat(*maker, " failed with wait status ", status));
}

/// The formatted one of that size, made when it is not there.
Result<UniqueFd> pristine(const std::string& state_dir, Bytes size, DiskKind kind) {
  SBX_TRY(fs::mkdirs(place(state_dir), kOwnDir));
  SBX_ASSIGN(const UniqueFd dir, fs::open_dir(place(state_dir)));
  const std::string name = text::cat(size.v, kind == DiskKind::kScratch ? ".scratch" : ".kept");
  if (auto found = sys::openat(dir.get(), name, O_RDONLY | O_NOFOLLOW); found.ok()) return found;
  const std::string partial = text::cat(".tmp-", fs::random_name(kNameLength));
  SBX_ASSIGN(UniqueFd file,
             sys::openat(dir.get(), partial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, kOwnFile));
  ScopeExit undo([&] { (void)sys::unlinkat(dir.get(), partial); });
  SBX_TRY(sys::ftruncate(file.get(), size));
  SBX_TRY(format(text::cat(place(state_dir), "/", partial), kind));
  SBX_TRY(sys::fsync(file.get()));
  SBX_TRY(sys::renameat(dir.get(), partial, dir.get(), name));
  undo.cancel();
  return file;
}

Status copy_into(int from, int to, Bytes size) {
  workspace::Reflink reflink = workspace::Reflink::kTry;
  SBX_TRY(workspace::copy_content(from, to, size.v, reflink));
  return sys::ftruncate(to, size);
}

}  // namespace

Result<UniqueFd> fresh_disk(const std::string& state_dir, Bytes size, DiskKind kind) {
  SBX_ASSIGN(const UniqueFd from, pristine(state_dir, size, kind));
  SBX_ASSIGN(UniqueFd file, sys::open(place(state_dir), O_RDWR | O_TMPFILE, kOwnFile));
  SBX_TRY(copy_into(from.get(), file.get(), size));
  return file;
}

Status make_disk(const std::string& state_dir, const std::string& path, Bytes size) {
  if (sys::fstatat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW).ok()) return {};
  SBX_ASSIGN(const UniqueFd from, pristine(state_dir, size, DiskKind::kKept));
  const std::string partial = text::cat(path, ".tmp-", fs::random_name(kNameLength));
  SBX_ASSIGN(const UniqueFd file,
             sys::open(partial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, kOwnFile));
  ScopeExit undo([&] { (void)sys::unlinkat(AT_FDCWD, partial); });
  SBX_TRY(copy_into(from.get(), file.get(), size));
  SBX_TRY(sys::fsync(file.get()));
  SBX_TRY(sys::renameat(AT_FDCWD, partial, AT_FDCWD, path));
  undo.cancel();
  return {};
}

}  // namespace sbx::vm
