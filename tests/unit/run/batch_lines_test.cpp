// batch_lines_test: lines out of pieces of any size.
#include "core/run/batch_lines.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sbx;
using namespace sbx::run;

namespace {

/// Adds "1:a 3:b " of what the cutter has now.
void take(LineCutter& cutter, std::string& all) {
  for (auto line = cutter.next(); line.ok() && line.value(); line = cutter.next()) {
    all += std::to_string(line.value()->number) + ":" + line.value()->text + " ";
  }
}

/// The lines of a text that comes in pieces of `size`; "?" at the end when some are not given.
std::string cut(const std::string& text, std::size_t size) {
  LineCutter cutter(Bytes{100});
  std::string all;
  for (std::size_t at = 0; at < text.size(); at += size) {
    cutter.feed(std::string_view(text).substr(at, size));
    take(cutter, all);
  }
  cutter.end();
  take(cutter, all);
  return cutter.is_done() ? all : all + "?";
}

}  // namespace

TEST_CASE("batch lines: blank lines count, and the last line needs no newline") {
  for (const std::size_t size : {1U, 2U, 3U, 1000U}) {
    CHECK(cut("a\n\n  \nb\r\nc", size) == "1:a 4:b 5:c ");
    CHECK(cut("a\n", size) == "1:a ");
    CHECK(cut("\n\n", size) == "");
    CHECK(cut("", size) == "");
  }
}

TEST_CASE("batch lines: a line that is too long is an error with its number before it is whole") {
  LineCutter cutter(Bytes{10});
  cutter.feed("1234567890\n12345678901");
  auto first = cutter.next();
  REQUIRE(first.ok());
  CHECK(first.value()->text == "1234567890");
  auto second = cutter.next();
  REQUIRE(!second.ok());
  CHECK(second.error().code() == Errc::kUsage);
  CHECK(second.error().message().find("line 2 is longer than 10") != std::string::npos);
}

TEST_CASE("batch lines: a million lines are cut without keeping them") {
  LineCutter cutter(Bytes{1000});
  std::uint64_t lines = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string piece;
    for (int k = 0; k < 1000; ++k) {
      piece += "line\n";
    }
    cutter.feed(piece);
    for (auto line = cutter.next(); line.ok() && line.value(); line = cutter.next()) {
      ++lines;
      REQUIRE(line.value()->number == lines);
    }
  }
  CHECK(lines == 1'000'000);
}
