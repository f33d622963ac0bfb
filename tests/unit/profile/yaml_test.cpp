// Yaml test: texts to trees, with positions, and what is refused.
#include "core/profile/yaml.h"

#include <string>
#include <vector>

#include "tests/unit/profile/support.h"

using namespace sbx::profile;

namespace {

/// "{a: [b, 'c'], d: ~}" for a tree.
std::string shown(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "~";
    case YamlNode::Kind::kScalar:
      return node.is_quoted ? "'" + node.text + "'" : node.text;
    case YamlNode::Kind::kList: {
      std::string out = "[";
      for (const YamlNode& item : node.items) {
        out += (out.size() > 1 ? ", " : "") + shown(item);
      }
      return out + "]";
    }
    case YamlNode::Kind::kMap: {
      std::string out = "{";
      for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
        out += (i > 0 ? ", " : "") + shown(node.items[i]) + ": " + shown(node.items[i + 1]);
      }
      return out + "}";
    }
  }
  return "?";
}

std::string parsed(std::string_view text) {
  Diagnostics diagnostics("t");
  const YamlNode root = parse_yaml(text, diagnostics);
  for (const Diagnostic& each : diagnostics.take()) {
    FAIL_CHECK(each.to_string());
  }
  return shown(root);
}

std::vector<std::string> mistakes(std::string_view text) {
  Diagnostics diagnostics("t");
  static_cast<void>(parse_yaml(text, diagnostics));
  std::vector<std::string> out;
  for (const Diagnostic& each : diagnostics.take()) {
    out.push_back(each.to_string());
  }
  return out;
}

}  // namespace

TEST_CASE("yaml: ordinary files become trees, quotes and block scalars are marked as text") {
  CHECK(parsed("a: 1\nb: [x, 'y', \"z\"]\nc:\n  d: ~\n  e:\n") ==
        "{a: 1, b: [x, 'y', 'z'], c: {d: ~, e: ~}}");
  CHECK(parsed("a: |\n  one\n  two\nb: >-\n  x\n  y\n") == "{a: 'one\ntwo\n', b: 'x y'}");
  CHECK(parsed("# c\n---\na: b # c\n...\n") == "{a: b}");
  CHECK(parsed("%YAML 1.2\n---\na: b\n") == "{a: b}");
  CHECK(parsed("a: 'it''s'\nb: \"\\\"q\\\" \\u00e9\"\n") == "{a: 'it's', b: '\"q\" é'}");
  CHECK(parsed("a: |\n  x\n  \ty\n") == "{a: 'x\n\ty\n'}");
}

TEST_CASE("yaml: a byte order mark and CRLF line ends are read as if they were not there") {
  CHECK(parsed("\xEF\xBB\xBF"
               "a: 1\r\nb:\r\n  - x\r\n") == "{a: 1, b: [x]}");
}

TEST_CASE("yaml: small aliases stand for their anchors") {
  CHECK(parsed("a: &x [1, 2]\nb: *x\nc: {d: *x}\n") == "{a: [1, 2], b: [1, 2], c: {d: [1, 2]}}");
  CHECK(parsed("a: &x 1\nb: &x 2\nc: *x\n") == "{a: 1, b: 2, c: 2}");
}

TEST_CASE("yaml: positions are lines and characters") {
  Diagnostics diagnostics("t");
  const YamlNode root = parse_yaml("a: é\né: [1, \"x\", é, ü: 3]\nc:\nd: 4", diagnostics);
  REQUIRE(root.items.size() == 8);
  CHECK(root.items[2].at.line == 2);
  CHECK(root.items[2].at.column == 1);
  const YamlNode& list = root.items[3];
  CHECK(list.at.column == 4);
  REQUIRE(list.items.size() == 4);
  CHECK(list.items[1].at.column == 8);
  CHECK(list.items[2].at.column == 13);
  CHECK(list.items[3].at.column == 16);
  // A missing value stands where its key is, not where the next one is.
  CHECK(root.items[5].at.line == 3);
  CHECK(root.items[5].at.column == 1);
}

TEST_CASE("yaml: what is not plain YAML is refused with its place") {
  struct Row {
    std::string_view text;
    std::string_view expected;
  };
  const std::string_view utf16(
      "\xFF\xFE"
      "a\0:\0",
      6);
  const std::string_view utf16_no_mark("a\0:\0", 4);
  const std::string_view nul("a: b\0c\n", 7);
  for (const Row& row : std::vector<Row>{
           {"", "t:1:1: the profile is empty"},
           {"# nothing\n", "t:1:1: the profile is empty"},
           {"---\n", "t:1:1: the profile is empty"},
           {utf16, "t:1:1: the file is UTF-16"},
           {utf16_no_mark, "t:1:1: the file is UTF-16"},
           {nul, "t:1:5: NUL byte"},
           {"a: \x01", "t:1:4: invisible character \\x01"},
           // NOLINTNEXTLINE(misc-misleading-bidirectional): the character is what is tested
           {"a: b\xE2\x80\xAE c", "t:1:5: invisible character \\u{202e}"},
           {"a: caf\xE9\n", "t:1:7: byte 0xe9 is not UTF-8"},
           {"a:\n\tb: 1\n", "t:2:1: indented with a tab"},
           {"a:\n  b: 1\n  \tc: 1\n", "t:3:3: indented with a tab"},
           {"a: 1\nb: 2\na: 3\n", "t:3:1: duplicate key \"a\" (also at line 1)"},
           {"a: 1\n\"a\": 3\n", "t:2:1: duplicate key \"a\""},
           {"a:\n  - {b: 1, b: 2}\n", "t:2:12: duplicate key \"b\" (also at line 2)"},
           {"a: 1\n---\nb: 2\n", "t:2:1: a second document"},
           {"a: !!str 1\n", "t:1:4: tag !!str"},
           {"a: !x {}\n", "t:1:4: tag !x"},
           {"a: &x 1\n<<: *x\n", "t:2:1: merge keys"},
           {"? [a]\n: b\n", "t:1:3: a key must be plain text"},
           {": b\n", "t:1:1: a key is missing"},
           {"a: *x\n", "t:1:4: this alias stands for nothing"},
           {"a: \"b\nc: d\n", "t:1:4: the \" that opens here is not closed"},
           {"a: 'b\n  c'\n", "t:1:4: the ' that opens here is not closed"},
           {"a: \"b", "t:1:4: the \" that opens here is not closed"},
           {"a: {b: c\n", "t:1:4: the { that opens here is never closed"},
           {"a: b: c\n", "t:1:5: a colon is not expected here"},
           {"a: @b\n", "t:1:4: text cannot start with this character"},
           {"a: *\n", "t:1:5: text that starts with * must be in quotes"},
       }) {
    CAPTURE(row.text);
    const std::vector<std::string> found = mistakes(row.text);
    REQUIRE(!found.empty());
    CHECK_MESSAGE(found[0].starts_with(row.expected), found[0]);
  }
}

TEST_CASE("yaml: flow text after --set is read without positions") {
  Diagnostics diagnostics("--set x");
  const YamlNode node = parse_yaml_flow("[a, {b: c}]", diagnostics);
  CHECK(diagnostics.empty());
  CHECK(shown(node) == "[a, {b: c}]");
  CHECK(node.items[0].at.line == 0);
  static_cast<void>(parse_yaml_flow("[a", diagnostics));
  const auto found = diagnostics.take();
  REQUIRE(found.size() == 1);
  CHECK(found[0].to_string() == "--set x: the [ that opens here is never closed");
}
