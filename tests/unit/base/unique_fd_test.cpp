// Tests of UniqueFd and ScopeExit: closed once, moved, kept when cancelled.
#include "core/base/unique_fd.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include <doctest/doctest.h>

#include "core/base/scope_exit.h"

using namespace sbx;

namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}

UniqueFd open_null() {
  return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
}

}  // namespace

TEST_CASE("unique_fd: closes at the end of its scope and keeps errno") {
  int number = -1;
  errno = EXDEV;
  {
    const UniqueFd fd = open_null();
    number = fd.get();
    CHECK(fd.valid());
    CHECK(is_open(number));
  }
  CHECK(errno == EXDEV);
  CHECK(!is_open(number));
}

TEST_CASE("unique_fd: moving leaves nothing behind, 0 counts as a descriptor") {
  UniqueFd a = open_null();
  const int number = a.get();
  UniqueFd b = std::move(a);
  CHECK(!a.valid());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the point
  CHECK(b.get() == number);
  UniqueFd c = open_null();
  const int other = c.get();
  c = std::move(b);
  CHECK(!is_open(other));
  CHECK(c.release() == number);
  CHECK(is_open(number));
  c.reset(number);
  c.reset();
  CHECK(!is_open(number));
  UniqueFd zero(0);
  CHECK(zero.valid());
  CHECK(zero.release() == 0);
}

TEST_CASE("scope_exit: runs unless cancelled") {
  int runs = 0;
  {
    const ScopeExit guard([&] { ++runs; });
  }
  CHECK(runs == 1);
  {
    ScopeExit guard([&] { ++runs; });
    guard.cancel();
  }
  CHECK(runs == 1);
}
