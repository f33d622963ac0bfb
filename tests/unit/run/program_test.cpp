// program_test: which profile a program gets, its argv and environment.
#include "core/run/program.h"

#include <unistd.h>

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
  tree.write("perl", "#!/usr/bin/perl\n");
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
  CHECK(profile_for(ProgramKind::kFile, tree.at("perl")) == "base");
  CHECK(profile_for(ProgramKind::kFile, tree.at("binary")) == "base");
  const std::string refused = profile_for(ProgramKind::kFile, tree.at("plain"));
  CHECK(refused.find("cannot tell") != std::string::npos);
  CHECK(refused.find("-p PROFILE") != std::string::npos);
  CHECK(profile_for(ProgramKind::kFile, tree.at("missing")).find("No such file") !=
        std::string::npos);
  CHECK(profile_for(ProgramKind::kCode, "x") == "python");
  CHECK(profile_for(ProgramKind::kCommand, "") == "base");
}

TEST_CASE("program: a file is run by the interpreter from /work, with its arguments") {
  const Tree tree;
  tree.write("my script.py", "print(1)");
  Inputs inputs;
  const Program program{ProgramKind::kFile, tree.at("my script.py"), {"-x", "--", ""}};
  auto argv = place_program(program, {}, profile_with({"python3", "-B"}, "main.py"), inputs);
  REQUIRE(argv.ok());
  CHECK(argv.value() ==
        std::vector<std::string>{"python3", "-B", "/work/my script.py", "-x", "--", ""});
  CHECK(inputs.mounts()[0].name == "my script.py");
}

TEST_CASE("program: code is placed under the language's own name") {
  Inputs inputs;
  const Program program{ProgramKind::kCode, "print(1)", {"a"}};
  const Script script{.code = "print(1)"};
  auto argv = place_program(program, script, profile_with({"python3"}, "main.py"), inputs);
  REQUIRE(argv.ok());
  CHECK(argv.value() == std::vector<std::string>{"python3", "/work/main.py", "a"});
  CHECK(inputs.files()[0].path == "/work/main.py");
  CHECK(inputs.files()[0].content == "print(1)");
}

TEST_CASE("program: without an interpreter the #! line runs it, as the kernel would") {
  const Tree tree;
  tree.write("s", "#! /usr/bin/perl  -w -x \n");
  Inputs inputs;
  const Program program{ProgramKind::kFile, tree.at("s"), {}};
  const Script script{.first_line = "#! /usr/bin/perl  -w -x"};
  auto argv = place_program(program, script, profile_with({}, ""), inputs);
  REQUIRE(argv.ok());
  CHECK(argv.value() == std::vector<std::string>{"/usr/bin/perl", "-w -x", "/work/s"});
  Inputs others;
  const Program code{ProgramKind::kCode, "x", {}};
  CHECK_FALSE(place_program(code, {}, profile_with({}, ""), others).ok());
}

TEST_CASE("program: a command is passed on as it is") {
  Inputs inputs;
  const Program program{ProgramKind::kCommand, "", {"ls", "-l", "--", "a b"}};
  auto argv = place_program(program, {}, profile_with({"python3"}, "main.py"), inputs);
  REQUIRE(argv.ok());
  CHECK(argv.value() == program.args);
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
