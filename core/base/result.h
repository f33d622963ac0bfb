// Result<T>: a value or an Error. The only way functions in core/ report failure.
// It never throws: asking for the part that is not there ends the process (a bug, not a state).
#pragma once

#include <cstdlib>
#include <optional>
#include <utility>
#include <variant>

#include "core/base/error.h"

namespace sbx {

template <typename T>
class [[nodiscard]] Result {
 public:
  // NOLINTBEGIN(google-explicit-constructor): `return value;` and `return error;` are the point
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// The value; aborts when there is none.
  T& value() & { return *check(std::get_if<0>(&v_)); }
  const T& value() const& { return *check(std::get_if<0>(&v_)); }
  T&& value() && { return std::move(*check(std::get_if<0>(&v_))); }

  /// The error; aborts when there is none.
  Error& error() & { return *check(std::get_if<1>(&v_)); }
  const Error& error() const& { return *check(std::get_if<1>(&v_)); }
  Error&& error() && { return std::move(*check(std::get_if<1>(&v_))); }

 private:
  template <typename P>
  static P* check(P* part) {
    if (part == nullptr) std::abort();
    return part;
  }

  std::variant<T, Error> v_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  /// The error; aborts when there is none.
  Error& error() & {
    check();
    return *error_;
  }
  const Error& error() const& {
    check();
    return *error_;
  }
  Error&& error() && {
    check();
    return *std::move(error_);
  }

 private:
  void check() const {
    if (!error_.has_value()) std::abort();
  }

  std::optional<Error> error_;
};

/// Success, or an Error.
using Status = Result<void>;

}  // namespace sbx

/// Returns the error of `expr` from the enclosing function, if it has one.
#define SBX_TRY(expr)                                                               \
  do {                                                                              \
    if (auto sbx_try_ = (expr); !sbx_try_.ok()) return std::move(sbx_try_).error(); \
  } while (false)

#define SBX_CONCAT_(a, b) a##b
#define SBX_CONCAT(a, b) SBX_CONCAT_(a, b)

/// `SBX_ASSIGN(UniqueFd fd, open_dir(path));` declares `fd`, or returns the error.
#define SBX_ASSIGN(decl, expr) SBX_ASSIGN_(SBX_CONCAT(sbx_r_, __COUNTER__), decl, expr)
#define SBX_ASSIGN_(tmp, decl, expr)            \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp).error(); \
  decl = std::move(tmp).value()
