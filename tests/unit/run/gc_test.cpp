// Gc: what is nobody's goes, what somebody holds stays.
#include "core/run/gc.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/unique_fd.h"

namespace sbx::run {
namespace {

class StateDir {
 public:
  StateDir() : dir_(fs::TempDir::create("/tmp", "sbx-unit-gc-")) { REQUIRE(dir_.ok()); }
  std::string at(const std::string& name) const { return dir_.value().path() + "/" + name; }
  GcContext context() const {
    return {dir_.value().path(), dir_.value().path(), dir_.value().path()};
  }

 private:
  Result<fs::TempDir> dir_;
};

const LeftoverKind& kind(std::string_view name) {
  for (const LeftoverKind& row : leftover_kinds()) {
    if (row.name == name) return row;
  }
  FAIL("no such kind");
  return leftover_kinds().front();
}

/// A socket at `path`; nobody listens once the descriptor is closed.
UniqueFd listen_at(const std::string& path, int type) {
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(static_cast<char*>(address.sun_path), path.data(), path.size());
  REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  if (type != SOCK_DGRAM) REQUIRE(::listen(fd.get(), 1) == 0);
  return fd;
}

}  // namespace

TEST_CASE("gc: each kind of leftover has a name of its own and both functions") {
  std::set<std::string_view> names;
  for (const LeftoverKind& row : leftover_kinds()) {
    CHECK(names.insert(row.name).second);
    CHECK((row.find != nullptr));
    CHECK((row.remove != nullptr));
  }
}

TEST_CASE("gc: without directories there is nothing to find in them") {
  for (const char* const name : {"temporary file", "unfinished root", "socket"}) {
    CHECK(kind(name).find({}).empty());
    CHECK(kind(name).find({"/nowhere", "/nowhere", "/nowhere"}).empty());
  }
}

TEST_CASE("gc: a socket that nobody listens on goes, one that somebody does stays") {
  const StateDir dir;
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
    CAPTURE(type);
    UniqueFd fd = listen_at(dir.at("a"), type);
    CHECK(kind("socket").find(dir.context()).empty());
    fd.reset();
    const auto found = kind("socket").find(dir.context());
    REQUIRE(found.size() == 1);
    CHECK(found[0].name == dir.at("a"));
    CHECK(kind("socket").remove(dir.context(), found[0]).ok());
    CHECK(::access(dir.at("a").c_str(), F_OK) != 0);
    CHECK(kind("socket").remove(dir.context(), found[0]).ok());  // another one was faster
  }
}

TEST_CASE("gc: a socket that was taken again between looking and removing stays") {
  const StateDir dir;
  listen_at(dir.at("a"), SOCK_STREAM).reset();
  const auto found = kind("socket").find(dir.context());
  REQUIRE(found.size() == 1);
  REQUIRE(::unlink(dir.at("a").c_str()) == 0);
  const UniqueFd again = listen_at(dir.at("a"), SOCK_STREAM);
  CHECK(kind("socket").remove(dir.context(), found[0]).ok());
  CHECK(::access(dir.at("a").c_str(), F_OK) == 0);
}

TEST_CASE("gc: temporary files are told by name, age and lock, two levels deep") {
  const StateDir dir;
  REQUIRE(fs::mkdirs(dir.at("trust/deep"), 0700).ok());
  const std::string left = "trust/.sbx-abcdefghijklmnop";
  for (const std::string& name : {left,
                                  std::string(".sbx-2222222222222222"),
                                  std::string("trust/deep/.sbx-abcdefghijklmnop"),
                                  std::string(".sbx-short"),
                                  std::string(".sbx-ABCDEFGHIJKLMNOP"),
                                  std::string("sbx-abcdefghijklmnop")}) {
    REQUIRE(sys::open(dir.at(name), O_WRONLY | O_CREAT, 0600).ok());
  }
  REQUIRE(::symlink("/etc/passwd", dir.at(".sbx-cccccccccccccccc").c_str()) == 0);
  // Made just now, by somebody who may be about to lock it.
  CHECK(kind("temporary file").find(dir.context()).empty());
  const auto found = find_temporaries(dir.context(), Age{-1});
  REQUIRE(found.size() == 3);
  {
    const auto writer = sys::open(dir.at(left), O_WRONLY);
    REQUIRE(writer.ok());
    REQUIRE(::flock(writer.value().get(), LOCK_EX | LOCK_NB) == 0);
    CHECK(find_temporaries(dir.context(), Age{-1}).size() == 2);
  }
  CHECK(find_temporaries(dir.context(), Age{-1}).size() == 3);
}

TEST_CASE("gc: a temporary file is locked while it is written") {
  const StateDir dir;
  const auto at = fs::open_dir(dir.context().state_dir);
  REQUIRE(at.ok());
  REQUIRE(fs::write_atomic(at.value().get(), "record", "x", 0600).ok());
  CHECK(find_temporaries(dir.context(), Age{-1}).empty());
  CHECK(::access(dir.at("record").c_str(), F_OK) == 0);
}

}  // namespace sbx::run
