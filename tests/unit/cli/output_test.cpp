// Output test: the shape of messages to people, and JSON strings.
#include "cli/output.h"

#include <doctest/doctest.h>

using sbx::Errc;
using sbx::Error;
using sbx::cli::error_text;
using sbx::cli::json_string;

TEST_CASE("output: an error is one line, what mends it a second") {
  CHECK(error_text(Error(Errc::kUsage, "no such profile"), false) == "sbx: no such profile\n");
  CHECK(error_text(Error(Errc::kUsage, "no such profile").with_hint("sbx profile ls"), false) ==
        "sbx: no such profile\n  fix: sbx profile ls\n");
}

TEST_CASE("output: control characters in messages are shown, not obeyed") {
  // NOLINTNEXTLINE(misc-misleading-bidirectional): the character is what is tested
  std::string text = error_text(Error(Errc::kSystem, "exec \x1b]0;x\x07: \xff\xe2\x80\xae"), false);
  CHECK(text == "sbx: exec \\x1b]0;x\\x07: \\xff\\u{202e}\n");
  CHECK(error_text(Error(Errc::kSystem, "one\ntwo"), false) == "sbx: one\n     two\n");
}

TEST_CASE("output: colour surrounds the label only") {
  CHECK(error_text(Error(Errc::kUsage, "m").with_hint("h"), true) ==
        "\x1b[1;31msbx:\x1b[0m m\n  fix: h\n");
}

TEST_CASE("output: JSON strings are escaped and always UTF-8") {
  CHECK(json_string("a\"b\\c\n\x01\x7f") == "\"a\\\"b\\\\c\\u000a\\u0001\x7f\"");
  CHECK(json_string("\xc3\xa9") == "\"\xc3\xa9\"");
  CHECK(json_string("a\xff"
                    "b") ==
        "\"a\xef\xbf\xbd"
        "b\"");
}
