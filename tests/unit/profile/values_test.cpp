// Values test: each type of key, what it takes and what it refuses.
#include <string>
#include <vector>

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::Bytes;
using sbx::Millis;
using sbx::profile::test::Host;

namespace {

struct Row {
  std::string_view value;
  std::string_view complaint;  // a part of the sentence; empty: accepted
};

// NOLINTNEXTLINE(readability-function-size): doctest macros count as branches
void check_rows(const Host& host, std::string_view prefix, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(prefix);
    CAPTURE(row.value);
    const auto found = host.mistakes(std::string(prefix) + std::string(row.value) + "\n");
    if (row.complaint.empty()) {
      CHECK_MESSAGE(found.empty(), found.at(0));
    } else {
      REQUIRE(!found.empty());
      CHECK_MESSAGE(found[0].find(row.complaint) != std::string::npos, found[0]);
    }
  }
}

}  // namespace

TEST_CASE("values: sizes never wrap and never mean something else") {
  const Host host;
  check_rows(host,
             "limits:\n  memory: ",
             {{"512M", ""},
              {"1g", ""},
              {"1GiB", ""},
              {"\"512M\"", ""},
              {"536870912", ""},
              {"unlimited", ""},
              {"17592186044417m", "too large a size"},
              {"18446744073709551616", "too large a size"},
              {"99T", "the most is 16T"},
              {"1e30", "is not a size"},
              {"-1", "is not a size"},
              {"1.5g", "is not a size"},
              {"0x10", "is not a size"},
              {"010", "is not a size"},
              {"1_000", "is not a size"},
              {"no", "is not a size"},
              {"\"\"", "is not a size"},
              {".inf", "is not a size"},
              {"512", "did you mean 512M?"},
              {"0", "for no limit write unlimited"},
              {"none", "is not a size"},
              {"[512M]", "not a list"},
              {"{a: b}", "not a map"},
              {"", "has no value"},
              {"~", "has no value"}});
  const auto profile = host.load_text("limits:\n  memory: 1g\n  disk: 100k\n  output: 0\n");
  REQUIRE(profile.ok());
  CHECK(profile.value().limits.memory == Bytes{1UL << 30U});
  CHECK(profile.value().limits.disk == Bytes{102400});
  CHECK(profile.value().limits.output == Bytes{0});
}

TEST_CASE("values: durations have a unit") {
  const Host host;
  check_rows(host,
             "limits:\n  timeout: ",
             {{"30s", ""},
              {"500ms", ""},
              {"2h", ""},
              {"365d", ""},
              {"unlimited", ""},
              {"30", "has no unit"},
              {"0s", "the least is 10ms (for no limit write unlimited)"},
              {"366d", "the most is 365d"},
              {"1.5h", "is not a duration"},
              {"-3s", "is not a duration"},
              {"5 m", "is not a duration"},
              {"99999999999999999999d", "too long a duration"}});
  CHECK(host.load_text("limits: {timeout: 2m}").value().limits.timeout == Millis{120000});
}

TEST_CASE("values: counts are plain decimal numbers") {
  const Host host;
  check_rows(host,
             "limits:\n  pids: ",
             {{"1", ""},
              {"unlimited", ""},
              {"\"256\"", "without quotes"},
              {"0", "the least is 1"},
              {"010", "is not a count"},
              {"1_000", "is not a count"},
              {"0x10", "is not a count"},
              {"+5", "is not a count"},
              {"1.0", "is not a count"},
              {".inf", "is not a count"},
              {"99999999999999999999", "too large"},
              {"4194305", "the most is 4194304"}});
  check_rows(
      host, "limits:\n  open_files: ", {{"unlimited", "is not a count"}, {"15", "least is 16"}});
}

