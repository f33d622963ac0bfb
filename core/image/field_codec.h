// Field codec: texts and numbers one after the other in a string, for what one process of an import
// says to another. The reading side takes nothing on trust.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace sbx::image {

class FieldWriter {
 public:
  void add(std::string_view bytes);
  void add(std::uint64_t number);
  /// An error, or that there is none.
  void add(const Status& status);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Every function: kProtocol when the text is malformed.
class FieldReader {
 public:
  /// `text` has to outlive this.
  explicit FieldReader(std::string_view text) : text_(text) {}

  Result<std::string_view> bytes();
  Result<std::uint64_t> number();
  /// A number that is at most `most`.
  Result<std::uint64_t> number(std::uint64_t most);
  /// A count of things that follow, each of which takes at least one byte.
  Result<std::uint64_t> count();
  /// What add(Status) wrote, into `status`.
  Status read(Status& status);
  /// Nothing may follow.
  Status end() const;

 private:
  std::string_view text_;
};

}  // namespace sbx::image
