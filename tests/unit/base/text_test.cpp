// Tests of text: joining, escaping for terminals, UTF-8, suggestions, encodings.
#include "core/base/text.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

using namespace sbx;
using namespace std::string_view_literals;

TEST_CASE("text: cat joins strings, characters and integers") {
  const std::string owned = "owned";
  CHECK(text::cat() == "");
  CHECK(text::cat("a", owned, "b"sv, 'c', 7, -7, 0U) == "aownedbc7-70");
  CHECK(text::cat(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  CHECK(text::cat(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615");
  CHECK(text::cat("nul\0in"sv).size() == 6);
}

TEST_CASE("text: escape makes terminal controls and hidden characters visible") {
  struct Row {
    std::string_view raw, shown;
  };
  constexpr std::array kRows{
      Row{"plain text ~", "plain text ~"},
      Row{"back\\slash", "back\\slash"},
      Row{"two\nlines\t\r", "two\\nlines\\t\\r"},
      Row{"\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"},
      Row{"\0"sv, "\\x00"},
      Row{"\x7f", "\\x7f"},
      Row{"\xc2\x9b"
          "31m",
          "\\u{9b}31m"},     // C1 CSI as UTF-8
      Row{"\x9b", "\\x9b"},  // C1 CSI as a raw byte
      Row{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
      // NOLINTNEXTLINE(misc-misleading-bidirectional): that is what is tested
      Row{"a\xe2\x80\xae", "a\\u{202e}"},  // right-to-left override
      // NOLINTNEXTLINE(misc-misleading-bidirectional): that is what is tested
      Row{"a\xe2\x81\xa6", "a\\u{2066}"},               // isolate
      Row{"\xe2\x80\xa8", "\\u{2028}"},                 // line separator
      Row{"\xef\xbb\xbf", "\\u{feff}"},                 // byte order mark
      Row{"\xf3\xa0\x80\xa0", "\\u{e0020}"},            // tag
      Row{"\xe2\x80\x8d", "\xe2\x80\x8d"},              // zero width joiner: emoji need it
      Row{"\xc0\xaf", "\\xc0\\xaf"},                    // overlong
      Row{"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},           // overlong
      Row{"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // surrogate
      Row{"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // above U+10FFFF
      Row{"\xe2\x82", "\\xe2\\x82"},                    // cut
      Row{"\xe2\x82x", "\\xe2\\x82x"},                  // cut, and the next character survives
  };
  for (const Row& row : kRows) {
    CHECK(text::escape(row.raw) == row.shown);
    CHECK(text::escape(text::escape(row.raw)) == row.shown);
  }
}

TEST_CASE("text: no output of escape holds a control byte or invalid UTF-8, for any two bytes") {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string raw{static_cast<char>(a), static_cast<char>(b)};
      const std::string shown = text::escape(raw);
      bool is_safe = text::is_utf8(shown);
      for (const char c : shown) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) is_safe = false;
      }
      if (!is_safe) FAIL_CHECK(a, " ", b);
    }
  }
}

TEST_CASE("text: the valid UTF-8 prefix ends before a cut character") {
  CHECK(text::utf8_valid_prefix("") == 0);
  CHECK(text::utf8_valid_prefix("abc") == 3);
  CHECK(text::utf8_valid_prefix("ab\xc3\xa9") == 4);
  CHECK(text::utf8_valid_prefix("ab\xc3") == 2);
  CHECK(text::utf8_valid_prefix("\xf0\x9f\x98") == 0);
  CHECK(text::is_utf8("\xf4\x8f\xbf\xbf"));
  CHECK(!text::is_utf8("\xff"));
}

TEST_CASE("text: closest offers the nearest word or none") {
  const std::vector<std::string_view> words{"memory", "timeout", "pids", "output", "python"};
  CHECK(text::closest("memroy", words) == "memory");
  CHECK(text::closest("timeot", words) == "timeout");
  CHECK(text::closest("pyhton", words) == "python");
  CHECK(text::closest("pid", words) == "pids");
  CHECK(text::closest("xyz", words) == std::nullopt);
  CHECK(text::closest("", words) == std::nullopt);
  CHECK(text::closest(std::string(100'000, 'm'), words) == std::nullopt);
  const std::vector<std::string> owned{"run", "profile"};
  CHECK(text::closest("rnu", owned) == "run");
  CHECK(text::closest("profil", owned) == "profile");
}

TEST_CASE("text: split keeps empty fields, trim keeps the middle") {
  CHECK(text::split("a,b,,c", ',') == std::vector{"a"sv, "b"sv, ""sv, "c"sv});
  CHECK(text::split("", ',') == std::vector{""sv});
  CHECK(text::split(",", ',') == std::vector{""sv, ""sv});
  CHECK(text::trim(" \t a b\r\n") == "a b");
  CHECK(text::trim(" \n") == "");
  CHECK(text::join(std::vector<std::string>{"a", "b", ""}, ", ") == "a, b, ");
}

TEST_CASE("text: base64 pads, hex has two digits a byte") {
  CHECK(text::base64("") == "");
  CHECK(text::base64("f") == "Zg==");
  CHECK(text::base64("fo") == "Zm8=");
  CHECK(text::base64("foo") == "Zm9v");
  CHECK(text::base64("foobar") == "Zm9vYmFy");
  CHECK(text::base64("\xff\xfe\xfd\0"sv) == "//79AA==");
  const std::array bytes{std::byte{0}, std::byte{0x1f}, std::byte{0xff}};
  CHECK(text::hex(bytes) == "001fff");
}
