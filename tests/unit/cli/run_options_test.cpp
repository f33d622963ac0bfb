// RunOptions test: which program is run, and which keys of the profile the flags set.
#include "cli/run_options.h"

#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/parser.h"
#include "cli/verbs.h"

using namespace sbx::cli;  // NOLINT(google-build-using-namespace): a test of this namespace
using sbx::profile::Override;
using sbx::run::ProgramKind;
using Lines = std::vector<std::string>;

namespace {

Invocation given(const Lines& words) {
  auto result = parse(kRunVerb, split(words));
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.error().message()));
  return std::move(result).value();
}

std::string refusal(const Lines& words) {
  auto result = program_of(given(words));
  return result.ok() ? "(no error)" : result.error().message();
}

}  // namespace

TEST_CASE("run options: FILE, -, -c and -- name the program and its arguments") {
  struct Row {
    Lines words;
    ProgramKind kind;
    std::string text;
    Lines args;
  };
  const std::vector<Row> rows = {
      {{"a.py"}, ProgramKind::kFile, "a.py", {}},
      {{"a.py", "-x", "y"}, ProgramKind::kFile, "a.py", {"-x", "y"}},
      {{"a.py", "--", "-x", "y"}, ProgramKind::kFile, "a.py", {"-x", "y"}},
      {{"a.py", "--", "--", "y"}, ProgramKind::kFile, "a.py", {"--", "y"}},
      {{"a.py", "x", "--", "y", "--"}, ProgramKind::kFile, "a.py", {"x", "--", "y", "--"}},
      {{"a.py", "x", "--"}, ProgramKind::kFile, "a.py", {"x", "--"}},
      {{"-", "x"}, ProgramKind::kStdin, "", {"x"}},
      {{"-", "--", "-x"}, ProgramKind::kStdin, "", {"-x"}},
      {{"-c", "code"}, ProgramKind::kCode, "code", {}},
      {{"-c", ""}, ProgramKind::kCode, "", {}},
      {{"-c", "code", "--", "a", "--", "-b"}, ProgramKind::kCode, "code", {"a", "--", "-b"}},
      {{"--", "ls", "-l"}, ProgramKind::kCommand, "", {"ls", "-l"}},
      {{"--", "--", "x"}, ProgramKind::kCommand, "", {"--", "x"}},
      {{"--", "sbx", "--version", "-h"}, ProgramKind::kCommand, "", {"sbx", "--version", "-h"}},
      {{"--", "a b(c)$d'\"\n", "\xff"}, ProgramKind::kCommand, "", {"a b(c)$d'\"\n", "\xff"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.words[0]);
    auto result = program_of(given(row.words));
    REQUIRE(result.ok());
    CHECK(result.value().kind == row.kind);
    CHECK(result.value().text == row.text);
    CHECK(result.value().args == row.args);
  }
}

TEST_CASE("run options: nothing to run, and two programs, are refused") {
  CHECK(refusal({}) == "nothing to run: no FILE, no -c CODE, no -- CMD");
  CHECK(refusal({"-q"}) == "nothing to run: no FILE, no -c CODE, no -- CMD");
  CHECK(refusal({"--"}) == "no command behind --");
  CHECK(refusal({"--", ""}) == "the command behind -- is an empty name");
  CHECK(refusal({""}) == "FILE is an empty name");
  CHECK(refusal({"-c", "1", "a.py"}) ==
        "-c/--code and FILE \"a.py\" are both given: one program is run");
  CHECK(refusal({"-c", "1", "-"}) == "-c/--code and FILE \"-\" are both given: one program is run");
}

TEST_CASE("run options: --set comes first, so that flags of their own win wherever they stand") {
  auto result = overrides_of(given({"-m",
                                    "1G",
                                    "--set",
                                    "limits.memory=2G",
                                    "--pids=5",
                                    "-e",
                                    "A=b=c",
                                    "-e",
                                    "LANG",
                                    "-v",
                                    "/a:/b",
                                    "--set",
                                    "nesting=true",
                                    "x.py"}));
  REQUIRE(result.ok());
  std::string text;
  for (const Override& row : result.value()) {
    text += row.key + (row.mode == Override::Mode::kAdd ? "+=" : "=") + row.value + " [" +
            row.where + "]\n";
  }
  CHECK(text ==
        "limits.memory=2G [--set limits.memory]\n"
        "nesting=true [--set nesting]\n"
        "limits.memory=1G [-m/--memory]\n"
        "limits.pids=5 [--pids]\n"
        "env.A=b=c [--env A]\n"
        "env_pass+=LANG [--env LANG]\n"
        "mounts+=/a:/b [-v/--mount]\n");
}

TEST_CASE("run options: --set and -e without a name are refused") {
  for (const Lines& words : std::vector<Lines>{
           {"--set", "x"}, {"--set", "=x"}, {"--set", ""}, {"-e", ""}, {"-e", "=x"}}) {
    auto result = overrides_of(given(words));
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code() == sbx::Errc::kUsage);
    CHECK(result.error().message().find(words[0]) != std::string::npos);
  }
}

TEST_CASE("run options: --status-fd takes an open descriptor that can be written") {
  int pipe_fds[2];
  REQUIRE(::pipe(pipe_fds) == 0);
  CHECK(status_fd_of(std::to_string(pipe_fds[1])).value() == pipe_fds[1]);
  CHECK(status_fd_of(std::to_string(pipe_fds[0]))
            .error()
            .message()
            .ends_with(" cannot be written to"));
  ::close(pipe_fds[0]);
  ::close(pipe_fds[1]);
  CHECK(status_fd_of("999999").error().message() == "--status-fd: descriptor 999999 is not open");
  for (const char* bad : {"", "-1", "x", "1.5", "4294967296", "99999999999999999999"}) {
    CHECK_FALSE(status_fd_of(bad).ok());
  }
}

TEST_CASE("run options: flags that contradict each other are refused by name") {
  struct Row {
    Lines words;
    std::string message;
  };
  const std::vector<Row> rows = {
      {{"--json", "--dry-run", "x.py"},
       "--json and --dry-run do not go together: a plan has no result"},
      {{"--json", "-t", "x.py"},
       "--json and -t/--tty do not go together: a terminal cannot be captured"},
      {{"--stdin", "-"}, "--stdin has nothing to hand over: - reads the code from stdin"},
      {{"-t", "-"}, "-t/--tty has nothing to hand over: - reads the code from stdin"},
  };
  for (const Row& row : rows) {
    auto result = options_of(given(row.words));
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message() == row.message);
  }
}
