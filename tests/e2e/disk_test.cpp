// disk_test: a full disk is ENOSPC inside and never the OOM killer; a disk that cannot be is
// refused.
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

TEST_SUITE("jail") {
  TEST_CASE("disk: files up to the memory limit end in ENOSPC, not in the OOM killer") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = bash("head -c 300M /dev/zero > /tmp/big; echo $?", {"-m", "64M", "--json"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(field(o.out, "/stdout") == "1\n");
    CHECK(contains(field(o.out, "/stderr"), "No space left"));
    CHECK(field(o.out, "/limit_hit") == "disk");
    CHECK(contains(field(o.out, "/limits_in_force/disk/mechanism"), "tmpfs"));
  }

  TEST_CASE("disk: many small files end in ENOSPC, too") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = python(
        "import errno, os\n"
        "for size in (0, 1, 4096):\n"
        "  n = 0\n"
        "  try:\n"
        "    while True:\n"
        "      with open(f'/tmp/{size}-{n}', 'wb') as f: f.write(b'x' * size)\n"
        "      n += 1\n"
        "  except OSError as e: print(errno.errorcode[e.errno], n > 100)\n"
        "  for i in range(n + 1):\n"
        "    if os.path.exists(f'/tmp/{size}-{i}'): os.unlink(f'/tmp/{size}-{i}')\n",
        {"-m", "64M", "--json"});
    INFO(o.show());
    CHECK(field(o.out, "/stdout") == "ENOSPC True\nENOSPC True\nENOSPC True\n");
    CHECK(field(o.out, "/cause") == "exited");
  }

  TEST_CASE("disk: a number of files is held, and the cause says so") {
    const Outcome o = python(
        "n = 0\n"
        "while True:\n"
        "  open(f'/work/{n}', 'w').close()\n"
        "  n += 1\n"
        "  print(n)\n",
        {"--inodes", "50", "--json"});
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(field(o.out, "/cause") == "disk_full");
    CHECK(field(o.out, "/limit_hit") == "inodes");
    CHECK(field(o.out, "/limits_in_force/inodes/value") == "50");
    const auto lines = lines_of(field(o.out, "/stdout"));
    REQUIRE_FALSE(lines.empty());
    CHECK(std::stoi(lines.back()) <= 50);
    CHECK(std::stoi(lines.back()) >= 40);
    CHECK(contains(o.err, "--inodes"));
  }

  TEST_CASE("disk: --disk holds all writable places together, and the cause says so") {
    const Outcome o = bash(
        "for d in /work /tmp /dev/shm \"$HOME\"; do head -c 8M /dev/zero > $d/f || exit 4; done",
        {"--disk", "16M", "--json"});
    INFO(o.show());
    CHECK(o.code == 4);
    CHECK(field(o.out, "/cause") == "disk_full");
    CHECK(contains(field(o.out, "/stderr"), "No space left"));
    CHECK(field(o.out, "/limits_in_force/disk/value") == "16777216");
    CHECK(contains(o.err, "--disk"));
  }

  TEST_CASE("disk: a sparse file takes what is written of it") {
    const Outcome o = bash(
        "truncate -s 4G /tmp/sparse && echo x >> /tmp/sparse && stat -c %s /tmp/sparse && "
        "rm /tmp/sparse && head -c 10M /dev/zero > /tmp/f && echo wrote",
        {"--disk", "16M"});
    INFO(o.show());
    CHECK(o.out == "4294967298\nwrote\n");
  }

  TEST_CASE("disk: root keeps more than the memory on disk, exactly as much, and no trace of it") {
    SKIP_UNLESS("root");
    SKIP_UNLESS("loop");
    SKIP_UNLESS("cgroup-memory");
    if (!subject_is_root()) return;
    const LeakCheck check;
    const Outcome o = bash(
        "head -c 150M /dev/zero > /work/a && echo a; cp /work/a /tmp/b || rm /tmp/b; "
        "touch /dev/shm/c ~/d && id -un && exit 3",
        {"-m", "64M", "--disk", "200M", "--json"});
    INFO(o.show());
    CHECK(o.code == 3);
    CHECK(field(o.out, "/stdout") == "a\nsbx\n");
    CHECK(field(o.out, "/cause") == "exited");
    CHECK(contains(field(o.out, "/stderr"), "No space left"));
    CHECK(field(o.out, "/limits_in_force/disk/value") == "209715200");
    CHECK(contains(field(o.out, "/limits_in_force/disk/mechanism"), "ext4"));
    CHECK(field(o.out, "/artifacts/0/path") == "a");
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE("disk: who cannot mount an image is refused more than the memory") {
    if (subject_is_root()) return;
    const Outcome o = bash("echo ran", {"--disk", "2G"});
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(o.out.empty());
    CHECK(contains(o.err, "limits.disk 2G does not fit"));
    const Outcome less = bash("echo ran", {"--disk", "2G", "--set", "limits.best_effort=true"});
    INFO(less.show());
    CHECK(less.out == "ran\n");
    CHECK(contains(less.err, "the disk is only"));
  }
}

}  // namespace sbx::test
