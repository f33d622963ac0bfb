// Lead tests: a mount's place in a hostile tree is found inside of it, or refused.
#include "core/confine/lead.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"

using namespace sbx;
using confine::Lead;
using confine::PlaceKind;

namespace {

struct Tree {
  fs::TempDir temp;
  UniqueFd root;

  Tree()
      : temp(fs::TempDir::create("/tmp", "sbx-lead-").value()),
        root(sys::open(temp.path(), O_RDONLY | O_DIRECTORY).value()) {}
  void dir(const std::string& path) const {
    REQUIRE(::mkdirat(root.get(), path.c_str(), 0755) == 0);
  }
  void link(const std::string& path, const std::string& target) const {
    REQUIRE(::symlinkat(target.c_str(), root.get(), path.c_str()) == 0);
  }
  void file(const std::string& path) const {
    REQUIRE(::mknodat(root.get(), path.c_str(), S_IFREG | 0644, 0) == 0);
  }
  mode_t kind(const std::string& path) const {
    struct stat info {};
    if (::fstatat(root.get(), path.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    return info.st_mode & S_IFMT;
  }
  Result<std::string> find(const std::string& path, PlaceKind kind = PlaceKind::kDir) const {
    return confine::lead(root.get(), -1, Lead{path, kind, false});
  }
};

}  // namespace

TEST_CASE("lead: what is missing is made, as directories and at the end as what is asked for") {
  const Tree tree;
  CHECK(tree.find("/a/b/c").value() == "/a/b/c");
  CHECK(tree.kind("a/b/c") == S_IFDIR);
  CHECK(tree.find("/a/b/d/file", PlaceKind::kFile).value() == "/a/b/d/file");
  CHECK(tree.kind("a/b/d/file") == S_IFREG);
}

TEST_CASE("lead: links lead within the tree, absolute ones and those with dots, too") {
  const Tree tree;
  tree.dir("usr");
  tree.dir("usr/lib");
  tree.link("lib", "usr/lib");
  tree.link("abs", "/usr/lib");
  tree.link("out", "../../../../../../usr/lib");
  tree.link("usr/up", "../../..");
  CHECK(tree.find("/lib/x").value() == "/usr/lib/x");
  CHECK(tree.find("/abs/x").value() == "/usr/lib/x");
  CHECK(tree.find("/out/y").value() == "/usr/lib/y");
  CHECK(tree.find("/usr/up/data").value() == "/data");
  CHECK(tree.kind("usr/lib/x") == S_IFDIR);
  CHECK(tree.kind("data") == S_IFDIR);
  CHECK(tree.kind("lib") == S_IFLNK);
}

TEST_CASE("lead: a link to nowhere is made true, one to itself is refused") {
  const Tree tree;
  tree.link("run", "var/run");
  tree.link("loop", "loop");
  tree.link("a", "b");
  tree.link("b", "a");
  CHECK(tree.find("/run/x").value() == "/var/run/x");
  CHECK(tree.find("/loop/x").error().sys_errno() == ELOOP);
  CHECK(tree.find("/a").error().sys_errno() == ELOOP);
}

TEST_CASE("lead: places of the sandbox itself are refused, wherever the name came from") {
  const Tree tree;
  for (const char* dir : {"proc", "sys", "dev", "etc", "work", "tmp", "run"}) {
    tree.dir(dir);
  }
  tree.dir("run/sbx");
  for (const char* target : {"/",
                             "/proc",
                             "/proc/sys",
                             "/sys/fs",
                             "/dev",
                             "/dev/pts",
                             "/etc",
                             "/work",
                             "/tmp",
                             "/run/sbx",
                             "/dev/shm",
                             "/work/.."}) {
    CAPTURE(target);
    tree.link("data", target);
    const auto found = tree.find("/data");
    REQUIRE_FALSE(found.ok());
    CHECK(found.error().code() == Errc::kUsage);
    CHECK(::unlinkat(tree.root.get(), "data", 0) == 0);
  }
  tree.link("data", "/dev/shm/x");
  CHECK(tree.find("/data").value() == "/dev/shm/x");
}

TEST_CASE("lead: something else in the way is named") {
  const Tree tree;
  tree.file("file");
  tree.dir("dir");
  CHECK(tree.find("/file").error().message().find("/file") != std::string::npos);
  CHECK(tree.find("/file/below").error().code() == Errc::kUsage);
  CHECK(tree.find("/dir", PlaceKind::kFile).error().code() == Errc::kUsage);
  CHECK(tree.find("/file", PlaceKind::kFile).value() == "/file");
}

TEST_CASE("lead: a path that links make endless is refused") {
  const Tree tree;
  std::string many;
  for (int i = 0; i < 1300; ++i) {
    many += "x/";
  }
  many.resize(2000);
  for (int i = 0; i < 30; ++i) {
    tree.link("l" + std::to_string(i), "l" + std::to_string(i + 1) + "/" + many);
  }
  CHECK_FALSE(tree.find("/l0").ok());
}
