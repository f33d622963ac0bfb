// Batch lines: cuts a stream of bytes into numbered lines of bounded length. Knows nothing of JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::run {

struct NumberedLine {
  std::uint64_t number = 0;  ///< from 1
  std::string text;          ///< without its end ("\n" or "\r\n")
};

/// Takes what was read and gives whole lines. Blank lines are counted and not given.
class LineCutter {
 public:
  explicit LineCutter(Bytes longest) : longest_(longest) {}

  /// More of the stream.
  void feed(std::string_view bytes) { buffer_ += bytes; }
  /// The stream has ended: a last line needs no newline.
  void end() { is_ended_ = true; }
  /// The next line that is not blank; nullopt when more is to be fed, or all was given. kUsage
  /// (with the line's number) for one that is too long.
  Result<std::optional<NumberedLine>> next();
  /// Nothing will come any more.
  bool is_done() const { return is_ended_ && begin_ == buffer_.size(); }

 private:
  void forget_given();

  Bytes longest_;
  std::string buffer_;
  std::size_t begin_ = 0;    // of the line that comes next
  std::size_t scanned_ = 0;  // no newline between begin_ and here
  std::uint64_t number_ = 0;
  bool is_ended_ = false;
};

}  // namespace sbx::run
