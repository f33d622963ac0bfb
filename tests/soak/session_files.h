// session_files: the files that the storm writes into sessions: f1, f2 … with a content of their
// own.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

namespace sbx::test {

using Files = std::set<int>;  ///< by their numbers

inline std::string content_of(int number) {
  constexpr int kLines = 60;
  std::string text;
  for (int i = 0; i < kLines; ++i) {
    text += std::to_string(number) + " line\n";
  }
  return text;
}

/// A file that takes up all that is free.
inline void fill_disk(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0644);
  const std::string block(4096, 'x');
  while (::write(fd, block.data(), block.size()) > 0) {
  }
  ::close(fd);
}

/// Prints all of them; exits with 1 when there is none.
inline constexpr std::string_view kPrintFiles = "tail -c +1 -- f* /dev/null";

/// The numbers of the whole files in what that printed, and of the others.
inline Files whole_files(const std::string& printed, Files& broken) {
  constexpr std::string_view kHead = "==> f";
  constexpr std::string_view kTail = " <==\n";
  Files whole;
  std::size_t at = printed.find(kHead);
  while (at != std::string::npos) {
    const std::size_t body = printed.find(kTail, at) + kTail.size();
    const int number = std::atoi(printed.c_str() + at + kHead.size());
    const std::string want = content_of(number);
    (printed.compare(body, want.size(), want) == 0 ? whole : broken).insert(number);
    at = printed.find(kHead, body);
  }
  return whole;
}

}  // namespace sbx::test
