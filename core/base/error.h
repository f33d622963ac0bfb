// Error: what went wrong, for a person (message, hint) and for a program (code, errno).
// It is a plain value: making one neither prints nor logs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sbx {

/// The kinds of failure a caller may want to tell apart.
enum class Errc : std::uint8_t {
  kUsage,        ///< the caller asked for something malformed or contradictory
  kNotFound,     ///< a named thing does not exist
  kExists,       ///< a named thing exists already
  kUnsupported,  ///< this host or backend cannot do it
  kDenied,       ///< permission refused
  kSystem,       ///< any other failed system call
  kProtocol,     ///< a peer or a file broke its format
  kTimeout,      ///< a deadline passed
  kLimit,        ///< a size, count or depth limit was reached
  kInternal,     ///< a bug in sbx
};

/// Stable lower-case word for `code`, e.g. "not-found"; for JSON and tests.
std::string_view name(Errc code);

class [[nodiscard]] Error {
 public:
  /// `message`: lower case, no full stop, names the call and the object.
  Error(Errc code, std::string message);

  Errc code() const { return code_; }
  /// The errno behind it, 0 when there was none.
  int sys_errno() const { return sys_errno_; }
  const std::string& message() const { return message_; }
  /// What the user can do about it, an exact command or key; empty when there is nothing.
  const std::string& hint() const { return hint_; }

  /// The same error with its hint replaced.
  Error with_hint(std::string hint) &&;
  /// The same error with `context` + ": " put before the message.
  Error prefixed(std::string_view context) &&;
  /// The same error with another code; for a caller who knows better what it means.
  Error with_code(Errc code) &&;

  /// "message" or "message (hint: hint)". Not escaped: see text::escape.
  std::string to_string() const;

 private:
  friend Error sys_error(std::string what, int err);

  Errc code_;
  int sys_errno_ = 0;
  std::string message_;
  std::string hint_;
};

/// An Error from errno `err`: "what: text of err". The code follows from `err`: ENOENT and
/// ENOTDIR give kNotFound, EEXIST kExists, EACCES and EPERM kDenied, ENOSYS and EOPNOTSUPP
/// kUnsupported, ETIMEDOUT kTimeout, all others kSystem. Where the host has run out of something
/// (EMFILE, ENFILE, ENOSPC, EDQUOT) it has a hint already.
Error sys_error(std::string what, int err);
/// The same from the calling thread's errno. `what` must not be built by calls that change errno:
/// where it may allocate, save errno first and use the other form.
Error sys_error(std::string what);

}  // namespace sbx
