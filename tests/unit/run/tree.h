// tree: a temporary directory with files, as a stand-in for a job's /work.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/run/artifacts.h"

namespace sbx::run {

class Tree {
 public:
  Tree() : dir_(make()) {}

  const std::string& path() const { return dir_.path(); }
  std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
  int fd() const { return dir_.fd(); }

  void write(const std::string& name, std::string_view content, mode_t mode = 0644) const {
    auto file = sys::openat(fd(), name, O_WRONLY | O_CREAT | O_TRUNC, mode);
    REQUIRE(file.ok());
    REQUIRE(sys::write_all(file.value().get(), content).ok());
    REQUIRE(sys::fchmod(file.value().get(), mode).ok());
  }
  void mkdir(const std::string& name, mode_t mode = 0755) const {
    REQUIRE(sys::mkdirat(fd(), name, mode).ok());
  }
  std::string read(const std::string& name) const {
    auto content = fs::read_file(at(name), Bytes{std::uint64_t{1} << 30U});
    return content.ok() ? content.value() : "unreadable: " + content.error().message();
  }
  bool exists(const std::string& name) const {
    return sys::fstatat(fd(), name, AT_SYMLINK_NOFOLLOW).ok();
  }
  struct stat stat(const std::string& name) const {
    auto st = sys::fstatat(fd(), name, AT_SYMLINK_NOFOLLOW);
    REQUIRE(st.ok());
    return st.value();
  }

 private:
  static fs::TempDir make() {
    auto made = fs::TempDir::create("/tmp", "sbx-run-test-");
    REQUIRE(made.ok());
    return std::move(made).value();
  }

  fs::TempDir dir_;
};

/// The item of that path; one of path "none" when there is no such item.
inline Artifact find_item(const ArtifactList& list, const std::string& path) {
  for (const Artifact& item : list.items) {
    if (item.path == path) return item;
  }
  Artifact none;
  none.path = "none";
  return none;
}

}  // namespace sbx::run
