// Output: the one place that writes to the terminal - results to stdout, words to people on stderr.
#include "cli/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>

#include "core/base/exit_code.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::cli {
namespace {

constexpr std::string_view kBoldRed = "\x1b[1;31m";
constexpr std::string_view kBoldYellow = "\x1b[1;33m";
constexpr std::string_view kPlain = "\x1b[0m";

int number(Stream stream) {
  return stream == Stream::kOut ? STDOUT_FILENO : STDERR_FILENO;
}

Status write_fully(Stream stream, std::string_view text) {
  int fd = number(stream);
  while (!text.empty()) {
    ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {  // somebody left the shared description non-blocking
      pollfd wait{fd, POLLOUT, 0};
      (void)::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return sys_error(stream == Stream::kOut ? "write the result to stdout" : "write to stderr");
    }
  }
  return {};
}

/// Escapes every line by itself, so that a message of several lines keeps them.
std::string safe(std::string_view message) {
  std::string out;
  for (std::size_t at = 0; at <= message.size();) {
    std::size_t end = message.find('\n', at);
    if (end == std::string_view::npos) end = message.size();
    if (at != 0) out += "\n     ";
    out += text::escape(message.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string labelled(std::string_view label, std::string_view colour, std::string_view message) {
  std::string out;
  out += colour;
  out += label;
  if (!colour.empty()) out += kPlain;
  out += ' ';
  out += safe(message);
  out += '\n';
  return out;
}

}  // namespace

void fill_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // the wrong direction on purpose; the lowest free number is this one
    auto opened = sys::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened.ok()) (void)opened.value().release();
  }
}

bool has_colour(Stream stream) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term == nullptr || std::string_view(term) == "dumb") return false;
  return ::isatty(number(stream)) == 1;
}

Status print(std::string_view text) {
  return write_fully(Stream::kOut, text);
}

Status print_notice(std::string_view text) {
  return write_fully(Stream::kErr, text);
}

int printed(const Status& status) {
  if (status.ok()) return 0;
  print_error(status.error());
  return kExitSandbox;
}

std::string error_text(const Error& error, bool colour) {
  std::string out = labelled("sbx:", colour ? kBoldRed : std::string_view(), error.message());
  if (!error.hint().empty()) out += labelled("  fix:", {}, error.hint());
  return out;
}

void print_error(const Error& error) {
  (void)write_fully(Stream::kErr, error_text(error, has_colour(Stream::kErr)));
}

int failed(const Error& error) {
  print_error(error);
  bool is_usage = error.code() == Errc::kUsage || error.code() == Errc::kNotFound ||
                  error.code() == Errc::kExists;
  return is_usage ? kExitUsage : kExitSandbox;
}

void print_warning(std::string_view message) {
  std::string_view colour = has_colour(Stream::kErr) ? kBoldYellow : std::string_view();
  (void)write_fully(Stream::kErr, labelled("sbx: warning:", colour, message));
}

std::string json_string(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    std::size_t valid = text::utf8_valid_prefix(text);
    for (char c : text.substr(0, valid)) {
      auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20) {
        out += "\\u00";
        out += kHex[byte >> 4U];
        out += kHex[byte & 15U];
        continue;
      }
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    if (valid < text.size()) out += "\xef\xbf\xbd";  // U+FFFD for a byte that is no UTF-8
    text.remove_prefix(std::min(valid + 1, text.size()));
  }
  out += '"';
  return out;
}

void report_exception() noexcept {
  auto say = [](std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); };
  say("sbx: internal error: ");
  try {
    throw;
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("unknown exception");
  }
  say("\n");
}

}  // namespace sbx::cli
