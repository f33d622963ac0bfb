// copy_support: a temporary directory with files to copy, and a copy through a stream in memory.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/archive/pack.h"
#include "core/archive/tar_entry.h"
#include "core/archive/unpack.h"
#include "core/base/fs.h"
#include "core/base/unique_fd.h"

namespace sbx::archive::test {

/// A directory of the test's own with short ways to make and look at files; paths are below it.
class Tree {
 public:
  Tree();
  std::string path(std::string_view name = {}) const;
  void dir(std::string_view name, mode_t mode = 0755) const;
  void file(std::string_view name, std::string_view content, mode_t mode = 0644) const;
  void link(std::string_view name, const std::string& target) const;
  void hard_link(std::string_view name, std::string_view target) const;
  void fifo(std::string_view name) const;
  /// All of it; "" where there is no plain file.
  std::string content(std::string_view name) const;
  std::string link_text(std::string_view name) const;
  struct stat info(std::string_view name) const;
  bool exists(std::string_view name) const;
  /// With everything below it.
  void remove(const std::string& name) const;
  /// Names directly in it, sorted, joined with spaces.
  std::string names(std::string_view dir_name = {}) const;

 private:
  fs::TempDir dir_;
};

/// What both ends said.
struct Copied {
  Status packed;
  Status unpacked;
  TransferReport from;
  TransferReport to;
  std::uint64_t stream_bytes = 0;
  std::string show() const;
};

/// `cp from to` as the program does it, with names worked out from the words.
Copied copy(const std::string& from, const std::string& to, bool is_resuming = false);

/// An anonymous file at its begin with these bytes.
UniqueFd memory_file(std::string_view content);
std::string all_of(int fd);

/// A stream made of members that no packing end would write.
class HostileStream {
 public:
  HostileStream();
  HostileStream& dir(const std::string& path);
  HostileStream& file(const std::string& path, const std::string& content);
  HostileStream& symlink(const std::string& path, const std::string& target);
  HostileStream& hard_link(const std::string& path, const std::string& target);
  HostileStream& add(const TarEntry& entry, const std::string& content = {});
  /// The stream from its begin, with its end mark.
  int end();

 private:
  UniqueFd fd_;
};

/// Unpacks a stream as the copy of a tree named `root_name` to `to`.
Status unpack_one(int stream, const std::string& to, const std::string& root_name);
Status unpack_any(int stream, const std::string& to);

}  // namespace sbx::archive::test
