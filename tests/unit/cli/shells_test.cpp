// Shells test: the completions at work in real shells, with an sbx that only knows its lists.
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"

#include "tests/support/process.h"
#include "tests/support/pty.h"
#include "tests/support/skip.h"

namespace {

/// A directory with an executable `sbx` and some files to complete.
class Scene {
 public:
  Scene() : dir_(sbx::fs::TempDir::create("/tmp", "sbx-shells-").value()) {
    write("sbx",
          "#!/bin/sh\ncase \"$*\" in\n"
          "'profile ls --names') echo python; echo pypy; echo node ;;\n"
          "'profile schema --keys') echo limits.memory; echo limits.pids ;;\n"
          "'image ls -q') echo debian:12; echo debian:13; echo h:5/tools; echo alpine ;;\n"
          "'session ls -q') echo web; echo wide; echo dev ;;\n"
          "'session logs --names web') echo 1; echo 12; echo db ;;\n"
          "'session checkpoints -q web') echo clean; echo later ;;\n"
          "*) echo 'sbx: no such thing' >&2; exit 2 ;;\n"
          "esac\n",
          0755);
    write("data file.csv", "x", 0644);
    write("job.py", "x", 0644);
  }
  const std::string& path() const { return dir_.path(); }
  void write(const std::string& name, const std::string& content, mode_t mode) {
    REQUIRE(sbx::fs::write_atomic(dir_.fd(), name, content, mode).ok());
  }
  std::vector<std::string> env() const {
    return {"PATH=" + path() + ":/usr/bin:/bin",
            "HOME=" + path(),
            "TERM=dumb",
            "LC_ALL=C.UTF-8",
            "ZDOTDIR=" + path()};
  }
  std::string run(std::vector<std::string> argv) const {
    auto outcome = sbx::test::run({.argv = std::move(argv), .env = env(), .cwd = path()});
    INFO(outcome.show());
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    return outcome.out;
  }

 private:
  sbx::fs::TempDir dir_;
};

struct Row {
  std::string typed;
  std::string offered;  // one a line
};

}  // namespace

