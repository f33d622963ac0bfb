// Input copy: a plain recursive copy, as a list of work instead of a recursion.
//
// The job's file system belongs to its user namespace, which knows only the job's own ids: a file
// of another owner cannot even be made there (EOVERFLOW). So sources are opened as ourselves, and
// targets are made with the file system id of the owner of /work.
#include "core/run/input_copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::run {

namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20U;
constexpr mode_t kNewDirectory = 0755;
constexpr mode_t kDoneDirectory = 0555;

/// Makes files as another user as long as it lives. Only root can; for others it changes nothing.
class AsOwner {
 public:
  explicit AsOwner(const struct stat& owner)
      : gid_(static_cast<gid_t>(::setfsgid(owner.st_gid))),
        uid_(static_cast<uid_t>(::setfsuid(owner.st_uid))) {}
  ~AsOwner() {
    ::setfsuid(uid_);
    ::setfsgid(gid_);
  }
  AsOwner(const AsOwner&) = delete;
  AsOwner& operator=(const AsOwner&) = delete;

 private:
  gid_t gid_;
  uid_t uid_;
};

struct DirCloser {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

class Copier {
 public:
  explicit Copier(const struct stat& owner) : owner_(owner) {}

  Status copy(const backend::InputMount& input, int work_dir) {
    SBX_ASSIGN(const UniqueFd from, sys::open(input.host_path, O_RDONLY | O_NOCTTY | O_NONBLOCK));
    if (!input.is_dir) return file(from.get(), work_dir, input.name);
    SBX_TRY(make_directory(work_dir, input.name));
    SBX_ASSIGN(const UniqueFd to,
               sys::openat(work_dir, input.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    // Directories are found again by their path from the top: any width and depth needs four
    // descriptors.
    std::vector<std::string> done;
    todo_.emplace_back(".");
    while (!todo_.empty()) {
      std::string path = std::move(todo_.back());
      todo_.pop_back();
      SBX_TRY(entries(from.get(), to.get(), path));
      done.push_back(std::move(path));
    }
    for (const std::string& path : done) {
      SBX_ASSIGN(const UniqueFd dir, open_below(to.get(), path));
      SBX_TRY(sys::fchmod(dir.get(), kDoneDirectory));
    }
    return {};
  }

 private:
  Status file(int from, int to_dir, const std::string& name) {
    SBX_ASSIGN(const struct stat st, sys::fstat(from));
    if (!S_ISREG(st.st_mode)) return {};
    UniqueFd to;
    {
      const AsOwner as(owner_);
      SBX_ASSIGN(to, sys::openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, S_IRUSR));
    }
    std::uint64_t at = 0;
    auto size = static_cast<std::uint64_t>(st.st_size);
    for (;;) {
      const off_t data = ::lseek(from, static_cast<off_t>(at), SEEK_DATA);
      if (data < 0 && errno == ENXIO) break;  // the rest is a hole
      if (data > 0 && ::lseek(to.get(), data, SEEK_SET) < 0) return sys_error("seek in a copy");
      const off_t hole = data < 0 ? -1 : ::lseek(from, data, SEEK_HOLE);
      const std::uint64_t end = hole < 0 ? size : static_cast<std::uint64_t>(hole);
      at = data < 0 ? at : static_cast<std::uint64_t>(data);
      if (at >= end) break;
      SBX_ASSIGN(at, stretch(from, to.get(), at, end));
      if (at < end) {  // became shorter meanwhile, or never was as long (/sys)
        size = at;
        break;
      }
    }
    SBX_TRY(sys::ftruncate(to.get(), Bytes{size}));
    const timespec times[2] = {st.st_atim, st.st_mtim};
    static_cast<void>(::futimens(to.get(), times));
    return sys::fchmod(to.get(), 0444U | (st.st_mode & 0111U));
  }

  /// Copies [at, end) as far as it is there; where it came to.
  static Result<std::uint64_t> stretch(int from, int to, std::uint64_t at, std::uint64_t end) {
    auto offset = static_cast<off_t>(at);
    while (static_cast<std::uint64_t>(offset) < end) {
      const std::size_t want =
          std::min<std::uint64_t>(kChunk, end - static_cast<std::uint64_t>(offset));
      const ssize_t n = ::sendfile(to, from, &offset, want);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EINVAL) return read_stretch(from, to, offset, end);
      if (n < 0) return sys_error("copy the content");
      if (n == 0) break;
    }
    return static_cast<std::uint64_t>(offset);
  }

  /// The same for files of /proc, /sys and others that the kernel cannot send.
  static Result<std::uint64_t> read_stretch(int from, int to, off_t offset, std::uint64_t end) {
    std::string buffer(std::size_t{64} << 10U, '\0');
    while (static_cast<std::uint64_t>(offset) < end) {
      const ssize_t n = ::pread(from, buffer.data(), buffer.size(), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return sys_error("read the content");
      if (n == 0) break;
      SBX_TRY(sys::write_all(to, std::string_view(buffer).substr(0, static_cast<std::size_t>(n))));
      offset += n;
    }
    return std::min(static_cast<std::uint64_t>(offset), end);
  }

  static Result<UniqueFd> open_below(int dirfd, const std::string& path) {
    return sys::openat2(
        dirfd, path, O_RDONLY | O_DIRECTORY, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
  }

  Status make_directory(int to_dir, const std::string& name) {
    const AsOwner as(owner_);
    return sys::mkdirat(to_dir, name, kNewDirectory);
  }

  Status entries(int from_top, int to_top, const std::string& path) {
    SBX_ASSIGN(UniqueFd from, open_below(from_top, path));
    SBX_ASSIGN(const UniqueFd to, open_below(to_top, path));
    const int from_fd = from.get();
    const std::unique_ptr<DIR, DirCloser> stream(::fdopendir(from_fd));
    if (!stream) return sys_error(text::cat("read directory ", path));
    static_cast<void>(from.release());
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string name(static_cast<const char*>(entry->d_name));
      if (name == "." || name == "..") continue;
      SBX_TRY(one_entry(from_fd, to.get(), name, path));
    }
    return {};
  }

  Status one_entry(int from_dir, int to_dir, const std::string& name, const std::string& path) {
    SBX_ASSIGN(const struct stat st, sys::fstatat(from_dir, name, AT_SYMLINK_NOFOLLOW));
    if (S_ISLNK(st.st_mode)) {
      SBX_ASSIGN(const std::string target, sys::readlinkat(from_dir, name));
      const AsOwner as(owner_);
      return sys::symlinkat(target, to_dir, name);
    }
    if (S_ISDIR(st.st_mode)) {
      todo_.push_back(text::cat(path, '/', name));
      return make_directory(to_dir, name);
    }
    if (!S_ISREG(st.st_mode)) return {};
    SBX_ASSIGN(const UniqueFd from,
               sys::openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK));
    Status copied = file(from.get(), to_dir, name);
    if (copied.ok()) return copied;
    return std::move(copied).error().prefixed(text::cat(path, '/', name));
  }

  const struct stat& owner_;
  std::vector<std::string> todo_;
};

}  // namespace

Status copy_inputs(int work_dir, std::span<const backend::InputMount> inputs) {
  SBX_ASSIGN(const struct stat owner, sys::fstat(work_dir));
  for (const backend::InputMount& input : inputs) {
    Status copied = Copier(owner).copy(input, work_dir);
    if (!copied.ok()) {
      return std::move(copied).error().prefixed(text::cat("copy input ", input.host_path));
    }
  }
  return {};
}

}  // namespace sbx::run
