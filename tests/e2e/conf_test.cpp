// conf_test: profiles from files and flags: hostile YAML, sizes, precedence, and who may define
// what.
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

/// `sbx profile check FILE` with at most 200 MB of address space beyond what the binary maps.
Outcome check_text(const std::string& yaml) {
  const WorkDir dir;
  const std::string file = dir.write("p.yaml", yaml);
  Spec spec = sbx_spec({"profile", "check", file});
  spec.argv.insert(spec.argv.begin(), {"/usr/bin/prlimit", "--as=200000000", "--"});
  spec.timeout = 10;
  return run(spec);
}

std::string repeated(const std::string& part, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += part;
  }
  return out;
}

}  // namespace

TEST_SUITE("conf") {
  TEST_CASE("conf: deeply nested YAML is a clear error, soon and without a crash") {
    std::string maps;
    for (int i = 0; i < 3000; ++i) {
      maps += std::string(static_cast<size_t>(i), ' ') + "a:\n";
    }
    for (const std::string& text : {repeated("[", 100000),
                                    "env: " + repeated("{a: ", 100000),
                                    maps,
                                    repeated("- ", 100000)}) {
      const Outcome o = check_text(text);
      INFO(o.show().substr(0, 1000));
      CHECK(o.code == 2);
      CHECK(o.seconds < 2 * slowness());
      CHECK(contains(o.err + o.out, "p.yaml:"));
    }
  }

  TEST_CASE("conf: alias cycles and ladders are errors that name the alias") {
    std::string ladder = "env:\n  a: &a0 [x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 10; ++i) {
      const std::string before = "*a" + std::to_string(i - 1);
      ladder += "  b" + std::to_string(i) + ": &a" + std::to_string(i) + " [" +
                repeated(before + ", ", 8) + before + "]\n";
    }
    for (const std::string& text :
         {std::string("env: &e {A: *e}\n"), std::string("&a [*a]\n"), ladder}) {
      const Outcome o = check_text(text);
      INFO(o.show().substr(0, 1000));
      CHECK(o.code == 2);
      CHECK(o.seconds < 2 * slowness());
      CHECK(contains(o.err + o.out, "alias"));
    }
  }

  TEST_CASE("conf: sizes mean what is written or are refused") {
    for (const char* bad : {"17592186044417m",
                            "1e30",
                            "-1",
                            "1.5g",
                            "0x10",
                            "010",
                            "1_000",
                            "no",
                            "",
                            " ",
                            "12 MB",
                            "999999999999999999999",
                            "NaN",
                            "1GG"}) {
      const Outcome o = bash("true", {"--set", std::string("limits.memory=") + bad});
      INFO(bad);
      INFO(o.show());
      CHECK(o.code == 2);
    }
    for (const char* good : {"1g", "1GiB", "64M", "67108864", "64m", "65536k"}) {
      const Outcome o =
          call({"profile", "explain", "--set", std::string("limits.memory=") + good, "bash"});
      INFO(good);
      INFO(o.show());
      CHECK(o.code == 0);
      CHECK((contains(o.out, "64M") || contains(o.out, "1G")));
    }
  }

  TEST_CASE("conf: an unknown or doubled key names its line and column") {
    const Outcome unknown = check_text("name: x\nlimits:\n  memroy: 1G\n");
    INFO(unknown.show());
    CHECK(unknown.code == 2);
    CHECK(contains(unknown.err + unknown.out, "p.yaml:3:3"));
    CHECK(contains(unknown.err + unknown.out, "memory"));
    const Outcome doubled = check_text("limits:\n  memory: 1G\n  pids: 3\n  memory: 2G\n");
    INFO(doubled.show());
    CHECK(doubled.code == 2);
    CHECK(contains(doubled.err + doubled.out, "p.yaml:4:3"));
  }

  TEST_CASE("conf: a checkout's own files cannot redefine a shipped profile") {
    const WorkDir dir;
    const std::string evil =
        "extends: base\nlanguage:\n  interpreter: [/bin/echo, pwned]\n  extensions: [.py]\n";
    for (const char* name : {"python.yaml", "sbx.yaml", ".sbx.yaml", "bash.yaml"}) {
      dir.write(name, evil);
    }
    run({.argv = {"/bin/sh",
                  "-c",
                  "mkdir -p profiles .sbx/profiles; cp python.yaml profiles; cp python.yaml "
                  ".sbx/profiles; echo 'print(41 + 1)' > a.py"},
         .cwd = dir.path(),
         .as = &subject()});
    Spec spec = sbx_spec({"run", "a.py"});
    spec.cwd = dir.path();
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(o.out == "42\n");
  }

  TEST_CASE("conf: a flag wins over a variable, a variable over the profile") {
    const WorkDir dir;
    const std::string file = dir.write("p.yaml", "extends: bash\nhostname: fromfile\n");
    Spec spec = sbx_spec({"run", "-p", file, "-c", "hostname"});
    spec.env = environment_of(subject());
    CHECK(run(spec).out == "fromfile\n");
    Spec flag = sbx_spec({"run", "-p", file, "--set", "hostname=fromflag", "-c", "hostname"});
    const Outcome o = run(flag);
    INFO(o.show());
    CHECK(o.out == "fromflag\n");
  }

  TEST_CASE("conf: the environment inside starts empty but for what was named") {
    Spec spec = sbx_spec(bash_args("env | cut -d= -f1 | sort", {"-e", "NAMED=1"}));
    spec.env = environment_of(subject());
    spec.env.emplace_back("SECRET_CANARY=leak");
    spec.env.emplace_back("LD_PRELOAD=/tmp/none.so");
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(contains(o.out, "NAMED"));
    CHECK(!contains(o.out, "SECRET_CANARY"));
    CHECK(!contains(o.out, "LD_PRELOAD"));
    CHECK(contains(o.out, "PATH"));
    CHECK(contains(o.out, "HOME"));
  }

  TEST_CASE("conf: environment values pass byte for byte") {
    const Outcome o = bash("printf '%s' \"$V\"", {"-e", "V=a b\n\"c\" $d '\xc3\xa9' = e"});
    INFO(o.show());
    CHECK(o.out == "a b\n\"c\" $d '\xc3\xa9' = e");
  }

  TEST_CASE("conf: --dry-run shows the plan and starts nothing") {
    const WorkDir dir;
    const Outcome o = bash("echo started > /work/x", {"--dry-run", "-o", dir.at("out")});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(contains(o.out, "/usr"));
    CHECK(contains(o.out, "tmpfs"));
    CHECK(!exists(dir.at("out")));
  }
}

}  // namespace sbx::test
