// Error: the code that follows from an errno, and how the parts become one line.
#include "core/base/error.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/text.h"

namespace sbx {
namespace {

Errc code_of(int err) {
  switch (err) {
    case ENOENT:
    case ENOTDIR:
      return Errc::kNotFound;
    case EEXIST:
      return Errc::kExists;
    case EACCES:
    case EPERM:
      return Errc::kDenied;
    case ENOSYS:
    case EOPNOTSUPP:
      return Errc::kUnsupported;
    case ETIMEDOUT:
      return Errc::kTimeout;
    default:
      return Errc::kSystem;
  }
}

/// What mends an exhausted host, whatever ran into it.
std::string_view hint_of(int err) {
  switch (err) {
    case EMFILE:
      return "raise the limit on open files: ulimit -n 1024";
    case ENFILE:
      return "the whole host has no more open files: end programs, or as root: sysctl -w "
             "fs.file-max=1000000";
    case ENOSPC:
      return "make room: df shows the space that is left, df -i the inodes";
    case EDQUOT:
      return "the disk quota is used up: quota -s";
    default:
      return {};
  }
}

}  // namespace

std::string_view name(Errc code) {
  switch (code) {
    case Errc::kUsage:
      return "usage";
    case Errc::kNotFound:
      return "not-found";
    case Errc::kExists:
      return "exists";
    case Errc::kUnsupported:
      return "unsupported";
    case Errc::kDenied:
      return "denied";
    case Errc::kSystem:
      return "system";
    case Errc::kProtocol:
      return "protocol";
    case Errc::kTimeout:
      return "timeout";
    case Errc::kLimit:
      return "limit";
    case Errc::kInternal:
      return "internal";
  }
  return "internal";
}

Error::Error(Errc code, std::string message) : code_(code), message_(std::move(message)) {}

Error Error::with_hint(std::string hint) && {
  hint_ = std::move(hint);
  return std::move(*this);
}

Error Error::prefixed(std::string_view context) && {
  message_ = text::cat(context, ": ", message_);
  return std::move(*this);
}

Error Error::with_code(Errc code) && {
  code_ = code;
  return std::move(*this);
}

std::string Error::to_string() const {
  if (hint_.empty()) return message_;
  return text::cat(message_, " (hint: ", hint_, ")");
}

Error sys_error(std::string what, int err) {
  // strerrordesc_np (glibc 2.32) is strerror without the locale.
  const char* description = strerrordesc_np(err);
  if (description == nullptr) {
    what += text::cat(": errno ", err);
  } else {
    what += text::cat(": ", description);
  }
  Error error(code_of(err), std::move(what));
  error.sys_errno_ = err;
  error.hint_ = hint_of(err);
  return error;
}

Error sys_error(std::string what) {
  const int err = errno;
  return sys_error(std::move(what), err);
}

}  // namespace sbx
