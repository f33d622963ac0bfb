// Mistakes test: a profile with everything wrong gets every mistake told, each at its place.
#include <string>
#include <vector>

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::profile::test::Host;

namespace {

struct Expected {
  std::string_view place;    // "LINE:COLUMN: "
  std::string_view message;  // a part of the sentence
};

void check_all(const std::vector<std::string>& found, const std::vector<Expected>& expected) {
  for (std::size_t i = 0; i < std::max(found.size(), expected.size()); ++i) {
    const std::string line = i < found.size() ? found[i] : "(nothing)";
    const Expected want = i < expected.size() ? expected[i] : Expected{"(nothing)", ""};
    CAPTURE(i);
    CAPTURE(want.place);
    CAPTURE(want.message);
    CAPTURE(line);
    CHECK(line.starts_with(want.place));
    CHECK(line.find(want.message) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("mistakes: forty of them in one file are all told, in order, with line and column") {
  const Host host;
  check_all(host.mistakes(R"(extends: pyhton
descripton: hello
isolation: "container"
name: foo
ports: [80]
memory: 512M
language:
  interpreter: python3
  extensions: [py, .tar.gz]
  main: src/main.py
  pakage: python3
env:
  1BAD: x
  EMPTY:
  LIST: [a]
  GOOD: yes
env_pass: [HOME, "A B"]
workdir: work
hostname: -x-
mounts:
  - /data
  - ./x:/etc
  - source: ./a
    target: /a
    mod: rw
  - a:b:c:d
  - {source: ./b, target: /b, mode: rx}
  - ./c:/c
  - ./d:/c
  - ~/.ssh:/s
limits:
  memory: 512
  pids: 1_000
  timeout: 30
  output: 1.5g
  open_files: "1024"
  disk: 17592186044417m
  cpus: .inf
  best_effort: "yes"
  memory: 1G
  Open-Files: 3
capabilities: [sys_admin, net_bind_servce]
nesting: on
require: [/abs, ../x]
<<: {a: b}
colors: !!str red
)"),
            {{"1:10: ", "there is no profile \"pyhton\" (did you mean python?)"},
             {"2:1: ", "did you mean \"description\"?"},
             {"3:12: ", "expected jail, vm or auto, not 'container'"},
             {"4:1: ", "named by its file"},
             {"5:1: ", "not supported by this version"},
             {"6:1: ", "\"memory\" belongs below \"limits\""},
             {"8:16: ", "expected a list, not a single value; write [python3]"},
             {"9:16: ", "'py' is no extension"},
             {"9:20: ", "'.tar.gz' is no extension"},
             {"10:9: ", "plain file name"},
             {"11:3: ", "did you mean \"package\"?"},
             {"13:3: ", "'1BAD' is no variable name"},
             {"14:3: ", "env.EMPTY: has no value"},
             {"15:9: ", "env.LIST: expected a text, not a list"},
             {"17:12: ", "HOME may hold a secret"},
             {"17:18: ", "'A B' is no variable name"},
             {"18:10: ", "absolute path inside"},
             {"19:11: ", "is no host name"},
             {"21:5: ", "'/data' is no mount"},
             {"22:5: ", "must not replace /etc"},
             {"25:5: ", "unknown key 'mod'"},
             {"26:5: ", "src=SRC,dst=DST"},
             {"27:5: ", "mode 'rx' is unknown"},
             {"29:5: ", "'/c' is the target of two mounts"},
             {"30:5: ", "outside the profile's own directory"},
             {"32:11: ", "a bare number is bytes, did you mean 512M?"},
             {"33:9: ", "'1_000' is not a count"},
             {"34:12: ", "'30' has no unit"},
             {"35:11: ", "'1.5g' is not a size"},
             {"36:15: ", "without quotes"},
             {"37:9: ", "too large a size"},
             {"38:9: ", "'.inf' is no number of processors"},
             {"39:16: ", "without quotes, not the text 'yes'"},
             {"40:3: ", "duplicate key \"memory\" (also at line 32)"},
             {"41:3: ", "did you mean \"open_files\"?"},
             {"42:16: ", "'sys_admin' is not given to a sandbox"},
             {"42:27: ", "did you mean CAP_NET_BIND_SERVICE?"},
             {"43:10: ", "expected true or false, not 'on'"},
             {"44:11: ", "relative to the working directory"},
             {"44:17: ", "must not hold \"..\""},
             {"45:1: ", "merge keys (<<) are not supported"},
             {"46:1: ", "unknown key \"colors\"; known:"},
             {"46:9: ", "tag !!str is not understood"}});
}

TEST_CASE("mistakes: after a syntax error the other sections are still read") {
  const Host host;
  check_all(host.mistakes("limits:\n"
                          "  memory: [1, 2\n"
                          "env:\n"
                          "  A: b\n"
                          "description: a: b\n"
                          "hostname: @x\n"
                          "workdir: \"/work\n"
                          "language:\n"
                          "  main: x\n"
                          " package: y\n"
                          "nesting: 3\n"),
            {{"2:11: ", "the [ that opens here is never closed"},
             {"5:15: ", "a colon is not expected here"},
             {"6:11: ", "text cannot start with this character"},
             {"7:10: ", "the \" that opens here is not closed on this line"},
             {"10:2: ", "this line fits to no key above it"},
             {"11:10: ", "nesting: expected true or false"}});
}

TEST_CASE("mistakes: the error of a failed load names the first one and the way to the others") {
  const Host host;
  const auto failed = host.load_text("nesting: yes\nlimits:\n  pids: many\n");
  REQUIRE(!failed.ok());
  CHECK(failed.error().code() == sbx::Errc::kUsage);
  const std::string file = host.path("/project/t.yaml");
  CHECK(failed.error().message() == file + ":1:10: nesting: expected true or false, not 'yes'");
  CHECK(failed.error().hint() == "1 more mistake, see: sbx profile check " + file);
}

TEST_CASE("mistakes: a hostile file makes no endless report and no escape sequence") {
  const Host host;
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    text += "k" + std::to_string(i) + ": 1\n";
  }
  const auto found = host.mistakes(text);
  CHECK(found.size() == 101);
  CHECK(found.back().find("the rest is not shown") != std::string::npos);

  const auto escapes = host.mistakes("\"\\e[31mred\": 1\n");
  REQUIRE(escapes.size() == 1);
  CHECK(escapes[0].find('\x1b') == std::string::npos);
}

TEST_CASE("mistakes: whether a disk larger than the memory can be kept is for the host to say") {
  Host host;
  CHECK(host.mistakes("limits:\n  disk: 1G\n  memory: 256M\n").empty());
}
