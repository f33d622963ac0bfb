// Disk: see disk.h.
#include "core/session/disk.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/scope_exit.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/beneath.h"
#include "core/workspace/copy_file.h"

namespace sbx::session {

namespace {

constexpr mode_t kOwnFile = 0600;
constexpr std::size_t kNameLength = 8;

}  // namespace

Result<DiskCopy> copy_disk(int from_dir, const std::string& file, int to_dir) {
  SBX_ASSIGN(const UniqueFd in, sys::openat(from_dir, file, O_RDONLY | O_NOFOLLOW));
  SBX_ASSIGN(const struct stat info, sys::fstat(in.get()));
  DiskCopy made;
  made.file = text::cat("disk-", fs::random_name(kNameLength));
  SBX_ASSIGN(const UniqueFd out,
             sys::openat(to_dir, made.file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, kOwnFile));
  ScopeExit undo([&] { (void)sys::unlinkat(to_dir, made.file); });
  workspace::Reflink reflink = workspace::Reflink::kTry;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  SBX_ASSIGN(const workspace::ContentCopy copied,
             workspace::copy_content(in.get(), out.get(), size, reflink));
  made.reflinked = copied.reflinked;
  SBX_TRY(sys::ftruncate(out.get(), Bytes{size}));  // a hole at its end
  SBX_TRY(sys::fsync(out.get()));
  SBX_TRY(sys::fsync(to_dir));
  undo.cancel();
  return made;
}

void sweep_disks(int dir, const Record& record) {
  if (!record.disk.has_value()) return;
  const auto again = sys::openat(dir, ".", O_RDONLY | O_DIRECTORY);
  if (!again.ok()) return;
  const auto names = workspace::read_names(again.value().get());
  if (!names.ok()) return;
  for (const std::string& name : names.value()) {
    const bool is_used = name == record.disk->file ||
                         std::ranges::any_of(record.checkpoints, [&name](const Checkpoint& each) {
                           return each.disk == name;
                         });
    if (is_disk_file(name) && !is_used) (void)sys::unlinkat(dir, name);
  }
}

}  // namespace sbx::session
