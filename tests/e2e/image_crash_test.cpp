// image_crash_test: imports at the same time, killed, interrupted, and on a full disk: what is
// there before or after, never something between.
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/images.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"

namespace sbx::test {
namespace {

/// Enough work to be killed in the middle of.
constexpr const char* kManyFiles =
    "for d in 1 2 3 4 5 6 7 8; do mkdir $d; for f in $(seq 400); do echo $d$f >$d/$f; done; done; "
    "head -c 60000000 /dev/urandom >big";

/// A tmpfs of this size that the subject may use, as the state directory.
class SmallDisk {
 public:
  SmallDisk(const std::string& at, const std::string& size) : at_(at) {
    const Identity& who = subject();
    const std::string options = "size=" + size + ",mode=700,uid=" + std::to_string(who.uid) +
                                ",gid=" + std::to_string(who.gid);
    REQUIRE(::mount("none", at.c_str(), "tmpfs", 0, options.c_str()) == 0);
  }
  ~SmallDisk() { ::umount2(at_.c_str(), MNT_DETACH); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  std::string at_;
};

}  // namespace

TEST_SUITE("image") {
  TEST_CASE("image crash: of two imports of one name at once, the name has one of them, whole") {
    SKIP_UNLESS("image-ids");
    const Images images;
    const std::string a = images.tar("a.tar", kManyFiles);
    const std::string b = images.tar("b.tar", std::string(kManyFiles) + "; echo b >b");
    for (int i = 0; i < 2; ++i) {
      Child first(images.spec({"import", a, "x"}));
      Child second(images.spec({"import", b, "x"}));
      const Outcome of_first = first.wait();
      const Outcome of_second = second.wait();
      INFO(of_first.show());
      INFO(of_second.show());
      CHECK(of_first.code == 0);
      CHECK(of_second.code == 0);
      CHECK(images.call({"gc"}).code == 0);
      CHECK(images.layers().size() == 1);
      CHECK(images.show("x", "/layers/0/id") == images.layers()[0]);
      CHECK(images.is_clean());
    }
    // The same content at once: stored once.
    Child first(images.spec({"import", a, "y"}));
    Child second(images.spec({"import", a, "z"}));
    CHECK(first.wait().code == 0);
    CHECK(second.wait().code == 0);
    CHECK(images.show("y", "/id") == images.show("z", "/id"));
    CHECK(images.call({"gc"}).code == 0);
    CHECK(images.layers().size() <= 2);
  }

  TEST_CASE("image crash: after kill -9 at any moment the name has what it had, or the new image") {
    SKIP_UNLESS("image-ids");
    const Images images;
    const std::string tar = images.tar("big.tar", kManyFiles);
    images.import(images.tar("old.tar", "echo old >f"), "x");
    const std::string old = images.show("x", "/id");
    const LeakCheck check;  // we are the reaper of orphans from here on
    for (const double after : {0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8}) {
      CAPTURE(after);
      {
        Child child(images.spec({"import", tar, "x"}));
        pause(after);
        child.kill(SIGKILL);
        (void)child.wait();
      }
      const std::string now = images.show("x", "/id");
      CHECK(now.starts_with("sha256:"));
      if (now == old) CHECK(images.show("x", "/size_bytes") == "4");
      CHECK(
          comes_true([&] { return images.sbx({"gc"}).code == 0 && images.layers().size() == 1; }));
      CHECK(images.show("x", "/layers/0/id") == images.layers()[0]);
      CHECK(images.is_clean());
    }
    CHECK(joined(check.left_after_kill()) == "");
    // And what was left half stands in nobody's way.
    images.import(tar, "x");
    CHECK(images.show("x", "/id") != old);
  }

  TEST_CASE("image crash: an import that is interrupted leaves nothing, and ends with 128+N") {
    SKIP_UNLESS("image-ids");
    const Images images;
    const std::string tar = images.tar("big.tar", kManyFiles);
    for (const int signo : {SIGINT, SIGTERM, SIGHUP}) {
      // The end of the input does not come, so that it is in the middle whenever the signal comes.
      int ends[2] = {-1, -1};  // NOLINT: pipe(2) wants it
      REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
      Spec import = images.spec({"import", "-", "x"});
      import.in = ends[0];
      Child child(import);
      ::close(ends[0]);
      const std::string head = slurp(tar).substr(0, 60'000);
      REQUIRE(::write(ends[1], head.data(), head.size()) == 60'000);
      REQUIRE(comes_true([&] { return !images.layers().empty(); }));
      child.kill(signo);
      const Outcome o = child.wait();
      ::close(ends[1]);
      INFO(o.show());
      CHECK(o.code == 128 + signo);
      CHECK(images.layers().empty());
      CHECK(images.call({"ls", "-q"}).out.empty());
      CHECK(images.is_clean());
    }
  }

  TEST_CASE(
      "image crash: a full disk is said so, nothing stays, and what is there can be removed") {
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("root");
    const Images images;
    const std::string tar = images.tar("big.tar", kManyFiles);
    const std::string small = images.tar("small.tar", "echo small >f");
    const SmallDisk disk(images.state_dir(), "48m");
    images.import(small, "x");
    const std::string old = images.show("x", "/id");
    const Outcome o = images.call({"import", tar, "x"});
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(contains(o.err, "No space left on device"));
    CHECK(contains(o.err, "fix"));
    CHECK(images.show("x", "/id") == old);
    CHECK(images.layers().size() == 1);
    CHECK(images.is_clean());

    // Not a block is free any more.
    images.shell("cat /dev/zero >state/fill 2>/dev/null || true");
    CHECK(images.call({"import", tar, "y"}).code == 125);
    CHECK(images.call({"rm", "x"}).code == 0);
    CHECK(images.layers().empty());
    CHECK(images.sbx({"gc"}).code == 0);
  }
}

}  // namespace sbx::test
