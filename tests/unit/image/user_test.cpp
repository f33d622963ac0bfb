// Tests of the user of an image: files found through layers, links that lead nowhere else, names
// and numbers.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/image/store.h"

using namespace sbx;
using namespace sbx::image;

namespace {

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/bin/sh\n"
    "web:x:33:33::/srv/web:/bin/false\n"
    "7:x:77:78::/seven:/bin/sh\n"
    "far:x:70000:70000::/far:/bin/sh\n"
    "rubbish\n";
constexpr std::string_view kGroup =
    "root:x:0:\nadm:x:4:web, root\nwww:x:33:\ndev:x:50:web\nall:x:33:web\nfar:x:70000:web\n";

class Layers {
 public:
  Layers() : dir_(make()) {}
  int fd() const { return dir_.fd(); }
  /// A new layer on top.
  void add() {
    ids.push_back(image_layer_id(std::to_string(ids.size())));
    REQUIRE(fs::mkdirs(top(), 0755).ok());
  }
  std::string top() const { return dir_.path() + "/" + ids.back() + "/fs/root"; }
  void dir(const std::string& name) const { REQUIRE(fs::mkdirs(top() + "/" + name, 0755).ok()); }
  void file(const std::string& name, std::string_view content) const {
    auto made = sys::open(top() + "/" + name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    REQUIRE(made.ok());
    REQUIRE(sys::write_all(made.value().get(), content).ok());
  }
  void link(const std::string& target, const std::string& name) const {
    REQUIRE(::symlink(target.c_str(), (top() + "/" + name).c_str()) == 0);
  }
  void whiteout(const std::string& name) const {
    REQUIRE(::mknod((top() + "/" + name).c_str(), S_IFCHR, makedev(0, 0)) == 0);
  }
  void opaque(const std::string& name) const {
    REQUIRE(::setxattr((top() + "/" + name).c_str(), "user.overlay.opaque", "y", 1, 0) == 0);
  }
  Result<ImageUser> find(std::string_view user) const { return find_user(fd(), ids, user); }

  std::vector<std::string> ids;

 private:
  static fs::TempDir make() {
    // Not on a tmpfs: that may hold no user attributes.
    auto made = fs::TempDir::create("/var/tmp", "sbx-image-user-test-");
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  fs::TempDir dir_;
};

Layers usual() {
  Layers layers;
  layers.add();
  layers.dir("etc");
  layers.file("etc/passwd", kPasswd);
  layers.file("etc/group", kGroup);
  return layers;
}

}  // namespace

TEST_CASE("image user: names and numbers mean what they mean to other container tools") {
  const Layers layers = usual();
  struct Row {
    std::string_view user;
    std::uint32_t uid;
    std::uint32_t gid;
    std::string_view home;
    std::vector<std::uint32_t> groups;
  };
  const std::vector<Row> rows{
      {"", 0, 0, "/root", {4}},
      {"root", 0, 0, "/root", {4}},
      {"0", 0, 0, "/root", {4}},
      {"web", 33, 33, "/srv/web", {4, 50}},
      {"33", 33, 33, "/srv/web", {4, 50}},
      {"web:dev", 33, 50, "/srv/web", {}},
      {"web:", 33, 33, "/srv/web", {4, 50}},
      {"web:12345", 33, 12345, "/srv/web", {}},
      {":www", 0, 33, "/root", {}},
      {"1234", 1234, 0, "/", {}},
      {"1234:www", 1234, 33, "/", {}},
      {"7", 77, 78, "/seven", {}},  // a name, though it looks like a number
      {"65535:65535", 65535, 65535, "/", {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.user);
    const auto found = layers.find(row.user);
    REQUIRE(found.ok());
    CHECK(found.value().uid == row.uid);
    CHECK(found.value().gid == row.gid);
    CHECK(found.value().home == row.home);
    CHECK(found.value().groups == row.groups);
  }
}

TEST_CASE("image user: who is not there, or beyond the ids of an image, is refused") {
  const Layers layers = usual();
  for (const std::string_view user : {"nobody", "web:nogroup", "-1", "+5", "0x10", "99999999999"}) {
    CAPTURE(user);
    const auto found = layers.find(user);
    REQUIRE(!found.ok());
    CHECK(found.error().code() == Errc::kNotFound);
  }
  for (const std::string_view user : {"far", "65536", "web:70000", "4294967295"}) {
    CAPTURE(user);
    const auto found = layers.find(user);
    REQUIRE(!found.ok());
    CHECK(found.error().code() == Errc::kUnsupported);
  }
}

TEST_CASE("image user: an image without files of users has numbers only") {
  Layers layers;
  layers.add();
  CHECK(layers.find("").value().home == "/");
  CHECK(layers.find("5:6").value().gid == 6);
  CHECK(!layers.find("root").ok());
}

TEST_CASE("image user: the highest layer that knows the file decides") {
  Layers layers = usual();
  layers.add();  // knows nothing of it
  CHECK(layers.find("web").ok());
  layers.add();
  layers.dir("etc");
  layers.file("etc/passwd", "web:x:5:5::/five:/bin/sh\n");
  CHECK(layers.find("web").value().uid == 5);
  CHECK(layers.find("web:www").value().gid == 33);  // the groups are still those below
  layers.add();
  layers.dir("etc");
  layers.whiteout("etc/passwd");
  CHECK(!layers.find("web").ok());
}

TEST_CASE("image user: an opaque directory, and a file over a directory, hide what is below") {
  Layers layers = usual();
  layers.add();
  layers.dir("etc");
  layers.opaque("etc");
  CHECK(!layers.find("web").ok());

  Layers other = usual();
  other.add();
  other.file("etc", "");
  CHECK(!other.find("web").ok());

  Layers third = usual();
  third.add();
  third.whiteout("etc");
  CHECK(!third.find("web").ok());
}

TEST_CASE("image user: links lead to other places of the image, and never out of it") {
  Layers layers;
  layers.add();
  layers.dir("usr/share/etc");
  layers.file("usr/share/etc/passwd", kPasswd);
  layers.link("/usr/share/etc", "etc");
  layers.add();
  layers.dir("usr/share/etc");
  layers.file("usr/share/etc/real", kGroup);
  layers.link("../../../../../../usr/./share/etc/real", "usr/share/etc/group");
  CHECK(layers.find("web:dev").value().gid == 50);

  for (const char* target : {"/etc/passwd",
                             "../../../../../../../../etc/passwd",
                             "passwd",
                             "/proc/self/root/etc/passwd",
                             "/dev/zero",
                             "/",
                             "."}) {
    CAPTURE(target);
    Layers hostile;
    hostile.add();
    hostile.dir("etc");
    hostile.link(target, "etc/passwd");
    const auto found = hostile.find("daemon");  // every host has one
    REQUIRE(!found.ok());
  }
}

TEST_CASE("image user: what is no regular file is not opened, what is too long is refused") {
  Layers fifo;
  fifo.add();
  fifo.dir("etc");
  REQUIRE(::mkfifo((fifo.top() + "/etc/passwd").c_str(), 0644) == 0);
  CHECK(!fifo.find("root").ok());

  Layers big;
  big.add();
  big.dir("etc");
  big.file("etc/passwd", "");
  REQUIRE(::truncate((big.top() + "/etc/passwd").c_str(), off_t{1} << 40) == 0);
  const auto found = big.find("root");
  REQUIRE(!found.ok());
  CHECK(found.error().code() == Errc::kLimit);
}
