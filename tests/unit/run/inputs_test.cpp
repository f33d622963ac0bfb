// inputs_test: names, conflicts and refusals of -i.
#include "core/run/inputs.h"

#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/sys.h"

#include "tests/unit/run/tree.h"

namespace sbx::run {

namespace {

/// The name inside that `spec` gives, or the error's text.
std::string name_of(const std::string& spec) {
  Inputs inputs;
  const Status added = inputs.add(spec);
  return added.ok() ? inputs.mounts()[0].name : "error: " + added.error().to_string();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("inputs: a file and a directory come under their own name, with the real path") {
  const Tree tree;
  tree.write("data.csv", "1");
  tree.mkdir("dir");
  REQUIRE(sys::symlinkat("data.csv", tree.fd(), "link.csv").ok());
  Inputs inputs;
  REQUIRE(inputs.add(tree.at("data.csv")).ok());
  REQUIRE(inputs.add(tree.at("dir/")).ok());
  REQUIRE(inputs.add(tree.at("link.csv")).ok());
  REQUIRE(inputs.mounts().size() == 3);
  CHECK(inputs.mounts()[0].name == "data.csv");
  CHECK_FALSE(inputs.mounts()[0].is_dir);
  CHECK(inputs.mounts()[1].name == "dir");
  CHECK(inputs.mounts()[1].is_dir);
  CHECK(inputs.mounts()[2].name == "link.csv");
  CHECK(inputs.mounts()[2].host_path == inputs.mounts()[0].host_path);
  CHECK(inputs.names() == std::vector<std::string>{"data.csv", "dir", "link.csv"});
}

TEST_CASE("inputs: HOST=INSIDE, and names that hold = themselves") {
  const Tree tree;
  tree.write("a", "1");
  tree.write("b=c", "1");
  CHECK(name_of(tree.at("a=other")) == "other");
  CHECK(name_of(tree.at("a=/work/other")) == "other");
  CHECK(name_of(tree.at("b=c")) == "b=c");
  CHECK(name_of(tree.at("b=c=d")) == "d");
  CHECK(name_of(tree.at("a=x=y")) == "x=y");
}

TEST_CASE("inputs: names of any bytes") {
  const Tree tree;
  for (const std::string name : {"sp ace",
                                 "quo'te\"",
                                 "(paren)",
                                 "$HOME",
                                 "new\nline",
                                 "-dash",
                                 "co:lon,comma",
                                 "gr\xc3\xbc\xc3\x9f",
                                 "bad\xff\xfe"}) {
    CAPTURE(name);
    tree.write(name, "1");
    CHECK(name_of(tree.at(name)) == name);
  }
}

TEST_CASE("inputs: . and .. get the name of the directory that they are") {
  const Tree tree;
  tree.mkdir("sub");
  CHECK(name_of(tree.at("sub/.")) == "sub");
  CHECK(has(name_of("/"), "is no name for /work"));
}

TEST_CASE("inputs: what cannot be an input is refused with the way out") {
  const Tree tree;
  tree.write("f", "1");
  REQUIRE(::mkfifo(tree.at("pipe").c_str(), 0600) == 0);
  CHECK(has(name_of(tree.at("missing")), "No such file"));
  CHECK(has(name_of(tree.at("missing=x")), "No such file"));
  CHECK(has(name_of(tree.at("pipe")), "is a pipe"));
  CHECK(has(name_of("/dev/null"), "is a device"));
  CHECK(has(name_of(""), "empty"));
  for (const std::string bad : {"", ".", "..", "a/b", "../x", "/etc/passwd"}) {
    CAPTURE(bad);
    CHECK(has(name_of(tree.at("f=" + bad)), "is no name for /work"));
  }
  Inputs inputs;
  CHECK(inputs.add_script(tree.path()).error().message().find("is a directory") !=
        std::string::npos);
}

TEST_CASE("inputs: a name is given once; the message tells who has it") {
  const Tree tree;
  tree.mkdir("x");
  tree.mkdir("y");
  tree.write("x/f", "1");
  tree.write("y/f", "2");
  Inputs inputs;
  REQUIRE(inputs.add(tree.at("x/f")).ok());
  const Status second = inputs.add(tree.at("y/f"));
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().code() == Errc::kUsage);
  CHECK(has(second.error().message(), tree.at("x/f")));
  CHECK(has(second.error().hint(), "-i HOST=NAME"));
  CHECK_FALSE(inputs.add_text("f", "code").ok());
  CHECK(inputs.add(tree.at("y/f=g")).ok());
}

TEST_CASE("inputs: a file of /proc goes in with what a read of it gives, a directory is refused") {
  const Tree tree;
  REQUIRE(sys::symlinkat("/proc/version", tree.fd(), "link").ok());
  Inputs inputs;
  REQUIRE(inputs.add("/proc/version=v").ok());
  REQUIRE(inputs.add(tree.at("link")).ok());
  CHECK(inputs.mounts().empty());
  REQUIRE(inputs.files().size() == 2);
  CHECK(inputs.files()[0].path == "/work/v");
  CHECK(has(inputs.files()[0].content, "Linux version"));
  CHECK(inputs.files()[1].path == "/work/link");
  CHECK(has(inputs.files()[1].content, "Linux version"));
  CHECK(inputs.names() == std::vector<std::string>{"v", "link"});
  CHECK(has(inputs.add("/proc/stat=v").error().message(), "taken by /proc/version"));
  CHECK(has(name_of("/proc"), "is in the host's /proc"));
  CHECK(has(name_of("/proc/self/fd"), "is in the host's /proc"));
  CHECK(has(inputs.add_script("/proc/version").error().message(), "is in the host's /proc"));
}

TEST_CASE("inputs: text of sbx's own lies in /work, or where it says") {
  Inputs inputs;
  REQUIRE(inputs.add_text("main.py", "print(1)").ok());
  REQUIRE(inputs.add_text("/run/sbx/python/x.py", "pass").ok());
  REQUIRE(inputs.files().size() == 2);
  CHECK(inputs.files()[0].path == "/work/main.py");
  CHECK(inputs.files()[1].path == "/run/sbx/python/x.py");
  CHECK(inputs.names() == std::vector<std::string>{"main.py"});
}

TEST_CASE("inputs: sbx's own directories, what holds them and what lies in them are refused") {
  const Tree tree;
  tree.mkdir("home");
  tree.mkdir("home/state");
  tree.mkdir("home/statement");
  tree.write("home/state/secret", "1");
  tree.write("home/f", "1");
  Inputs inputs({tree.at("home/state")});
  CHECK_FALSE(inputs.add(tree.at("home")).ok());
  CHECK_FALSE(inputs.add(tree.at("home/state")).ok());
  CHECK_FALSE(inputs.add(tree.at("home/state/secret")).ok());
  CHECK_FALSE(inputs.add("/=root").ok());
  CHECK(inputs.add(tree.at("home/statement")).ok());
  CHECK(inputs.add(tree.at("home/f")).ok());
}

}  // namespace sbx::run
