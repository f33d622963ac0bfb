// Content: see content.h.
#include "core/build/content.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/beneath.h"

namespace sbx::build {

namespace {

constexpr std::uint64_t kMostFiles = 1'000'000;
constexpr std::size_t kBlock = std::size_t{256} << 10U;

class Digest {
 public:
  Status add_file(int fd) {
    std::vector<std::byte> block(kBlock);
    while (true) {
      SBX_ASSIGN(const std::size_t size, sys::read(fd, std::span<std::byte>(block)));
      if (size == 0) return {};
      hash_.update(std::span<const std::byte>(block).first(size));
    }
  }

  /// A field, told apart from its neighbours by its length.
  void add(std::string_view field) {
    hash_.update(text::cat(field.size(), ":"));
    hash_.update(field);
  }

  void add_mode(const struct stat& st) {
    add(text::cat(
        st.st_mode & S_IFMT, " ", st.st_mode & 07777U, " ", S_ISREG(st.st_mode) ? st.st_size : 0));
  }

  Status add_entry(int dir, const std::string& name, const struct stat& st) {
    add_mode(st);
    if (S_ISLNK(st.st_mode)) {
      SBX_ASSIGN(const std::string target, sys::readlinkat(dir, name));
      add(target);
    }
    if (!S_ISREG(st.st_mode)) return {};
    SBX_ASSIGN(const UniqueFd file, workspace::open_regular(dir, name));
    return add_file(file.get());
  }

  std::string hex() { return hash_.hex(); }

 private:
  Sha256 hash_;
};

Status add_tree(Digest& digest, int top) {
  workspace::DirCursor cursor(top);
  std::vector<std::string> pending{""};
  std::uint64_t files = 0;
  while (!pending.empty()) {
    const std::string path = std::move(pending.back());
    pending.pop_back();
    SBX_ASSIGN(const int dir, cursor.open(path));
    SBX_ASSIGN(std::vector<std::string> names, workspace::read_names(dir));
    std::sort(names.begin(), names.end());
    files += names.size();
    if (files > kMostFiles) {
      return Error(Errc::kLimit, text::cat("more than ", kMostFiles, " files to copy"));
    }
    digest.add(path);
    for (const std::string& name : names) {
      SBX_ASSIGN(const struct stat st, sys::fstatat(dir, name, AT_SYMLINK_NOFOLLOW));
      digest.add(name);
      SBX_TRY(digest.add_entry(dir, name, st));
      if (S_ISDIR(st.st_mode)) pending.push_back(workspace::join_path(path, name));
    }
  }
  return {};
}

}  // namespace

Result<std::string> content_digest(int base, const std::string& path) {
  constexpr std::uint64_t kInside = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  auto found = sys::openat2(base, path, O_PATH, 0, kInside);
  if (!found.ok()) return std::move(found).error().prefixed(text::escape(path));
  SBX_ASSIGN(const struct stat st, sys::fstat(found.value().get()));
  Digest digest;
  digest.add_mode(st);
  if (S_ISDIR(st.st_mode)) {
    SBX_TRY(add_tree(digest, found.value().get()));
  } else if (S_ISREG(st.st_mode)) {
    SBX_ASSIGN(const UniqueFd file, sys::openat2(base, path, O_RDONLY | O_NONBLOCK, 0, kInside));
    SBX_TRY(digest.add_file(file.get()));
  } else {
    return Error(Errc::kUsage, text::cat(text::escape(path), " is neither a file nor a directory"));
  }
  return digest.hex();
}

}  // namespace sbx::build
