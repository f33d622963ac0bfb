// Content: what of a copied tree counts, and that no link leads out of the recipe's directory.
#include "core/build/content.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"

using namespace sbx;

namespace {

struct Place {
  Place() : dir(fs::TempDir::create("/tmp", "sbx-content-")) { REQUIRE(dir.ok()); }
  std::string at(const std::string& name) const { return dir.value().path() + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(at(name)) << text;
  }
  std::string digest(const std::string& path) const {
    auto hex = build::content_digest(dir.value().fd(), path);
    REQUIRE(hex.ok());
    return hex.value();
  }
  Result<fs::TempDir> dir;
};

}  // namespace

TEST_CASE("content: names, modes, links and bytes count, times do not") {
  const Place place;
  REQUIRE(::mkdir(place.at("d").c_str(), 0755) == 0);
  place.write("d/a", "one");
  REQUIRE(::symlink("a", place.at("d/l").c_str()) == 0);
  const std::string before = place.digest("d");
  const timespec old[2] = {{1, 0}, {1, 0}};
  REQUIRE(::utimensat(AT_FDCWD, place.at("d/a").c_str(), old, 0) == 0);
  CHECK(place.digest("d") == before);

  place.write("d/a", "two");
  const std::string other_bytes = place.digest("d");
  CHECK(other_bytes != before);
  REQUIRE(::chmod(place.at("d/a").c_str(), 0755) == 0);
  const std::string other_mode = place.digest("d");
  CHECK(other_mode != other_bytes);
  REQUIRE(::unlink(place.at("d/l").c_str()) == 0);
  REQUIRE(::symlink("b", place.at("d/l").c_str()) == 0);
  const std::string other_link = place.digest("d");
  CHECK(other_link != other_mode);
  REQUIRE(::rename(place.at("d/a").c_str(), place.at("d/b").c_str()) == 0);
  CHECK(place.digest("d") != other_link);
}

TEST_CASE("content: bytes do not slip from one file into the next") {
  const Place place;
  REQUIRE(::mkdir(place.at("d").c_str(), 0755) == 0);
  place.write("d/a", "xy");
  place.write("d/b", "z");
  const std::string before = place.digest("d");
  place.write("d/a", "x");
  place.write("d/b", "yz");
  CHECK(place.digest("d") != before);
}

TEST_CASE("content: a link out of the directory is refused, one inside it is followed") {
  const Place place;
  REQUIRE(::mkdir(place.at("d").c_str(), 0755) == 0);
  place.write("d/a", "one");
  REQUIRE(::symlink("d", place.at("in").c_str()) == 0);
  REQUIRE(::symlink("/etc", place.at("out").c_str()) == 0);
  REQUIRE(::symlink("../../etc", place.at("up").c_str()) == 0);
  CHECK(place.digest("in/a") == place.digest("d/a"));
  for (const char* path : {"out", "out/passwd", "up/passwd", "../etc"}) {
    CAPTURE(path);
    CHECK(!build::content_digest(place.dir.value().fd(), path).ok());
  }
  CHECK(!build::content_digest(place.dir.value().fd(), "missing").ok());
}

TEST_CASE("content: a pipe is not waited for") {
  const Place place;
  REQUIRE(::mkfifo(place.at("pipe").c_str(), 0600) == 0);
  CHECK(!build::content_digest(place.dir.value().fd(), "pipe").ok());
  REQUIRE(::mkdir(place.at("d").c_str(), 0755) == 0);
  REQUIRE(::mkfifo(place.at("d/pipe").c_str(), 0600) == 0);
  CHECK(!place.digest("d").empty());
}
