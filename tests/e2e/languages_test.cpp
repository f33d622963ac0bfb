// languages_test: every language that a shipped profile runs, and how each can end.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/languages_table.h"
#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

const LanguagePrograms& programs_of(std::string_view profile) {
  const auto all = language_programs();
  const auto found = std::find_if(all.begin(), all.end(), [profile](const LanguagePrograms& each) {
    return each.profile == profile;
  });
  REQUIRE(found != all.end());
  return *found;
}

/// A limit that this host may not be able to enforce for the subject.
Args memory_flags(std::string_view size) {
  return {"-m", std::string(size), "--set", "limits.best_effort=true"};
}

Outcome run_file(const LanguagePrograms& language, std::string_view code, Args flags) {
  const WorkDir dir;
  Args args{"run"};
  args.insert(args.end(), flags.begin(), flags.end());
  args.push_back(dir.write(std::string(language.file), std::string(code)));
  Spec spec = sbx_spec(args);
  spec.timeout = 120;
  return run(spec);
}

void check_hello(const LanguagePrograms& language) {
  const Outcome o =
      call({"run", "-q", "-p", std::string(language.profile), "-c", std::string(language.hello)});
  INFO(o.show());
  CHECK(o.code == 0);
  CHECK(o.out == "hello\n");
  CHECK(o.err.empty());
}

void check_everything(const LanguagePrograms& language) {
  const WorkDir dir;
  const std::string out = dir.at("out");
  Args args{"run",
            "--stdin",
            "-q",
            "-o",
            out,
            dir.write(std::string(language.file), std::string(language.everything))};
  args.insert(args.end(), language.args.begin(), language.args.end());
  Spec spec = sbx_spec(args);
  spec.input = "a line\n";
  const Outcome o = run(spec);
  INFO(o.show());
  CHECK(o.code == 3);
  CHECK(o.out == language.everything_prints);
  CHECK(contains(slurp(out + "/made.txt"), "a line"));
  CHECK(names_in(out) == std::vector<std::string>{"made.txt", "manifest.json"});
}

void check_error_at_run_time(const LanguagePrograms& language) {
  const Outcome o = run_file(language, language.fails, {"--json"});
  INFO(o.show());
  CHECK(o.code != 0);
  CHECK((field(o.out, "/cause") == "exited" || field(o.out, "/cause") == "signal"));
  CHECK(field(o.out, "/error") == "null");
  CHECK(contains(field(o.out, "/stderr"), language.fails_says));
  CHECK(!contains(field(o.out, "/stdout"), "not reached"));
  if (language.broken.empty()) {
    CHECK(field(o.out, "/compile") == "null");
  } else {
    CHECK(field(o.out, "/compile/exit_code") == "0");
  }
}

void check_error_of_compiler(const LanguagePrograms& language) {
  if (language.broken.empty()) return;
  const Outcome o = run_file(language, language.broken, {"--json"});
  INFO(o.show());
  CHECK(o.code != 0);
  CHECK(o.code < 100);
  CHECK(field(o.out, "/cause") == "exited");
  CHECK(field(o.out, "/error/code") == "compile_failed");
  CHECK(field(o.out, "/compile/exit_code") == std::to_string(o.code));
  CHECK(field(o.out, "/compile/truncated") == "false");
  CHECK(contains(field(o.out, "/compile/output"), "boom"));
  CHECK(field(o.out, "/stdout").empty());
  CHECK(field(o.out, "/stderr").empty());
  CHECK(contains(o.err, "compiling failed"));
}

void check_time_limit(const LanguagePrograms& language) {
  const std::string limit = language.broken.empty() ? "1s" : "4s";
  const Outcome o = run_file(language, language.forever, {"--json", "--timeout", limit});
  INFO(o.show());
  CHECK(o.code == 124);
  CHECK(field(o.out, "/cause") == "timeout");
  CHECK(field(o.out, "/error/code") == "time_limit");
}

void check_memory_limit(const LanguagePrograms& language) {
  Args flags = memory_flags(language.memory);
  flags.emplace_back("--json");
  const Outcome o = run_file(language, language.hog, flags);
  INFO(o.show());
  CHECK(o.code != 0);
  CHECK(field(o.out, "/cause") != "timeout");
  if (!language.broken.empty()) CHECK(field(o.out, "/compile/exit_code") == "0");
  // A language that counts its memory itself may give up before the kernel has to.
  const std::string& own_words = field(o.out, "/stderr");
  const bool gave_up = contains(own_words, "emory") || contains(own_words, "alloc");
  if (have("cgroup-memory")) {
    CHECK((field(o.out, "/cause") == "oom" || field(o.out, "/limit_hit") == "memory" || gave_up));
  }
}

void check(std::string_view profile) {
  const LanguagePrograms& language = programs_of(profile);
  CAPTURE(profile);
  check_hello(language);
  check_everything(language);
  check_error_at_run_time(language);
  check_error_of_compiler(language);
  check_time_limit(language);
  check_memory_limit(language);
}

}  // namespace

