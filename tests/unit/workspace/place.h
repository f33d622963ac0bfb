// place: a temporary directory of layers, and short ways to fill and look at them.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/workspace/layer_store.h"

namespace sbx::workspace {

class Place {
 public:
  Place() : dir_(make()) {}

  int fd() const { return dir_.fd(); }
  const std::string& path() const { return dir_.path(); }

  /// A new empty layer.
  std::string layer() const {
    auto made = make_layer(fd());
    REQUIRE(made.ok());
    return made.value();
  }
  /// Where the root part of a layer is.
  std::string root(const std::string& id) const { return path() + "/" + id + "/fs/root"; }
  std::string at(const std::string& id, const std::string& name) const {
    return root(id) + "/" + name;
  }

 private:
  static fs::TempDir make() {
    auto made = fs::TempDir::create("/tmp", "sbx-layers-test-");
    REQUIRE(made.ok());
    return std::move(made).value();
  }

  fs::TempDir dir_;
};

inline void write_file(const std::string& path, std::string_view content, mode_t mode = 0644) {
  auto file = sys::open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
  REQUIRE(file.ok());
  REQUIRE(sys::write_all(file.value().get(), content).ok());
  REQUIRE(sys::fchmod(file.value().get(), mode).ok());
}
inline std::string read_text(const std::string& path) {
  auto content = fs::read_file(path, Bytes{std::uint64_t{1} << 30U});
  return content.ok() ? content.value() : "unreadable: " + content.error().message();
}
inline void make_dir(const std::string& path, mode_t mode = 0755) {
  REQUIRE(::mkdir(path.c_str(), 0700) == 0);
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}
inline void make_link(const std::string& target, const std::string& path) {
  REQUIRE(::symlink(target.c_str(), path.c_str()) == 0);
}
inline void make_whiteout(const std::string& path) {
  REQUIRE(::mknod(path.c_str(), S_IFCHR, makedev(0, 0)) == 0);
}
inline void make_opaque(const std::string& path) {
  REQUIRE(::setxattr(path.c_str(), "user.overlay.opaque", "y", 1, 0) == 0);
}
inline std::string attribute(const std::string& path, const char* name) {
  std::array<char, 256> value{};
  const ssize_t size = ::getxattr(path.c_str(), name, value.data(), value.size());
  return size < 0 ? "none" : std::string(value.data(), static_cast<std::size_t>(size));
}
inline bool exists(const std::string& path) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0;
}
inline struct stat stat_of(const std::string& path) {
  struct stat st {};
  REQUIRE(::lstat(path.c_str(), &st) == 0);
  return st;
}

}  // namespace sbx::workspace
