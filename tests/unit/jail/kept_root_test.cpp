// Kept root tests: the directory is made as a plain user makes one; no mount is needed.
#include "core/backend/jail/kept_root.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "core/backend/jail/base_plan.h"
#include "core/base/fs.h"
#include "core/base/sys.h"

using namespace sbx;

namespace {

std::vector<confine::Step> objects(const std::string& text) {
  return {confine::MakeDir{"/etc", 0755, confine::kKeepOwner},
          confine::MakeFile{"/etc/text", text, 0444},
          confine::MakeFile{"/etc/empty", {}, 0444},
          confine::MakeLink{"/lib", "usr/lib"}};
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode : 0;
}

class Parent {
 public:
  Parent() : dir_(fs::TempDir::create("/tmp", "sbx-unit-roots-")) { REQUIRE(dir_.ok()); }
  std::string path() const { return dir_.value().path() + "/roots"; }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      out.push_back(entry.path().filename().string());
    }
    return out;
  }

 private:
  Result<fs::TempDir> dir_;
};

}  // namespace

TEST_CASE("kept root: it holds exactly what the steps say, whatever the umask is") {
  const Parent parent;
  const mode_t before = ::umask(0777);
  const auto root = jail::open_kept_root(parent.path(), objects("hello"));
  ::umask(before);
  REQUIRE_MESSAGE(root.ok(), (root.ok() ? "" : root.error().to_string()));
  const std::string& path = root.value().path;
  CHECK(mode_of(path) == (S_IFDIR | 0755U));
  CHECK(mode_of(path + "/etc") == (S_IFDIR | 0755U));
  CHECK(mode_of(path + "/etc/empty") == (S_IFREG | 0444U));
  CHECK(fs::read_file(path + "/etc/text", Bytes{100}).value() == "hello");
  CHECK(sys::readlinkat(AT_FDCWD, path + "/lib").value() == "usr/lib");
  CHECK(parent.names().size() == 1);
}

TEST_CASE("kept root: equal content is made once, other content beside it") {
  const Parent parent;
  const auto first = jail::open_kept_root(parent.path(), objects("a"));
  const auto again = jail::open_kept_root(parent.path(), objects("a"));
  const auto other = jail::open_kept_root(parent.path(), objects("b"));
  REQUIRE(first.ok());
  REQUIRE(again.ok());
  REQUIRE(other.ok());
  CHECK(first.value().path == again.value().path);
  CHECK(sys::fstat(first.value().held.get()).value().st_ino ==
        sys::fstat(again.value().held.get()).value().st_ino);
  CHECK(first.value().path != other.value().path);
  CHECK(parent.names().size() == 2);
}

TEST_CASE("kept root: whoever has one holds a lock on it, so that nobody removes it") {
  const Parent parent;
  auto root = jail::open_kept_root(parent.path(), objects("a"));
  REQUIRE(root.ok());
  const UniqueFd other = sys::open(root.value().path, O_RDONLY | O_DIRECTORY).value();
  CHECK(::flock(other.get(), LOCK_EX | LOCK_NB) == -1);
  root.value().held.reset();
  CHECK(::flock(other.get(), LOCK_EX | LOCK_NB) == 0);
  // Being removed: not for us.
  CHECK_FALSE(jail::open_kept_root(parent.path(), objects("a")).ok());
}

TEST_CASE("kept root: one that somebody else planted is refused") {
  if (::geteuid() != 0) {
    MESSAGE("only root can give a file away; as a user the directory above is ours alone");
    return;
  }
  const Parent parent;
  std::string path;
  {
    const auto root = jail::open_kept_root(parent.path(), objects("a"));
    REQUIRE(root.ok());
    path = root.value().path;
  }
  REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
  const auto planted = jail::open_kept_root(parent.path(), objects("a"));
  REQUIRE_FALSE(planted.ok());
  CHECK(planted.error().code() == Errc::kDenied);
}

TEST_CASE("kept root: a step that is no object is a mistake, and nothing is left of it") {
  const Parent parent;
  CHECK_FALSE(
      jail::open_kept_root(parent.path(), std::vector<confine::Step>{confine::Loopback{}}).ok());
  CHECK(parent.names().empty());
}

TEST_CASE("kept root: the base splits into objects and mounts, and every mount has its place") {
  jail::HostTree tree;
  tree.top = {{"/usr", jail::EntryKind::kDir, {}, false}};
  tree.etc = {{"/etc/fonts", jail::EntryKind::kDir, {}, false},
              {"/etc/ssl/certs", jail::EntryKind::kDir, {}, false},
              {"/etc/services", jail::EntryKind::kFile, "text", true}};
  jail::TreeBuilder builder(confine::kKeepOwner);
  REQUIRE(jail::add_base(builder, tree, {}).ok());
  const std::vector<confine::Step> base = builder.take();
  const jail::SplitBase split = jail::split_base(base);
  CHECK(jail::on_own_root(split).size() == base.size());
  CHECK(std::holds_alternative<confine::NewRoot>(jail::on_own_root(split).front()));
  const std::vector<confine::Step> kept = jail::on_kept_root(split);
  CHECK(std::holds_alternative<confine::KeptRoot>(kept.front()));
  CHECK(split.objects.size() + kept.size() == base.size());
  const Parent parent;
  const auto root = jail::open_kept_root(parent.path(), split.objects);
  REQUIRE_MESSAGE(root.ok(), (root.ok() ? "" : root.error().to_string()));
  for (const confine::Step& step : kept) {
    if (const auto* bind = std::get_if<confine::Bind>(&step)) {
      INFO(bind->path);
      const mode_t place = mode_of(root.value().path + bind->path);
      CHECK(S_ISDIR(place) == (bind->kind == confine::BindKind::kDir));
      CHECK(place != 0);
    }
  }
  for (const std::string& dir : split.kept.dirs) {
    CHECK(S_ISDIR(mode_of(root.value().path + dir)));
  }
}