// One case each, so that a failure is listed by its language.
#define SBX_LANGUAGE_CASE(language)                                              \
  TEST_CASE("languages: " language " runs, fails and is limited as it should") { \
    SKIP_UNLESS(language);                                                       \
    check(language);                                                             \
  }

TEST_SUITE("languages") {
  SBX_LANGUAGE_CASE("python")
  SBX_LANGUAGE_CASE("node")
  SBX_LANGUAGE_CASE("bash")
  SBX_LANGUAGE_CASE("perl")
  SBX_LANGUAGE_CASE("ruby")
  SBX_LANGUAGE_CASE("php")
  SBX_LANGUAGE_CASE("lua")
  SBX_LANGUAGE_CASE("r")
  SBX_LANGUAGE_CASE("tcl")
  SBX_LANGUAGE_CASE("awk")
  SBX_LANGUAGE_CASE("sqlite")
  SBX_LANGUAGE_CASE("c")
  SBX_LANGUAGE_CASE("cpp")
  SBX_LANGUAGE_CASE("rust")
  SBX_LANGUAGE_CASE("go")
  SBX_LANGUAGE_CASE("java")

  TEST_CASE("languages: every shipped profile that has a language is in the table") {
    const Outcome o = call({"profile", "ls"});
    INFO(o.show());
    for (const std::string& line : lines_of(o.out)) {
      const std::string name = line.substr(0, line.find(' '));
      // agent runs bash, as a workspace: see agent_test.cpp.
      if (!contains(line, "shipped") || name == "base" || name == "agent") continue;
      programs_of(name);
    }
    CHECK(contains(o.out, "sqlite"));
  }

  TEST_CASE("languages: a missing interpreter gives 125 and names the Debian package") {
    const Outcome o = call(
        {"run", "--json", "-p", "ruby", "--set", "language.interpreter=[rubinius]", "-c", "1"});
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(field(o.out, "/cause") == "sandbox_error");
    CHECK(field(o.out, "/error/code") == "tool_missing");
    CHECK(contains(field(o.out, "/error/message"), "rubinius"));
    CHECK(field(o.out, "/error/fix") == "apt-get install ruby");
    CHECK(contains(o.err, "apt-get install ruby"));
  }

  TEST_CASE("languages: a missing compiler gives 125 and names the Debian package") {
    const Outcome o = call({"run",
                            "--json",
                            "-p",
                            "c",
                            "--set",
                            "language.compile=[no-such-cc, \"{source}\"]",
                            "-c",
                            "int x;"});
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(field(o.out, "/error/code") == "tool_missing");
    CHECK(field(o.out, "/error/fix") == "apt-get install gcc");
  }

  TEST_CASE("languages: a compiler's error is on stderr, with its name and exit status") {
    SKIP_UNLESS("c");
    const Outcome o = call({"run", "-q", "-p", "c", "-c", "int main(void) { return boom; }"});
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(o.out.empty());
    CHECK(contains(o.err, "main.c"));
    CHECK(contains(o.err, "sbx: compiling failed: gcc ended with exit status 1"));
  }

  TEST_CASE("languages: a compiler's words that get lost are no success") {
    SKIP_UNLESS("c");
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    REQUIRE(full >= 0);
    Spec spec = sbx_spec(
        {"run", "-q", "-p", "c", "-c", "#warning take care\nint main(void) { return 0; }"});
    spec.err = full;
    const Outcome o = run(spec);
    ::close(full);
    INFO(o.show());
    CHECK(o.code == 125);
  }

  TEST_CASE("languages: a compiler's warning is marked, and the program runs") {
    SKIP_UNLESS("c");
    const Outcome o =
        call({"run", "-p", "c", "-c", "#warning take care\nint main(void) { return 7; }"});
    INFO(o.show());
    CHECK(o.code == 7);
    CHECK(contains(o.err, "take care"));
    CHECK(contains(o.err, "sbx: warning: the lines above are from gcc"));
  }

  TEST_CASE("languages: a compiler's status is its own, whatever it is") {
    const Outcome o = call({"run",
                            "--json",
                            "-p",
                            "c",
                            "--set",
                            "language.compile=[sh, -c, \"echo words; exit 77 # {source}\"]",
                            "-c",
                            "x"});
    INFO(o.show());
    CHECK(o.code == 77);
    CHECK(field(o.out, "/error/code") == "compile_failed");
    CHECK(field(o.out, "/compile/command") == "sh");
    CHECK(field(o.out, "/compile/output") == "words\n");
    CHECK(field(o.out, "/phases/run_s") == "0.0");
  }

  TEST_CASE("languages: a program may end with the status of a failed compiler, and is no such") {
    SKIP_UNLESS("c");
    const Outcome o = call({"run", "--json", "-p", "c", "-c", "int main(void) { return 1; }"});
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(field(o.out, "/error") == "null");
    CHECK(field(o.out, "/compile/exit_code") == "0");
  }

  TEST_CASE("languages: the time limit covers the compiler, and what it left running is ended") {
    const Outcome slow = call({"run",
                               "--json",
                               "--timeout",
                               "300ms",
                               "-p",
                               "c",
                               "--set",
                               "language.compile=[sh, -c, \"echo begun; sleep 60 # {source}\"]",
                               "-c",
                               "x"});
    INFO(slow.show());
    CHECK(slow.code == 124);
    CHECK(field(slow.out, "/cause") == "timeout");
    CHECK(contains(field(slow.out, "/error/message"), "while compiling"));
    CHECK(field(slow.out, "/compile/exit_code") == "143");  // SIGTERM
    const Outcome left = call(
        {"run",
         "-q",
         "-p",
         "c",
         "--set",
         "language.compile=[sh, -c, \"setsid sleep 77 & printf '#!/bin/sh\\\\n' > {program}; echo "
         "'cat /proc/[0-9]*/cmdline | tr -d \\\\\\\\0' >> {program}; chmod +x {program} # "
         "{source}\"]",
         "-c",
         "x"});
    INFO(left.show());
    CHECK(left.code == 0);
    CHECK(contains(left.out, "sbx-program"));
    CHECK(!contains(left.out, "sleep77"));
  }

  TEST_CASE("languages: a signal while compiling ends everything with its status") {
    Spec spec = sbx_spec({"run",
                          "-p",
                          "c",
                          "--set",
                          "language.compile=[sh, -c, \"echo begun; sleep 60 # {source}\"]",
                          "-c",
                          "x"});
    Child child(spec);
    REQUIRE(child.wait_for_text("begun", 60));
    child.kill(SIGINT);
    const Outcome o = child.wait();
    INFO(o.show());
    CHECK(o.code == 130);
  }

  TEST_CASE("languages: a compiler's endless words are cut, counted and do not block it") {
    const Outcome o = call({"run",
                            "--json",
                            "-p",
                            "c",
                            "--set",
                            "language.compile=[sh, -c, \"head -c 3000000 /dev/zero; exit 1 # "
                            "{source}\"]",
                            "-c",
                            "x"});
    INFO(o.code);
    CHECK(o.code == 1);
    CHECK(field(o.out, "/compile/output_bytes") == "3000000");
    CHECK(field(o.out, "/compile/truncated") == "true");
    CHECK(o.out.size() < 8000000);
  }

  TEST_CASE("languages: other sources come in with -i, and the compiler's product is no artifact") {
    SKIP_UNLESS("c");
    const WorkDir dir;
    const std::string header = dir.write("three.h", "#define THREE 3\n");
    const std::string file =
        dir.write("a b.c", "#include \"three.h\"\nint main(void) { return THREE; }\n");
    const Outcome o = call({"run", "--json", "-i", header, file});
    INFO(o.show());
    CHECK(o.code == 3);
    CHECK(field(o.out, "/artifacts") == "[]");
  }

  TEST_CASE("languages: language.path runs the user's own interpreter, with its tree read-only") {
    SKIP_UNLESS("bash");
    const WorkDir dir;
    const std::string tool = dir.path() + "/tools/v1/bin/mybash";
    const std::string script =
        "set -e; mkdir -p \"$1/tools/v1/bin\" \"$1/tools/v1/lib\"; cp "
        "/bin/bash \"$1/tools/v1/bin/mybash\"; echo found > "
        "\"$1/tools/v1/lib/data\"; echo secret > \"$1/tools/secret\"";
    Spec made{.argv = {"/bin/sh", "-c", script, "sh", dir.path()}, .as = &subject()};
    REQUIRE(run(made).code == 0);
    const std::string code =
        "echo \"$BASH\"; cat \"${BASH%/bin/*}/lib/data\"; command -v mybash; "
        "cat \"${BASH%/v1/*}/secret\"; echo x > \"${BASH%/bin/*}/lib/data\"";
    const Outcome o =
        call({"run", "-q", "-p", "bash", "--set", "language.path=" + tool, "-c", code});
    INFO(o.show());
    CHECK(o.out == tool + "\nfound\n" + tool + "\n");
    CHECK(contains(o.err, "secret: No such file"));
    CHECK(contains(o.err, "Read-only file system"));
  }

  TEST_CASE("languages: a language.path that is not there, or an unseen interpreter, is told") {
    const Outcome none = call({"run", "--set", "language.path=/no/bin/python3", "-c", "1"});
    INFO(none.show());
    CHECK(none.code == 2);
    CHECK(contains(none.err, "is not there"));
    const Outcome unseen =
        call({"run", "--set", "language.interpreter=/opt/no/python3", "-c", "1"});
    INFO(unseen.show());
    CHECK(unseen.code == 125);
    CHECK(contains(unseen.err, "--set language.path=/opt/no/python3"));
  }

  TEST_CASE("languages: --dry-run shows the compiler's command before the program's") {
    const Outcome o = call({"run", "--dry-run", "-p", "java", "-c", "package p; class Q {}"});
    INFO(o.show());
    CHECK(o.code == 0);
    const std::size_t compile = o.out.find("\ncompile javac");
    const std::size_t exec = o.out.find("\nexec java");
    CHECK(compile != std::string::npos);
    CHECK(exec != std::string::npos);
    CHECK(compile < exec);
    CHECK(contains(o.out, "/work/Q.java"));
    CHECK(contains(o.out, "p.Q"));
  }
}

}  // namespace sbx::test