TEST_CASE("completions in bash: verbs, flags, profiles, keys, files, and the program's own words") {
  Scene scene;
  // words are given as readline splits them: = and : stand alone
  const std::vector<Row> rows = {
      {"sbx r", "run\nruns\n"},
      {"sbx runs sh", "show\n"},
      {"sbx run --on-overlap w", "wait\n"},
      {"sbx session res", "restore\nresume\n"},
      {"sbx session show w", "web\nwide\n"},
      {"sbx session rm -f web d", "dev\n"},
      {"sbx session logs w", "web\nwide\n"},
      {"sbx session logs web 1", "1\n12\n"},
      {"sbx session logs --since 1h web d", "db\n"},
      {"sbx session logs dev 1", ""},
      {"sbx session logs web --stream e", "err\n"},
      {"sbx session kill web -s K", "KILL\n"},
      {"sbx session kill web -s KILL 1", "1\n12\n"},
      {"sbx session exec web --no", "--no-start\n"},
      {"sbx session exec web -- cat jo", "job.py\n"},
      {"sbx session start -p pyp", "pypy\n"},
      {"sbx session restore web cl", "clean\n"},
      {"sbx help session st", "start\nstats\nstop\n"},
      {"sbx im", "image\n"},
      {"sbx image im", "import\n"},
      {"sbx image rm al", "alpine\n"},
      {"sbx image rm alpine debian : 1", "12\n13\n"},
      {"sbx image rm debian :", "12\n13\n"},
      {"sbx image show h : 5", "5/tools\n"},
      {"sbx image import jo", "job.py\n"},
      {"sbx image pull --tls-verify = f", "false\n"},
      {"sbx profile ex", "explain\n"},
      {"sbx profile explain n", "node\n"},
      {"sbx run --mem", "--memory\n"},
      {"sbx run -p py", "python\npypy\n"},
      {"sbx run --profile = n", "node\n"},
      {"sbx run --profile =", "python\npypy\nnode\n"},
      {"sbx run -m 1G --set limits.p", "limits.pids=\n"},
      {"sbx run -e A = b -p n", "node\n"},
      {"sbx run -i d", "data file.csv\n"},
      {"sbx run jo", "job.py\n"},
      {"sbx run job.py d", "data file.csv\n"},
      {"sbx run job.py --mem", ""},
      {"sbx run -- sb", "sbx\n"},
      {"sbx run -- cat jo", "job.py\n"},
      {"sbx version --j", "--json\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.typed);
    std::string script =
        "source " SBX_SOURCE_DIR
        "/completions/sbx.bash\nCOMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        "_sbx\nfor word in \"${COMPREPLY[@]}\"; do printf '%s\\n' \"$word\"; done";
    CHECK(scene.run({"/bin/bash", "--norc", "-c", script, "bash", row.typed}) == row.offered);
  }
}

TEST_CASE("completions in fish: verbs, flags, profiles, keys, files, and the program's own words") {
  SKIP_UNLESS("fish");
  Scene scene;
  const std::vector<Row> rows = {
      {"sbx r", "run\nruns\n"},
      {"sbx runs sh", "show\n"},
      {"sbx run --on-overlap w", "wait\n"},
      {"sbx session star", "start\n"},
      {"sbx session show w", "web\nwide\n"},
      {"sbx session logs w", "web\nwide\n"},
      {"sbx session logs web 1", "1\n12\n"},
      {"sbx session logs dev 1", ""},
      {"sbx session kill web -s KI", "KILL\n"},
      {"sbx session exec web --no", "--no-start\n"},
      {"sbx image rm deb", "debian:12\ndebian:13\n"},
      {"sbx image pull --tls-verify=f", "--tls-verify=false\n"},
      {"sbx profile ex", "explain\n"},
      {"sbx run --mem", "--memory\n"},
      {"sbx run -p pyp", "pypy\n"},
      {"sbx run --profile=nod", "--profile=node\n"},
      {"sbx run --set limits.p", "limits.pids=\n"},
      {"sbx run -i d", "data file.csv\n"},
      {"sbx run -m 1G jo", "job.py\n"},
      {"sbx run job.py d", "data file.csv\n"},
      {"sbx run job.py --mem", ""},
      {"sbx run -- cat jo", "job.py\n"},
      {"sbx version --j", "--json\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.typed);
    CHECK(scene.run(
              {"/usr/bin/fish",
               "--no-config",
               "-c",
               "source " SBX_SOURCE_DIR
               "/completions/sbx.fish; complete -C $argv[1] | string replace -r '\\t.*' ''; exit 0",
               row.typed}) == row.offered);
  }
}

TEST_CASE("completions in zsh: verbs, profiles, files, and the program's own words") {
  SKIP_UNLESS("zsh");
  SKIP_UNLESS("pty");
  Scene scene;
  scene.write(".zshrc",
              "fpath=(" SBX_SOURCE_DIR
              "/completions $fpath)\nautoload -U compinit; compinit -u -D\n"
              "PROMPT='READY> '\nunsetopt beep zle_bracketed_paste 2>/dev/null\n",
              0644);
  // a unique completion is put in at once: what is on the line afterwards is what to expect
  const std::vector<Row> rows = {
      {"sbx ver", "version"},
      {"sbx profile ex", "explain"},
      {"sbx run -p nod", "node"},
      {"sbx session show we", "web"},
      {"sbx image show alp", "alpine"},
      {"sbx session logs web d", "db"},
      {"sbx session exec web -- cat jo", "job.py"},
      {"sbx run --profile=nod", "node"},
      {"sbx run -i da", "file.csv"},
      {"sbx run job.py da", "file.csv"},
      {"sbx run -- cat jo", "job.py"},
      {"sbx run --isolation ja", "jail"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.typed);
    sbx::test::Pty pty(50, 200);
    sbx::test::Child shell(
        {.argv = {"/usr/bin/zsh", "-i"}, .env = scene.env(), .cwd = scene.path(), .pty = &pty});
    REQUIRE(pty.wait_for("READY> ", 20));
    pty.clear();
    pty.type(row.typed + "\t");
    CHECK_MESSAGE(pty.wait_for(row.offered, 20), pty.screen());
    shell.kill(SIGKILL);
    (void)shell.wait();
  }
}
