// languages_table: small programs in every language that a shipped profile runs.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace sbx::test {

struct LanguagePrograms {
  std::string_view profile;
  std::string_view file;    ///< its ending chooses the profile
  std::string_view memory;  ///< enough for compiler and program, little enough to be used up soon

  std::string_view hello;  ///< prints "hello"
  /// Reads a line, prints "hello|" and its arguments and the line, each behind another |; writes
  /// the line to made.txt; ends with 3.
  std::string_view everything;
  std::vector<std::string_view> args;
  std::string_view everything_prints;
  std::string_view fails;  ///< an error at run time, with the word boom where the language can
  std::string_view fails_says;
  std::string_view broken;  ///< does not compile; empty: the language has no such thing
  std::string_view forever;
  std::string_view hog;  ///< takes ever more memory
};

std::span<const LanguagePrograms> language_programs();

}  // namespace sbx::test
