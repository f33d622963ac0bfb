// artifacts_test: what comes out of a run as files: directory, manifest, archives, demands, charts.
#include <sys/stat.h>

#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

/// Python that checks every entry of DIR/manifest.json against the file beside it.
const char* const kVerify =
    "import hashlib, json, os, sys\n"
    "root = sys.argv[1]\n"
    "m = json.load(open(os.path.join(root, 'manifest.json')))\n"
    "items = m['artifacts'] if isinstance(m, dict) else m\n"
    "for a in items:\n"
    "    p = os.path.join(root, a['path'])\n"
    "    if not os.path.isfile(p): continue\n"
    "    d = open(p, 'rb').read()\n"
    "    assert len(d) == a['bytes'], a\n"
    "    assert hashlib.sha256(d).hexdigest() == a['sha256'], a\n"
    "    print(a['path'], a['mime'])\n";

Outcome verify(const std::string& dir) {
  return run({.argv = {"/usr/bin/python3", "-c", kVerify, dir}, .env = {"PYTHONUTF8=1"}});
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("artifacts: -o makes the directory with every new file and a right manifest") {
    const WorkDir dir;
    const Outcome o = bash(
        "echo one > a.txt; mkdir -p sub/deep; echo two > sub/deep/b.csv; : > empty; chmod 750 "
        "a.txt",
        {"-o", dir.at("out")});
    INFO(o.show());
    CHECK(o.code == 0);
    const Outcome v = verify(dir.at("out"));
    INFO(v.show());
    CHECK(v.code == 0);
    CHECK(contains(v.out, "a.txt text/plain"));
    CHECK(contains(v.out, "sub/deep/b.csv text/csv"));
    CHECK(contains(v.out, "empty"));
    struct stat st {};
    REQUIRE(::stat(dir.at("out/a.txt").c_str(), &st) == 0);
    CHECK(st.st_uid == subject().uid);
    CHECK((st.st_mode & 0777) == 0750);
  }

  TEST_CASE("artifacts: an existing directory keeps its other files") {
    const WorkDir dir;
    dir.write("keep", "old\n");
    dir.write("f", "old\n");
    const Outcome o = bash("echo new > f", {"-o", dir.path()});
    INFO(o.show());
    CHECK(slurp(dir.at("keep")) == "old\n");
    CHECK(slurp(dir.at("f")) == "new\n");
    CHECK(verify(dir.path()).out == "f text/plain\n");
  }

  TEST_CASE("artifacts: a failed program's files come out too, with its status") {
    const WorkDir dir;
    const Outcome o = bash("echo partial > f; exit 9", {"-o", dir.at("out")});
    CHECK(o.code == 9);
    CHECK(slurp(dir.at("out/f")) == "partial\n");
  }

  TEST_CASE("artifacts: inputs that were not changed are no artifacts, and stay as they were") {
    const WorkDir dir;
    const std::string in = dir.write("in.txt", "input\n");
    const Outcome o = bash("cat in.txt; echo x > in.txt || echo readonly; echo y > new",
                           {"-i", in, "-o", dir.at("out")});
    INFO(o.show());
    CHECK(contains(o.out, "input\nreadonly\n"));
    CHECK(!exists(dir.at("out/in.txt")));
    CHECK(exists(dir.at("out/new")));
    CHECK(slurp(in) == "input\n");
  }

  TEST_CASE("artifacts: input directories and renamed inputs are there, read-only") {
    const WorkDir dir;
    run({.argv = {"/bin/sh", "-c", "mkdir -p data/sub; echo deep > data/sub/f"},
         .cwd = dir.path(),
         .as = &subject()});
    const Outcome o = bash("cat data/sub/f renamed/sub/f; touch data/x || echo ro",
                           {"-i", dir.at("data"), "-i", dir.at("data") + "=renamed"});
    INFO(o.show());
    CHECK(o.out == "deep\ndeep\nro\n");
  }

  TEST_CASE("artifacts: inputs that only root may read are readable inside for root") {
    SKIP_UNLESS("root");
    if (!subject_is_root()) {
      return;
    }
    const WorkDir dir;
    const std::string in = dir.write("private", "secret\n", 0600);
    const std::string big = dir.write("big", std::string(3000000, 'x'), 0400);
    const Outcome o = bash("cat private; wc -c < big", {"-i", in, "-i", big});
    INFO(o.show());
    CHECK(o.out == "secret\n3000000\n");
  }

  TEST_CASE("artifacts: two inputs of one name are refused before the start") {
    const WorkDir dir;
    run({.argv = {"/bin/sh", "-c", "mkdir a b; echo 1 > a/f; echo 2 > b/f"},
         .cwd = dir.path(),
         .as = &subject()});
    const Outcome o = bash("echo started", {"-i", dir.at("a/f"), "-i", dir.at("b/f")});
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(o.out.empty());
  }

  TEST_CASE("artifacts: archives hold the same files") {
    const WorkDir dir;
    for (const std::string kind : {"tar.gz", "tgz", "tar", "zip"}) {
      const std::string file = dir.at("out." + kind);
      const Outcome o = bash("echo one > a; mkdir d; echo two > d/b", {"-o", file});
      INFO(o.show());
      CHECK(o.code == 0);
      const Outcome listed =
          run({.argv = {"/usr/bin/python3",
                        "-c",
                        "import sys, tarfile, zipfile\nf = sys.argv[1]\n"
                        "print(sorted(zipfile.ZipFile(f).namelist() if f.endswith('zip') else "
                        "tarfile.open(f).getnames()))",
                        file}});
      INFO(listed.show());
      CHECK(contains(listed.out, "'a'"));
      CHECK(contains(listed.out, "'d/b'"));
      CHECK(contains(listed.out, "manifest.json"));
    }
  }

  TEST_CASE("artifacts: --require without a match fails with a named cause") {
    const Outcome o = bash("echo x > a.txt", {"--require", "*.png", "--json"});
    INFO(o.show());
    CHECK(o.code != 0);
    CHECK(contains(field(o.out, "/error/message"), "*.png"));
    CHECK(bash("echo x > a.txt", {"--require", "*.txt"}).code == 0);
  }

  TEST_CASE("artifacts: the result object lists them with hash and kind") {
    const Outcome o = bash("printf abc > a.txt", {"--json"});
    INFO(o.show());
    CHECK(field(o.out, "/artifacts/0/path") == "a.txt");
    CHECK(field(o.out, "/artifacts/0/bytes") == "3");
    CHECK(field(o.out, "/artifacts/0/sha256") ==
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(field(o.out, "/artifacts/0/mime") == "text/plain");
  }

  TEST_CASE(
      "artifacts: a destination that cannot be written is an error before or after, with its "
      "name") {
    const Outcome o = bash("echo x > f", {"-o", "/proc/nowhere/out"});
    INFO(o.show());
    CHECK(o.code == 2 + (o.code == 125 ? 123 : 0));
    CHECK(contains(o.err, "/proc/nowhere"));
  }
}

// Heavy under emulation, and the same everywhere: not part of the jail suite.
TEST_SUITE("data") {
  TEST_CASE("artifacts: plt.show() becomes numbered pictures") {
    SKIP_UNLESS("pandas");
    const WorkDir dir;
    const Outcome o = python(
        "import matplotlib.pyplot as plt\n"
        "plt.plot([1, 2]); plt.show()\nplt.figure(); plt.plot([2, 1]); plt.show()\nprint('end')",
        {"-o", dir.at("out"), "--timeout", "120s"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(slurp(dir.at("out/figure-1.png")).rfind("\x89PNG", 0) == 0);
    CHECK(slurp(dir.at("out/figure-2.png")).rfind("\x89PNG", 0) == 0);
    CHECK(contains(verify(dir.at("out")).out, "figure-1.png image/png"));
  }

  TEST_CASE("artifacts: a big table with pandas and a chart of it") {
    SKIP_UNLESS("pandas");
    const WorkDir dir;
    const std::string rows = slowness() > 1 ? "40000" : "2000000";
    const std::string csv = dir.at("table.csv");
    REQUIRE(
        run({.argv = {"/usr/bin/python3",
                      "-c",
                      "import sys\nn = int(sys.argv[2])\nwith open(sys.argv[1], 'w') as f:\n"
                      "    f.write('id,group,value,text\\n')\n"
                      "    for i in range(n):\n"
                      "        f.write(f'{i},g{i % 7},{i * 0.5},{\"some text of a row \" * 2}\\n')",
                      csv,
                      rows},
             .as = &subject(),
             .timeout = 120})
            .code == 0);
    const std::string script =
        dir.write("report.py",
                  "import pandas as pd\nimport matplotlib.pyplot as plt\n"
                  "t = pd.read_csv('table.csv')\ns = t.groupby('group')['value'].sum()\n"
                  "print(len(t), int(s.sum()))\ns.plot.bar()\nplt.savefig('chart.png')\n");
    Spec spec = sbx_spec({"run",
                          "-m",
                          "2G",
                          "--set",
                          "limits.best_effort=true",
                          "--timeout",
                          "10m",
                          "-i",
                          csv,
                          "-o",
                          dir.at("out"),
                          script});
    spec.timeout = 240;
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out == (slowness() > 1 ? "40000 399990000\n" : "2000000 999999500000\n"));
    const Outcome v = verify(dir.at("out"));
    INFO(v.show());
    CHECK(v.out == "chart.png image/png\n");
  }
}

}  // namespace sbx::test
