// names_test: file names and arguments of any bytes, and words that look like ours.
#include <sys/stat.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

const std::vector<std::string>& odd_names() {
  static const std::vector<std::string> names{"with space",
                                              "quote'single",
                                              "quote\"double",
                                              "(paren)",
                                              "$HOME",
                                              "new\nline",
                                              "-dash",
                                              "--",
                                              "co:lon",
                                              "com,ma",
                                              ".dot",
                                              "back\\slash",
                                              "\xc3\xa9\xe2\x82\xac",
                                              "bad\xff\xfe",
                                              "semi;rm -rf x",
                                              "`tick`",
                                              "*star?",
                                              "[bracket]",
                                              "tab\there",
                                              "%s%n",
                                              "#hash",
                                              "~tilde",
                                              "a=b"};
  return names;
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("names: arguments after -- pass byte for byte") {
    std::vector<std::string> words = odd_names();
    words.insert(words.end(), {"", "-h", "--help", "--version", "--", "-c", "run", "-p", "sbx"});
    Args argv{
        "python3",
        "-c",
        "import os, sys\nfor a in sys.argv[1:]: sys.stdout.buffer.write(os.fsencode(a) + b'|')"};
    argv.insert(argv.end(), words.begin(), words.end());
    const Outcome o = command(argv);
    std::string want;
    for (const auto& word : words) {
      want += word + "|";
    }
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out == want);
  }

  TEST_CASE("names: the program's own options are the program's") {
    CHECK(contains(command({"bash", "--version"}).out, "GNU bash"));
    const Outcome o = command({"echo", "-h", "--", "--help", "-p", "x"});
    CHECK(o.out == "-h -- --help -p x\n");
  }

  TEST_CASE("names: inputs of any name appear under it, with their content") {
    const WorkDir dir;
    Args flags;
    for (const auto& name : odd_names()) {
      if (contains(name, "=")) {
        continue;  // HOST=INSIDE is the flag's own syntax; an own case below
      }
      flags.insert(flags.end(), {"-i", dir.write(name, "content of " + name)});
    }
    const Outcome o = call([&] {
      Args args{"run"};
      args.insert(args.end(), flags.begin(), flags.end());
      args.insert(args.end(),
                  {"-p",
                   "python",
                   "-c",
                   "import os, sys\nfor n in sorted(os.listdir(b'/work')):\n"
                   "    if open(os.path.join(b'/work', n), 'rb').read() == b'content of ' + n:"
                   " print('same')"});
      return args;
    }());
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(lines_of(o.out).size() == odd_names().size() - 1);
  }

  TEST_CASE("names: scripts of any name run") {
    const WorkDir dir;
    for (const std::string name : {"with space.py",
                                   "quote'\"s.py",
                                   "$HOME.py",
                                   "(p).py",
                                   ".dot.py",
                                   "new\nline.py",
                                   "\xc3\xa9.py",
                                   "bad\xff.py",
                                   "co:lon,ma.py"}) {
      const std::string file = dir.write(name, "import sys\nprint(len(sys.argv), 40 + 2)\n");
      const Outcome o = call({"run", file, "arg"});
      INFO(name);
      INFO(o.show());
      CHECK(o.out == "2 42\n");
    }
  }

  TEST_CASE("names: a script whose name starts with a dash runs by its path and after --") {
    const WorkDir dir;
    dir.write("-v.py", "print(42)\n");
    Spec spec = sbx_spec({"run", "./-v.py"});
    spec.cwd = dir.path();
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(o.out == "42\n");
  }

  TEST_CASE("names: a script called like a verb is a script") {
    const WorkDir dir;
    for (const char* name : {"run", "profile", "help", "version"}) {
      dir.write(name, "#!/bin/bash\necho script $0 $1\n", 0755);
      Spec spec = sbx_spec({"run", name, "arg"});
      spec.cwd = dir.path();
      const Outcome o = run(spec);
      INFO(o.show());
      CHECK(o.code == 0);
      CHECK(contains(o.out, "arg"));
    }
  }

  TEST_CASE("names: an output directory and artifacts of any name") {
    const WorkDir dir;
    for (const auto& name : odd_names()) {
      const std::string out = dir.at("out " + name);
      std::string pattern;  // a per cent sign of a name is doubled: others stand for a date
      for (const char c : out) {
        pattern.append(c == '%' ? 2 : 1, c);
      }
      Args args{"run",
                "-o",
                pattern,
                "-p",
                "python",
                "-c",
                "import os, sys\nopen(os.fsencode(sys.argv[1]), 'w').write('x')",
                "--",
                name};
      const Outcome o = call(args);
      INFO(name);
      INFO(o.show());
      CHECK(o.code == 0);
      CHECK(slurp(out + "/" + name) == "x");
      CHECK(exists(out + "/manifest.json"));
    }
  }

  TEST_CASE("names: no text of ours ever goes through a host shell") {
    const WorkDir dir;
    const std::string marker = dir.at("marker");
    const std::string evil =
        "'; touch " + marker + "; $(touch " + marker + ") `touch " + marker + "` \"";
    call({"run", "-p", "bash", "-e", "V=" + evil, "--set", "hostname=" + evil, "-c", ": " + evil});
    call({"run", "-p", "bash", "-e", "V=" + evil, "-c", "true", "--", evil});
    call({"run", "-p", evil, "-c", "true"});
    command({evil, evil});
    call({"run", "-i", evil, "-o", evil, "-c", "1"});
    CHECK(!exists(marker));
  }

  TEST_CASE("names: a very long argument list and a very long path work or fail with words") {
    Args argv{"bash", "-c", "echo $#", "x"};
    for (int i = 0; i < 5000; ++i) {
      argv.push_back("argument-number-" + std::to_string(i));
    }
    const Outcome o = command(argv);
    INFO(o.err.substr(0, 500));
    CHECK(o.out == "5000\n");
    const Outcome big = command({"bash", "-c", "echo ${#1}", "x", std::string(120000, 'a')});
    INFO(big.err.substr(0, 500));
    CHECK(big.out == "120000\n");
    const WorkDir dir;
    std::string deep = dir.path();
    for (int i = 0; i < 12; ++i) {
      deep += "/" + std::string(100, 'd');
      ::mkdir(deep.c_str(), 0755);
    }
    run({.argv = {"/bin/sh", "-c", "echo 'print(42)' > \"$0/a.py\"", deep}});
    const Outcome far = call({"run", deep + "/a.py"});
    INFO(far.show());
    CHECK(far.out == "42\n");
  }
}

}  // namespace sbx::test
