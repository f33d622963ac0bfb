// Tests of fs: rooted opening, capped reading, atomic writing, temporary directories.
#include "core/base/fs.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include <doctest/doctest.h>

#include "core/base/sys.h"
#include "core/base/text.h"

using namespace sbx;

namespace {

fs::TempDir temp() {
  return fs::TempDir::create("/tmp", "sbx-test-").value();
}

void put(int dirfd, const std::string& name, std::string_view content) {
  const UniqueFd fd = sys::openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644).value();
  REQUIRE(sys::write_all(fd.get(), content).ok());
}

std::string content_of(const Result<UniqueFd>& fd) {
  if (!fd.ok()) return text::cat("error ", fd.error().sys_errno());
  return sys::read_all(fd.value().get(), Bytes{4096}).value();
}

bool is_there(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace

TEST_CASE("fs: open_in stays below its directory whatever the path says") {
  const fs::TempDir dir = temp();
  REQUIRE(sys::mkdirat(dir.fd(), "etc", 0755).ok());
  put(dir.fd(), "etc/passwd", "inside");
  REQUIRE(sys::symlinkat("/etc/passwd", dir.fd(), "absolute").ok());
  REQUIRE(sys::symlinkat("../../../../../etc/passwd", dir.fd(), "upwards").ok());
  REQUIRE(sys::symlinkat("loop", dir.fd(), "loop").ok());
  for (const std::string path : {"etc/passwd",
                                 "/etc/passwd",
                                 "../../etc/passwd",
                                 "absolute",
                                 "upwards",
                                 "etc/../../etc/passwd"}) {
    CAPTURE(path);
    CHECK(content_of(fs::open_in(dir.fd(), path, O_RDONLY)) == "inside");
  }
  CHECK(fs::open_in(dir.fd(), "loop", O_RDONLY).error().sys_errno() == ELOOP);
  const UniqueFd proc = fs::open_dir("/proc").value();
  CHECK(fs::open_in(proc.get(), "self/exe", O_RDONLY).error().sys_errno() == ELOOP);
}

TEST_CASE("fs: open_in creates with a mode") {
  const fs::TempDir dir = temp();
  CHECK(fs::open_in(dir.fd(), "new", O_WRONLY | O_CREAT | O_EXCL, 0600).ok());
  CHECK((sys::fstatat(dir.fd(), "new", 0).value().st_mode & 07777) == 0600);
}

TEST_CASE("fs: read_file reads /proc, and stops at the cap") {
  const Result<std::string> status = fs::read_file("/proc/self/status", Bytes{1 << 20});
  REQUIRE(status.ok());
  CHECK(status.value().starts_with("Name:"));
  const Result<std::string> capped = fs::read_file("/proc/self/status", Bytes{10});
  CHECK(capped.error().code() == Errc::kLimit);
  CHECK(capped.error().message() == "read /proc/self/status: content is longer than 10");
  CHECK(fs::read_file("/nonexistent", Bytes{10}).error().code() == Errc::kNotFound);
}

TEST_CASE("fs: read_file_at does not follow a final link") {
  const fs::TempDir dir = temp();
  put(dir.fd(), "file", "x");
  REQUIRE(sys::symlinkat("file", dir.fd(), "link").ok());
  CHECK(fs::read_file_at(dir.fd(), "file", Bytes{10}).value() == "x");
  CHECK(fs::read_file_at(dir.fd(), "link", Bytes{10}).error().sys_errno() == ELOOP);
  REQUIRE(::mkfifoat(dir.fd(), "fifo", 0600) == 0);
  CHECK(fs::read_file_at(dir.fd(), "fifo", Bytes{10}).value().empty());  // and does not wait
}

TEST_CASE("fs: write_atomic replaces content, mode and even a link, and leaves nothing else") {
  const fs::TempDir dir = temp();
  const ::mode_t before = ::umask(0077);
  CHECK(fs::write_atomic(dir.fd(), "file", "one", 0644).ok());
  ::umask(before);
  CHECK((sys::fstatat(dir.fd(), "file", 0).value().st_mode & 07777) == 0644);
  CHECK(fs::write_atomic(dir.fd(), "file", "two", 0600).ok());
  CHECK(fs::read_file_at(dir.fd(), "file", Bytes{10}).value() == "two");
  put(dir.fd(), "victim", "untouched");
  REQUIRE(sys::symlinkat("victim", dir.fd(), "link").ok());
  CHECK(fs::write_atomic(dir.fd(), "link", "three", 0600).ok());
  CHECK(fs::read_file_at(dir.fd(), "victim", Bytes{10}).value() == "untouched");
  for (const std::string name : {"file", "link", "victim"}) {
    REQUIRE(sys::unlinkat(dir.fd(), name).ok());
  }
  const int parent = AT_FDCWD;
  CHECK(sys::unlinkat(parent, dir.path(), AT_REMOVEDIR).ok());  // empty: no temporary file left
}

TEST_CASE("fs: write_atomic that fails leaves the old content and no temporary file") {
  const fs::TempDir dir = temp();
  REQUIRE(sys::mkdirat(dir.fd(), "directory", 0755).ok());
  put(dir.fd(), "directory/full", "x");
  CHECK(!fs::write_atomic(dir.fd(), "directory", "content", 0600).ok());
  CHECK(fs::read_file_at(dir.fd(), "directory/full", Bytes{10}).value() == "x");
  REQUIRE(fs::remove_tree(dir.fd(), "directory").ok());
  CHECK(sys::unlinkat(AT_FDCWD, dir.path(), AT_REMOVEDIR).ok());
}

TEST_CASE("fs: mkdirs makes what is missing and accepts what is there") {
  const fs::TempDir dir = temp();
  const std::string deep = dir.path() + "/a//b/c/";
  CHECK(fs::mkdirs(deep, 0755).ok());
  CHECK(is_there(dir.path() + "/a/b/c"));
  CHECK(fs::mkdirs(deep, 0755).ok());
  CHECK(fs::mkdirs("/", 0755).ok());
  CHECK(fs::mkdirs("/tmp", 0755).ok());
  put(dir.fd(), "file", "x");
  CHECK(fs::mkdirs(dir.path() + "/file", 0755).error().code() == Errc::kExists);
  CHECK(!fs::mkdirs(dir.path() + "/file/below", 0755).ok());
  REQUIRE(sys::symlinkat("a", dir.fd(), "link").ok());
  CHECK(fs::mkdirs(dir.path() + "/link/d", 0755).ok());
  CHECK(is_there(dir.path() + "/a/d"));
}

TEST_CASE("fs: a temporary directory is private and goes with its owner") {
  std::string path;
  {
    fs::TempDir dir = temp();
    path = dir.path();
    CHECK((sys::fstat(dir.fd()).value().st_mode & 07777) == 0700);
    put(dir.fd(), "file", "x");
    fs::TempDir moved = std::move(dir);
    fs::TempDir other = temp();
    const std::string replaced = other.path();
    other = std::move(moved);
    CHECK(!is_there(replaced));
    CHECK(is_there(path));
  }
  CHECK(!is_there(path));
  {
    fs::TempDir dir = temp();
    path = dir.path();
    dir.keep();
  }
  CHECK(is_there(path));
  CHECK(sys::unlinkat(AT_FDCWD, path, AT_REMOVEDIR).ok());
  CHECK(!fs::TempDir::create("/nonexistent", "x").ok());
}

TEST_CASE("fs: a temporary directory can be entered under any umask, which stays as it was") {
  const mode_t before = ::umask(0777);
  const auto made = fs::TempDir::create("/tmp", "sbx-unit-umask-");
  const mode_t after = ::umask(before);
  REQUIRE(made.ok());
  CHECK(after == 0777);
  struct stat st {};
  REQUIRE(::stat(made.value().path().c_str(), &st) == 0);
  CHECK((st.st_mode & 0777U) == 0700);
}

TEST_CASE("fs: random names differ and hold only letters and digits") {
  const std::string name = fs::random_name(40);
  CHECK(name.size() == 40);
  CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567") == std::string::npos);
  CHECK(fs::random_name(40) != name);
}
