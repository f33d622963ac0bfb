// image_test: import, ls, show, rm and gc of images: what is there, who uses it, what goes.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/images.h"
#include "tests/support/pty.h"
#include "tests/support/skip.h"

namespace sbx::test {

TEST_SUITE("image") {
  TEST_CASE("image: what is imported is listed, shown, and gone after rm") {
    SKIP_UNLESS("image-ids");
    const Images images;
    const std::string tar = images.tar("a.tar", "mkdir etc; echo hi >etc/motd");
    const Outcome made = images.call({"import", tar, "team/a:1"});
    INFO(made.show());
    REQUIRE(made.code == 0);
    CHECK(made.out.starts_with("team/a:1  "));
    CHECK(contains(made.out, "1 layer"));
    CHECK(made.err.empty());

    CHECK(images.call({"ls", "-q"}).out == "team/a:1\n");
    const std::string listed = images.call({"ls", "--json"}).out;
    CHECK(field(listed, "/name") == "team/a:1");
    CHECK(field(listed, "/layers") == "1");
    CHECK(field(listed, "/size_bytes") == "3");
    CHECK(field(listed, "/source") == "import " + tar);
    CHECK(contains(images.call({"ls"}).out, "team/a:1"));
    CHECK(images.show("team/a:1", "/id").starts_with("sha256:"));
    CHECK(images.show("team/a:1", "/layers/0/id").starts_with("img-"));
    CHECK(images.show("team/a:1", "/sessions") == "[]");
    CHECK(contains(images.call({"show", "team/a:1"}).out, "layers"));
    CHECK(images.layers().size() == 1);
    CHECK(images.is_clean());

    const Outcome gone = images.call({"rm", "team/a:1"});
    INFO(gone.show());
    CHECK(gone.code == 0);
    CHECK(gone.out.empty());
    CHECK(gone.err.empty());
    CHECK(images.layers().empty());
    CHECK(images.call({"ls", "-q"}).out.empty());
  }

  TEST_CASE("image: equal content is stored once, under two names and from two archives") {
    SKIP_UNLESS("image-ids");
    const Images images;
    const std::string tar = images.tar("a.tar", "echo hi >f; touch -d @1 f .");
    images.shell("gzip -k a.tar; cp a.tar b.tar");
    images.import(tar, "one");
    images.import(images.dir().at("a.tar.gz"), "two");
    images.import(images.dir().at("b.tar"), "one");
    CHECK(images.layers().size() == 1);
    CHECK(images.show("one", "/id") == images.show("two", "/id"));
    CHECK(images.call({"rm", "one"}).code == 0);
    CHECK(images.layers().size() == 1);
    CHECK(images.call({"rm", "two"}).code == 0);
    CHECK(images.layers().empty());
  }

  TEST_CASE("image: a name that is given to another image lets go of the old files") {
    SKIP_UNLESS("image-ids");
    const Images images;
    images.import(images.tar("a.tar", "echo a >f"), "x");
    const std::string before = images.show("x", "/id");
    images.import(images.tar("b.tar", "echo b >f"), "x");
    CHECK(images.show("x", "/id") != before);
    CHECK(images.layers().size() == 1);
  }

  TEST_CASE("image: mistakes are told as such, with the next step") {
    const Images images;
    struct Row {
      Args args;
      int code;
      std::string_view part;
    };
    const std::vector<Row> rows{
        {{"show", "nothing"}, 2, "no image \"nothing\""},
        {{"rm", "nothing"}, 2, "sbx image ls"},
        {{"import", "/nonexistent.tar", "x"}, 2, "/nonexistent.tar"},
        {{"import", "/dev/null", "a b"}, 2, "is no name for an image"},
        {{"import", "/dev/null", "x", "--max-size", "lots"}, 2, "--max-size"},
        {{"gc", "--budget", "lots"}, 2, "20G, or none"},
        {{"gc", "--budget", "1G", "--dry-run"}, 2, "give one of them"},
        {{"pull", "-x"}, 2, "unknown"},
        {{"pull", "a b"}, 2, "names no image"},
        {{"pull", "debian", "--tls-verify", "maybe"}, 2, "true"},
    };
    for (const Row& row : rows) {
      const Outcome o = images.call(row.args);
      INFO(o.show());
      CHECK(o.code == row.code);
      CHECK(contains(o.err, row.part));
      CHECK(o.out.empty());
    }
  }

  TEST_CASE("image: rm of one that a run holds says so, and its files go with the run's end") {
    SKIP_UNLESS("image-ids");
    const Images images;
    images.import(images.tar("a.tar", "echo a >f"), "x");
    const std::string layer = images.state_dir() + "/layers/" + images.layers()[0];
    const int held = ::open(layer.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(held >= 0);
    REQUIRE(::flock(held, LOCK_SH) == 0);
    const Outcome o = images.call({"rm", "x"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(contains(o.err, "a run uses"));
    CHECK(images.call({"ls", "-q"}).out.empty());
    CHECK(images.layers().size() == 1);
    CHECK(images.call({"gc"}).code == 0);
    CHECK(images.layers().size() == 1);
    ::close(held);
    CHECK(images.call({"gc", "--json"}).code == 0);
    CHECK(images.layers().empty());
  }

  TEST_CASE("image: rm of one that a session has says so, and its files go with the session") {
    SKIP_UNLESS("image-ids");
    const Images images;
    images.import(images.tar("a.tar", "echo a >f"), "x");
    const std::string layer = images.layers()[0];
    images.sessions().start("s");
    REQUIRE(images.sbx({"session", "stop", "s"}).code == 0);
    // As one that was started from the image would have it.
    images.shell("sed -i 's/\"lowers\":\\[/\"lowers\":[\"" + layer +
                 "\",/' state/sessions/s/record.json");
    CHECK(images.show("x", "/sessions/0") == "s");
    const Outcome o = images.call({"rm", "x", "--json"});
    INFO(o.show());
    CHECK(field(o.out, "/sessions/0") == "s");
    CHECK(exists(images.state_dir() + "/layers/" + layer));
    CHECK(images.call({"gc"}).code == 0);
    CHECK(exists(images.state_dir() + "/layers/" + layer));
    REQUIRE(images.sbx({"session", "rm", "-f", "s"}).code == 0);
    CHECK(!exists(images.state_dir() + "/layers/" + layer));
  }

  TEST_CASE("image: files of ids that the user does not have are removed too") {
    SKIP_UNLESS("image-ids");
    const Images images;
    const std::string tar = images.tar("a.tar",
                                       "mkdir -p d/e; echo a >d/e/f; mkdir ro; echo b >ro/g; "
                                       "chmod 700 d; chmod 555 ro",
                                       "1234:1234");
    images.import(tar, "x");
    REQUIRE(images.call({"rm", "x"}).code == 0);
    CHECK(images.layers().empty());

    // What a killed import left, as well.
    images.import(tar, "x");
    images.shell("mv state/layers/img-* state/layers/.tmp-abcdefghijkl; rm state/images/x.json");
    const Outcome gc = images.sbx({"gc"});
    INFO(gc.show());
    CHECK(gc.code == 0);
    CHECK(images.layers().empty());
  }

  TEST_CASE("image: an unreadable record keeps all layers, and can be removed") {
    SKIP_UNLESS("image-ids");
    const Images images;
    images.import(images.tar("a.tar", "echo a >f"), "x");
    images.shell("echo '{\"format\":1' >state/images/x.json");
    CHECK(contains(images.call({"ls"}).out, "unreadable"));
    CHECK(images.call({"gc"}).code == 0);
    CHECK(images.layers().size() == 1);
    CHECK(images.call({"rm", "x"}).code == 0);
    CHECK(images.layers().empty());
  }

  TEST_CASE(
      "image: the budget refuses what would pass it, from the variable and from gc --budget") {
    SKIP_UNLESS("image-ids");
    const Images images;
    const std::string tar = images.tar("a.tar", "head -c 8000000 /dev/urandom >f");
    Outcome o = images.call({"import", tar, "x"}, {"SBX_STATE_BUDGET=4M"});
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(contains(o.err, "budget of 4M (SBX_STATE_BUDGET)"));
    CHECK(contains(o.err, "sbx image gc"));
    CHECK(images.layers().empty());
    CHECK(images.call({"ls", "-q"}).out.empty());

    o = images.call({"gc", "--budget", "4M"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(contains(o.err, "of its budget of 4M"));
    o = images.call({"import", tar, "x"});
    CHECK(o.code == 125);
    CHECK(contains(o.err, "/budget)"));
    o = images.call({"import", tar, "x"}, {"SBX_STATE_BUDGET=none"});
    CHECK(o.code == 0);
    o = images.call({"import", images.tar("b.tar", "echo b >f"), "y"});
    INFO(o.show());
    CHECK(o.code == 125);  // nothing is left of it
    CHECK(images.call({"gc", "--budget", "none"}).code == 0);
    CHECK(images.call({"import", images.dir().at("b.tar"), "y"}).code == 0);
  }

  TEST_CASE("image: import draws a bar on a terminal, and not with -q") {
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("pty");
    const Images images;
    const std::string tar = images.tar("a.tar", "head -c 8000000 /dev/zero >f");
    for (const bool is_quiet : {false, true}) {
      Pty pty(24, 80);
      Spec spec = images.spec(is_quiet ? Args{"import", "-q", tar, "x"} : Args{"import", tar, "x"},
                              {"TERM=xterm"});
      spec.pty = &pty;
      Child child(spec);
      CHECK(child.wait().code == 0);
      pty.watch(0.1);
      INFO(pty.screen());
      CHECK(contains(pty.screen(), "\x1b[K") != is_quiet);  // it is taken away at the end
    }
  }
}

}  // namespace sbx::test
