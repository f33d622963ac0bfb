// Tree test: what a hostile package left is made harmless.
#include "core/packages/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"

using sbx::packages::tidy_tree;

namespace {

mode_t mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777U;
}

struct Tree {
  Tree() : dir(sbx::fs::TempDir::create("/tmp", "sbx-tree-").value()) {}
  std::string at(const std::string& rel) const { return dir.path() + "/" + rel; }
  void file(const std::string& rel, mode_t mode) const {
    std::ofstream(at(rel)) << "x";
    REQUIRE(::chmod(at(rel).c_str(), mode) == 0);
  }
  sbx::fs::TempDir dir;
};

}  // namespace

TEST_CASE("tree: set-id bits, other writers and closed modes go") {
  const Tree tree;
  REQUIRE(::mkdir(tree.at("d").c_str(), 0700) == 0);
  tree.file("d/setuid", 06755);
  tree.file("open", 0666);
  tree.file("closed", 0000);
  tree.file("program", 0700);
  REQUIRE(::chmod(tree.at("d").c_str(), 02777) == 0);
  REQUIRE(tidy_tree(tree.dir.fd()).ok());
  CHECK(mode_of(tree.at("d")) == 0755);
  CHECK(mode_of(tree.at("d/setuid")) == 0755);
  CHECK(mode_of(tree.at("open")) == 0644);
  CHECK(mode_of(tree.at("closed")) == 0644);
  CHECK(mode_of(tree.at("program")) == 0755);
}

TEST_CASE("tree: links are left as they are, and what they lead to as well") {
  const Tree tree;
  const Tree other;
  other.file("victim", 0600);
  REQUIRE(::symlink(other.at("victim").c_str(), tree.at("link").c_str()) == 0);
  REQUIRE(::symlink(other.dir.path().c_str(), tree.at("dirlink").c_str()) == 0);
  REQUIRE(tidy_tree(tree.dir.fd()).ok());
  CHECK(mode_of(other.at("victim")) == 0600);
  CHECK(mode_of(other.dir.path()) == 0700);
}

TEST_CASE("tree: a pipe is no part of a package, and a bottomless directory is too deep") {
  const Tree tree;
  REQUIRE(::mkfifo(tree.at("pipe").c_str(), 0600) == 0);
  CHECK(tidy_tree(tree.dir.fd()).error().code() == sbx::Errc::kProtocol);
  REQUIRE(::unlink(tree.at("pipe").c_str()) == 0);
  std::string path = tree.dir.path();
  for (int i = 0; i < 120; ++i) {
    path += "/d";
    REQUIRE(::mkdir(path.c_str(), 0700) == 0);
  }
  CHECK(tidy_tree(tree.dir.fd()).error().code() == sbx::Errc::kLimit);
}
