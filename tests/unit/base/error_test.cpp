// Tests of errors and results: what an errno becomes, and how values and errors travel.
#include "core/base/error.h"

#include <array>
#include <cerrno>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "core/base/result.h"

using namespace sbx;

namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error(Errc::kUsage, "odd");
  return n / 2;
}

Result<int> quarter(int n) {
  SBX_ASSIGN(const int once, half(n));
  SBX_ASSIGN(const int twice, half(once));
  return twice;
}

Status check_even(int n) {
  SBX_TRY(half(n));
  return {};
}

Result<std::unique_ptr<int>> boxed(int n) {
  return std::make_unique<int>(n);
}

}  // namespace

TEST_CASE("error: the code follows from errno and the text names the call") {
  struct Row {
    int err;
    Errc code;
    std::string_view message;
  };
  constexpr std::array kRows{
      Row{ENOENT, Errc::kNotFound, "open /x: No such file or directory"},
      Row{ENOTDIR, Errc::kNotFound, "open /x: Not a directory"},
      Row{EEXIST, Errc::kExists, "open /x: File exists"},
      Row{EPERM, Errc::kDenied, "open /x: Operation not permitted"},
      Row{EACCES, Errc::kDenied, "open /x: Permission denied"},
      Row{ENOSYS, Errc::kUnsupported, "open /x: Function not implemented"},
      Row{EIO, Errc::kSystem, "open /x: Input/output error"},
      Row{99999, Errc::kSystem, "open /x: errno 99999"},
  };
  for (const Row& row : kRows) {
    const Error error = sys_error("open /x", row.err);
    CHECK(error.code() == row.code);
    CHECK(error.sys_errno() == row.err);
    CHECK(error.message() == row.message);
  }
}

TEST_CASE("error: the short form reads errno") {
  errno = EBUSY;
  const Error error = sys_error("unmount /x");
  CHECK(error.sys_errno() == EBUSY);
}

TEST_CASE("error: what the host has run out of comes with what mends it") {
  CHECK(sys_error("create a pipe", EMFILE).hint() ==
        "raise the limit on open files: ulimit -n 1024");
  CHECK_FALSE(sys_error("write x", ENOSPC).hint().empty());
  CHECK(sys_error("write x", ENOSPC).with_hint("mine").hint() == "mine");
  CHECK(sys_error("write x", EPERM).hint().empty());
}

TEST_CASE("error: prefix, hint and code build on each other and keep errno") {
  const Error error = sys_error("mount proc on /proc", EPERM)
                          .prefixed("start sandbox")
                          .with_hint("sysctl x=1")
                          .with_code(Errc::kUnsupported);
  CHECK(error.sys_errno() == EPERM);
  CHECK(error.code() == Errc::kUnsupported);
  CHECK(error.hint() == "sysctl x=1");
  CHECK(error.to_string() ==
        "start sandbox: mount proc on /proc: Operation not permitted (hint: sysctl x=1)");
  CHECK(Error(Errc::kLimit, "too long").to_string() == "too long");
}

TEST_CASE("error: each code has a word of its own") {
  CHECK(name(Errc::kUsage) == "usage");
  CHECK(name(Errc::kNotFound) == "not-found");
  CHECK(name(Errc::kInternal) == "internal");
}

TEST_CASE("result: a value or the first error comes through") {
  CHECK(quarter(12).value() == 3);
  CHECK(quarter(6).error().message() == "odd");
  CHECK(quarter(7).error().code() == Errc::kUsage);
  CHECK(check_even(2).ok());
  CHECK(!check_even(3).ok());
  CHECK(static_cast<bool>(half(2)));
}

TEST_CASE("result: move-only values can be taken out") {
  Result<std::unique_ptr<int>> result = boxed(7);
  const std::unique_ptr<int> taken = std::move(result).value();
  CHECK(*taken == 7);
}
