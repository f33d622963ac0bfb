// program_test: which profile a program gets, its argv and environment.
#include "core/run/program.h"

#include <unistd.h>

#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/unit/run/tree.h"

namespace sbx::run {

namespace {

profile::LoadRequest request_without_environment() {
  profile::LoadRequest request;
  request.env = [](const std::string&) { return std::nullopt; };
  request.dirs = profile::SearchDirs{};
  return request;
}

Options options_for(ProgramKind kind, const std::string& text, std::vector<std::string> args = {}) {
  Options options;
  options.program = {kind, text, std::move(args)};
  options.env = [](const std::string&) { return std::nullopt; };
  return options;
}

std::string profile_for(ProgramKind kind, const std::string& text) {
  auto script = read_script(options_for(kind, text), request_without_environment());
  return script.ok() ? script.value().fallback : "error: " + script.error().to_string();
}

profile::Profile profile_with(std::vector<std::string> interpreter, std::string main) {
  profile::Profile profile;
  profile.name = "test";
  profile.language.interpreter = std::move(interpreter);
  profile.language.main = std::move(main);
  return profile;
}

}  // namespace

TEST_CASE("program: the profile comes from the ending, then from the #! line") {
  const Tree tree;
  tree.write("a.py", "print(1)");
  tree.write("b.js", "1");
  tree.write("c.sh", "echo");
  tree.write("script", "#!/usr/bin/env python3\nprint(1)");
  tree.write("shell", "#!/bin/bash -e\n");
  tree.write("odd", "#!/usr/bin/forth\n");
  tree.write("binary",
             "\x7f"
             "ELF",
             0755);
  tree.write("plain", "hello");
  CHECK(profile_for(ProgramKind::kFile, tree.at("a.py")) == "python");
  CHECK(profile_for(ProgramKind::kFile, tree.at("b.js")) == "node");
  CHECK(profile_for(ProgramKind::kFile, tree.at("c.sh")) == "bash");
  CHECK(profile_for(ProgramKind::kFile, tree.at("script")) == "python");
  CHECK(profile_for(ProgramKind::kFile, tree.at("shell")) == "bash");
  CHECK(profile_for(ProgramKind::kFile, tree.at("odd")) == "base");
  CHECK(profile_for(ProgramKind::kFile, tree.at("binary")) == "base");
  const std::string refused = profile_for(ProgramKind::kFile, tree.at("plain"));
  CHECK(refused.find("cannot tell") != std::string::npos);
  CHECK(refused.find("-p PROFILE") != std::string::npos);
  CHECK(profile_for(ProgramKind::kFile, tree.at("missing")).find("No such file") !=
        std::string::npos);
  CHECK(profile_for(ProgramKind::kCode, "x") == "python");
  CHECK(profile_for(ProgramKind::kCommand, "") == "base");
}

TEST_CASE("program: every language is chosen by its endings and #! lines") {
  struct Row {
    const char* name;
    const char* text;
    const char* profile;
  };
  const Tree tree;
  for (const Row& row : std::initializer_list<Row>{
           {"a.py", "", "python"},
           {"a.js", "", "node"},
           {"a.mjs", "", "node"},
           {"a.cjs", "", "node"},
           {"a.sh", "", "bash"},
           {"a.bash", "", "bash"},
           {"a.pl", "", "perl"},
           {"a.rb", "", "ruby"},
           {"a.php", "", "php"},
           {"a.lua", "", "lua"},
           {"a.R", "", "r"},
           {"a.r", "", "r"},
           {"a.tcl", "", "tcl"},
           {"a.awk", "", "awk"},
           {"a.sql", "", "sqlite"},
           {"a.c", "", "c"},
           {"a.cc", "", "cpp"},
           {"a.cpp", "", "cpp"},
           {"a.cxx", "", "cpp"},
           {"a.rs", "", "rust"},
           {"a.go", "", "go"},
           {"a.java", "", "java"},
           {"perl", "#!/usr/bin/perl -w\n", "perl"},
           {"ruby", "#!/usr/bin/env ruby\n", "ruby"},
           {"php", "#!/usr/bin/env php\n", "php"},
           {"lua", "#!/usr/bin/lua5.4\n", "lua"},
           {"rscript", "#!/usr/bin/env Rscript\n", "r"},
           {"tcl", "#!/usr/bin/tclsh8.6\n", "tcl"},
           {"gawk", "#!/usr/bin/gawk -f\n", "awk"},
           {"awk", "#!/usr/bin/awk -f\n", "awk"},
           {"mawk", "#! /usr/bin/mawk -f\n", "awk"},
           {"sqlite", "#!/usr/bin/sqlite3\n", "sqlite"},
           {"node", "#!/usr/bin/env nodejs\n", "node"},
           {"dash", "#!/bin/dash\n", "bash"},
       }) {
    CAPTURE(row.name);
    tree.write(row.name, row.text);
    CHECK(profile_for(ProgramKind::kFile, tree.at(row.name)) == row.profile);
  }
}

TEST_CASE("program: a file is run by the interpreter from /work, with its arguments") {
  const Tree tree;
  tree.write("my script.py", "print(1)");
  Inputs inputs;
  const Program program{ProgramKind::kFile, tree.at("my script.py"), {"-x", "--", ""}};
  auto placed = place_program(program, {}, profile_with({"python3", "-B"}, "main.py"), inputs);
  REQUIRE(placed.ok());
  CHECK(placed.value().argv ==
        std::vector<std::string>{"python3", "-B", "/work/my script.py", "-x", "--", ""});
  CHECK(inputs.mounts()[0].name == "my script.py");
}

TEST_CASE("program: code is placed under the language's own name") {
  Inputs inputs;
  const Program program{ProgramKind::kCode, "print(1)", {"a"}};
  const Script script{.code = "print(1)"};
  auto placed = place_program(program, script, profile_with({"python3"}, "main.py"), inputs);
  REQUIRE(placed.ok());
  CHECK(placed.value().argv == std::vector<std::string>{"python3", "/work/main.py", "a"});
  CHECK(inputs.files()[0].path == "/work/main.py");
  CHECK(inputs.files()[0].content == "print(1)");
}

TEST_CASE("program: without an interpreter the #! line runs it, as the kernel would") {
  const Tree tree;
  tree.write("s", "#! /usr/bin/perl  -w -x \n");
  Inputs inputs;
  const Program program{ProgramKind::kFile, tree.at("s"), {}};
  const Script script{.first_line = "#! /usr/bin/perl  -w -x"};
  auto placed = place_program(program, script, profile_with({}, ""), inputs);
  REQUIRE(placed.ok());
  CHECK(placed.value().argv == std::vector<std::string>{"/usr/bin/perl", "-w -x", "/work/s"});
  Inputs others;
  const Program code{ProgramKind::kCode, "x", {}};
  CHECK_FALSE(place_program(code, {}, profile_with({}, ""), others).ok());
}

TEST_CASE("program: an interpreter with {source} has the script there, and the arguments behind") {
  Inputs inputs;
  const Program program{ProgramKind::kCode, "x", {"{program}", "a"}};
  const auto profile = profile_with({"awk", "-f", "{source}", "--", "{sourc}{source}"}, "{class}");
  const auto placed = place_program(program, {.code = "x"}, profile, inputs);
  REQUIRE(placed.ok());
  // What was put in and what the user says are not looked at again.
  CHECK(placed.value().argv ==
        std::vector<std::string>{
            "awk", "-f", "/work/{class}", "--", "{sourc}/work/{class}", "{program}", "a"});
  CHECK(placed.value().compile.empty());
  CHECK(placed.value().is_profile_command);
}

TEST_CASE(
    "program: a compiled language has two commands; without an interpreter the product runs") {
  profile::Profile profile = profile_with({}, "main.c");
  profile.language.compile = {"cc", "-o{program}", "{source}"};
  Inputs inputs;
  const Program program{ProgramKind::kCode, "int x;", {"a"}};
  auto placed =
      place_program(program, {.code = "#!/bin/sh", .first_line = "#!/bin/sh"}, profile, inputs);
  REQUIRE(placed.ok());
  CHECK(placed.value().compile ==
        std::vector<std::string>{"cc", "-o/tmp/sbx-program", "/work/main.c"});
  CHECK(placed.value().argv == std::vector<std::string>{"/tmp/sbx-program", "a"});
  CHECK_FALSE(placed.value().is_profile_command);
  profile.language.interpreter = {"wine", "{program}"};
  Inputs others;
  placed = place_program(program, {.code = "int x;"}, profile, others);
  REQUIRE(placed.ok());
  CHECK(placed.value().argv == std::vector<std::string>{"wine", "/tmp/sbx-program", "a"});
}

TEST_CASE("program: language.path takes the place of the compiler, else of the interpreter") {
  profile::Profile profile = profile_with({"python3", "-u"}, "main.py");
  profile.language.path.path = "/opt/py/bin/python3.12";
  Inputs inputs;
  const Program program{ProgramKind::kCode, "x", {}};
  auto placed = place_program(program, {.code = "x"}, profile, inputs);
  REQUIRE(placed.ok());
  CHECK(placed.value().argv ==
        std::vector<std::string>{"/opt/py/bin/python3.12", "-u", "/work/main.py"});
  const auto none = [](const std::string&) { return std::nullopt; };
  CHECK(make_environment(profile, none, false)[0] ==
        "PATH=/opt/py/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  profile.language.compile = {"javac", "{source}"};
  Inputs others;
  placed = place_program(program, {.code = "x"}, profile, others);
  REQUIRE(placed.ok());
  CHECK(placed.value().compile[0] == "/opt/py/bin/python3.12");
  CHECK(placed.value().argv[0] == "python3");
}

TEST_CASE("program: a command of the user's is not compiled") {
  profile::Profile profile = profile_with({}, "main.c");
  profile.language.compile = {"cc", "{source}"};
  Inputs inputs;
  const auto placed = place_program({ProgramKind::kCommand, "", {"ls"}}, {}, profile, inputs);
  REQUIRE(placed.ok());
  CHECK(placed.value().compile.empty());
  CHECK(placed.value().argv == std::vector<std::string>{"ls"});
  CHECK_FALSE(placed.value().is_profile_command);
}

TEST_CASE("program: {class} is the class of a Java source, and names its file inside") {
  profile::Profile profile = profile_with({"java", "{class}"}, "Main.java");
  profile.language.compile = {"javac", "{source}"};
  const Tree tree;
  tree.write("sub 12.txt", "package a.b; class H {} public class Right { void main() {} }");
  tree.write("none.java", "no such thing");
  struct Row {
    Program program;
    const char* source;
    const char* main_class;
  };
  for (const Row& row : std::initializer_list<Row>{
           {{ProgramKind::kFile, tree.at("sub 12.txt"), {}}, "/work/Right.java", "a.b.Right"},
           {{ProgramKind::kFile, tree.at("none.java"), {}}, "/work/none.java", "none"},
           {{ProgramKind::kCode, "class Own {}", {}}, "/work/Own.java", "Own"},
           {{ProgramKind::kCode, "", {}}, "/work/Main.java", "Main"},
       }) {
    CAPTURE(row.source);
    Inputs inputs;
    const auto placed = place_program(row.program, {.code = row.program.text}, profile, inputs);
    REQUIRE(placed.ok());
    CHECK(placed.value().compile == std::vector<std::string>{"javac", row.source});
    CHECK(placed.value().argv == std::vector<std::string>{"java", row.main_class});
  }
}

TEST_CASE("program: a command is passed on as it is") {
  Inputs inputs;
  const Program program{ProgramKind::kCommand, "", {"ls", "-l", "--", "a b"}};
  auto placed = place_program(program, {}, profile_with({"python3"}, "main.py"), inputs);
  REQUIRE(placed.ok());
  CHECK(placed.value().argv == program.args);
  CHECK(inputs.mounts().empty());
}

TEST_CASE("program: a very long or odd #! line is no harm") {
  const Tree tree;
  tree.write("a", "#!" + std::string(5000, 'x'));
  tree.write("b", "#!");
  tree.write("c", "#!   \t \n");
  for (const char* name : {"a", "b", "c"}) {
    CAPTURE(name);
    CHECK(profile_for(ProgramKind::kFile, tree.at(name)) == "base");
  }
}

TEST_CASE("program: the environment starts from nothing; profile values win over passed ones") {
  profile::Profile profile;
  profile.env_pass = {"FROM_HOST", "MISSING", "BOTH"};
  profile.env = {{"BOTH", "profile"}, {"EMPTY", ""}, {"HOME", "/elsewhere"}};
  const profile::EnvLookup host = [](const std::string& name) -> std::optional<std::string> {
    if (name == "MISSING") return std::nullopt;
    return "host-" + name;
  };
  const std::vector<std::string> env = make_environment(profile, host, false);
  CHECK(env == std::vector<std::string>{
                   "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                   "HOME=/elsewhere",
                   "USER=sbx",
                   "LOGNAME=sbx",
                   "SHELL=/bin/sh",
                   "LANG=C.UTF-8",
                   "FROM_HOST=host-FROM_HOST",
                   "BOTH=profile",
                   "EMPTY=",
               });
  CHECK(make_environment(profile, host, true)[6] == "TERM=host-TERM");
}

}  // namespace sbx::run
