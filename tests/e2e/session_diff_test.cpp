// session_diff_test: diff, apply and export of sessions, with no sandbox needed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// A session of the subject, removed at the end.
class Session {
 public:
  explicit Session(const Args& flags = {}) {
    Args args{"session", "start", "s", "-q", "-p", "bash"};
    args.insert(args.end(), flags.begin(), flags.end());
    started_ = sbx(args);
  }
  ~Session() { sbx({"session", "rm", "-f", "s"}); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Outcome& started() const { return started_; }
  /// A call with a state directory of its own.
  Spec spec(Args args) const {
    Spec spec = sbx_spec(std::move(args));
    spec.env = environment_of(subject());
    spec.env.push_back("SBX_STATE_DIR=" + state_.at("state"));
    spec.clean_env = false;
    return spec;
  }
  Outcome sbx(Args args) const { return run(spec(std::move(args))); }
  Outcome sh(const std::string& code) const {
    return sbx({"session", "exec", "s", "--", "/bin/sh", "-ec", code});
  }
  Outcome verb(const std::string& verb, const Args& rest = {}) const {
    Args args{"session", verb, "s"};
    args.insert(args.end(), rest.begin(), rest.end());
    return sbx(args);
  }

 private:
  WorkDir state_;
  Outcome started_;
};

void must(const Outcome& outcome) {
  CAPTURE(outcome.out);
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
}

}  // namespace

TEST_SUITE("session diff") {
  TEST_CASE("diff: lists exactly what changed, running, paused and stopped") {
    const Session session;
    must(session.started());
    must(session.verb("diff"));
    CHECK(session.verb("diff").out == "");
    must(
        session.sh("printf 'one\\ntwo\\n' > a; mkdir d; echo x > d/f; ln -s /etc/passwd link; "
                   "mkfifo p; echo gone > gone; rm gone; printf 'b' > '/home/sbx/new file'"));
    const std::string wanted =
        "A /home/sbx/new file\nA /work/a\nA /work/d/\nA /work/d/f\nA /work/link\nA /work/p\n";
    CHECK(session.verb("diff").out == wanted);
    must(session.verb("stop"));
    CHECK(session.verb("diff").out == wanted);
    CHECK(session.verb("diff", {"d"}).out == "A /work/d/\nA /work/d/f\n");
    CHECK(session.verb("diff", {"/work/?"}).out ==
          "A /work/a\nA /work/d/\nA /work/d/f\nA /work/p\n");
    const Outcome json = session.verb("diff", {"--json", "/work/a"});
    CHECK(field(json.out, "/change") == "added");
    CHECK(field(json.out, "/path") == "/work/a");
    CHECK(field(json.out, "/size") == "8");
    CHECK(contains(session.verb("diff", {"--stat"}).out, " /work/a | 2 ++\n"));
    CHECK(session.verb("diff", {"--patch", "a"}).out ==
          "diff --git a/work/a b/work/a\nnew file mode 100644\n--- /dev/null\n+++ b/work/a\n"
          "@@ -0,0 +1,2 @@\n+one\n+two\n");
    CHECK(session.verb("diff", {"--since", "none"}).code == 2);
    CHECK(session.verb("diff", {"--stat", "--json"}).code == 2);
    CHECK(session.verb("diff", {"../etc"}).code == 2);
  }

  TEST_CASE("diff: what the inside calls its files does no harm to a terminal") {
    const Session session;
    must(session.started());
    must(
        session.sh("touch \"$(printf 'a\\033[2Jb')\" \"$(printf 'bad\\377')\"; mkdir -m 0 closed"));
    const Outcome diff = session.verb("diff");
    CHECK(diff.out == "A /work/a\\x1b[2Jb\nA /work/bad\\xff\nA /work/closed/\n");
    CHECK(contains(session.verb("diff", {"--json"}).out, "\"path_base64\":\"L3dvcmsvYmFk/w==\""));
  }

  TEST_CASE("export: the workspace comes out as an archive that tar reads") {
    const Session session;
    must(session.started());
    must(
        session.sh("mkdir d; echo hello > d/f; ln d/f again; ln -s d link; mkfifo p; "
                   "truncate -s 1G sparse; chmod 750 d"));
    must(session.verb("stop"));
    const WorkDir dir;
    Spec spec = session.spec({"session", "export", "s", "-o", "out.tar.zst"});
    spec.cwd = dir.path();
    const Outcome exported = run(spec);
    must(exported);
    CHECK(contains(exported.err, "p is left out"));
    must(run({.argv = {"/bin/tar", "-xf", "out.tar.zst"}, .cwd = dir.path()}));
    CHECK(slurp(dir.at("d/f")) == "hello\n");
    struct stat a {};
    struct stat b {};
    CHECK(::stat(dir.at("d/f").c_str(), &a) == 0);
    CHECK(::stat(dir.at("again").c_str(), &b) == 0);
    CHECK(a.st_ino == b.st_ino);
    CHECK(::stat(dir.at("sparse").c_str(), &a) == 0);
    CHECK(a.st_blocks < 1000);
    const Outcome stream = session.verb("export", {"--path", "/work/d"});
    must(stream);
    CHECK(stream.out.size() > 1000);
    CHECK(contains(stream.out, "hello\n"));
    CHECK(session.verb("export", {"--path", "/none"}).code == 2);
    CHECK(session.verb("export", {"-o", "x.rar"}).code == 2);
  }

  TEST_CASE("apply: changes of an overlay mount come to the host, a conflict stops all") {
    const WorkDir dir;
    dir.write("kept", "kept\n");
    dir.write("changed", "old\n");
    dir.write("gone", "gone\n");
    const Session session({"-v", dir.path() + ":/src:overlay"});
    must(session.started());
    must(session.sh("cd /src; echo new > changed; rm gone; mkdir d; echo x > d/f"));
    CHECK(session.verb("diff").out == "M /src/changed\nA /src/d/\nA /src/d/f\nD /src/gone\n");
    CHECK(slurp(dir.at("changed")) == "old\n");
    must(session.verb("apply", {"--dry-run"}));
    CHECK(slurp(dir.at("changed")) == "old\n");
    must(session.verb("apply", {"/src/d"}));
    CHECK(slurp(dir.at("d/f")) == "x\n");
    struct stat st {};
    REQUIRE(::stat(dir.at("d/f").c_str(), &st) == 0);
    CHECK(st.st_uid == subject().uid);
    CHECK(slurp(dir.at("gone")) == "gone\n");
    dir.write("changed", "somebody else's\n");
    const Outcome refused = session.verb("apply");
    CHECK(refused.code == 125);
    CHECK(contains(refused.err, "changed"));
    CHECK(slurp(dir.at("gone")) == "gone\n");
    CHECK(slurp(dir.at("changed")) == "somebody else's\n");
    must(session.verb("apply", {"/src/gone"}));
    CHECK(::access(dir.at("gone").c_str(), F_OK) == -1);
    must(session.verb("apply", {"--force"}));
    CHECK(slurp(dir.at("changed")) == "new\n");
    CHECK(session.verb("diff").out == "");
    must(session.sh("echo newer > /src/changed"));
    must(session.verb("apply"));
    CHECK(slurp(dir.at("changed")) == "newer\n");
  }
}

}  // namespace sbx::test