TEST_CASE("values: processors are decimals in thousandths") {
  const Host host;
  check_rows(host,
             "limits:\n  cpus: ",
             {{"1", ""},
              {"1.5", ""},
              {"0.25", ""},
              {"unlimited", ""},
              {"0", "the least is 0.01"},
              {"0.001", "the least is 0.01"},
              {"1025", "the most is 1024"},
              {"1.2345", "at most three decimals"},
              {"1,5", "at most three decimals"},
              {"01", "at most three decimals"},
              {".5", "at most three decimals"},
              {"5.", "at most three decimals"},
              {"1e3", "at most three decimals"},
              {"-1", "at most three decimals"},
              {".nan", "at most three decimals"},
              {"9999999999", "at most three decimals"}});
  CHECK(host.load_text("limits: {cpus: 0.25}").value().limits.cpu_millis == 250);
  CHECK(host.load_text("limits: {cpus: 2}").value().limits.cpu_millis == 2000);
}

TEST_CASE("values: booleans are true and false, unquoted") {
  const Host host;
  check_rows(host,
             "nesting: ",
             {{"true", ""},
              {"false", ""},
              {"\"true\"", "without quotes, not the text 'true'"},
              {"'yes'", "without quotes"},
              {"yes", "expected true or false, not 'yes'"},
              {"on", "expected true or false"},
              {"True", "expected true or false"},
              {"1", "expected true or false"},
              {"[true]", "not a list"},
              {"", "has no value"}});
}

TEST_CASE("values: isolation is one of three words") {
  const Host host;
  check_rows(
      host,
      "isolation: ",
      {{"jail", ""}, {"vm", ""}, {"auto", ""}, {"Jail", "not 'Jail'"}, {"docker", "docker"}});
  CHECK(host.load_text("isolation: vm").value().isolation == Isolation::kVm);
}

TEST_CASE("values: variables keep their text whatever YAML makes of it") {
  const Host host;
  const auto profile = host.load_text(
      "env:\n  A: 010\n  B: yes\n  C: \"\"\n  D: 1.50\n  E: |\n    two\n    lines\n  F: ~x\n"
      "  G: 'a=b'\n");
  REQUIRE(profile.ok());
  const std::vector<std::string> expected{"010", "yes", "", "1.50", "two\nlines\n", "~x", "a=b"};
  REQUIRE(profile.value().env.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(profile.value().env[i].value == expected[i]);
  }
  check_rows(host,
             "env:\n  ",
             {{"A: ~", "has no value; write \"\" for an empty one"},
              {"A: \"a\\0b\"", "NUL byte"},
              {"A: {}", "not a map"},
              {"\"A=B\": x", "is no variable name"},
              {"\"\": x", "is no variable name"},
              {"2A: x", "is no variable name"},
              {"A-B: x", "is no variable name"},
              {"A: x\n  A: y", "duplicate key"}});
  check_rows(host, "env: ", {{"{}", ""}, {"", "write {}"}, {"[A=b]", "expected a map"}});
}

TEST_CASE("values: lists are lists of texts") {
  const Host host;
  check_rows(host,
             "require: ",
             {{"[]", ""},
              {"['*.png', out/a]", ""},
              {"'*.png'", "expected a list, not a single value; write [*.png]"},
              {"", "write [] for an empty list"},
              {"[[a]]", "not a list"},
              {"[~]", "has no value"},
              {"{a: b}", "not a map"}});
  CHECK(host.load_text("capabilities: [net_bind_service, CAP_KILL]").value().capabilities ==
        std::vector<std::string>{"CAP_NET_BIND_SERVICE", "CAP_KILL"});
}

TEST_CASE("values: a description is one line, also from a folded block") {
  const Host host;
  CHECK(host.load_text("description: >\n  one\n  two\n").value().description == "one two");
  check_rows(host, "description: ", {{"\"a\\nb\"", "one line"}, {"\"\\e[1m\"", "one line"}});
}

TEST_CASE("values: groups want keys below them") {
  const Host host;
  check_rows(host,
             "limits: ",
             {{"512M", "expected keys below it"},
              {"", "expected keys below it"},
              {"[]", "expected keys below it"},
              {"{}", ""}});
}
