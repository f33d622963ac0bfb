#include "core/confine/host_text.h"

#include <string>

#include <doctest/doctest.h>

namespace sbx::confine {

TEST_CASE("host_text: a mountinfo line gives root, mount point, type and options") {
  const auto lines = parse_mountinfo(
      "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
      "35 31 0:32 /docker/ab /sys/fs/cgroup/memory rw shared:9 master:2 - cgroup cgroup rw,memory\n"
      "36 31 0:33 / /mnt/a\\040b\\011c\\134 rw - ext4 /dev/sda1 rw");
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].mount_point == "/sys/fs/cgroup");
  CHECK(lines[1].root == "/docker/ab");
  CHECK(lines[1].type == "cgroup");
  CHECK(lines[1].super_options == "rw,memory");
  CHECK(lines[2].mount_point == "/mnt/a b\tc\\");
}

TEST_CASE("host_text: mountinfo lines that make no sense are skipped") {
  CHECK(parse_mountinfo("").empty());
  CHECK(parse_mountinfo("\n\n").empty());
  CHECK(parse_mountinfo("1 2 3:4 / /x rw tmpfs tmpfs rw\n").empty());
  CHECK(parse_mountinfo("1 2 3:4 / /x rw -\n").empty());
  CHECK(parse_mountinfo("1 2 3:4 / /x rw - t s\n").empty());
  CHECK(parse_mountinfo("- - - - - - - a b c").size() == 1);
}

TEST_CASE("host_text: /proc/self/cgroup lines keep colons in the path") {
  const auto lines = parse_proc_cgroup("4:cpu,cpuacct:/a:b\n0::/user.slice\n9:name=systemd:/\n");
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].controllers == "cpu,cpuacct");
  CHECK(lines[0].path == "/a:b");
  CHECK(lines[1].hierarchy == 0);
  CHECK(lines[1].controllers.empty());
  CHECK(parse_proc_cgroup("x:y:/z\n1:a\n1:a:\n1:a:b\n:::\n99999999999:a:/\n").empty());
}

TEST_CASE("host_text: a home is the first line of the uid, and only an absolute path") {
  const std::string passwd =
      "root:x:0:0:root:/root:/bin/bash\n# comment:x:5:5::/no:\nbad:x:abc:1::/no:\n"
      "u:x:1000:1000:,,,:/home/u:/bin/sh\nu2:x:1000:1000::/home/u2:/bin/sh\n"
      "none:x:1001:1001:::\nrel:x:1002:1002::home/rel:\nmany:x:1003:1003::/h:a:b:c\n"
      "neg:x:-1:1::/n:\nbig:x:4294967296:1::/n:\nlast:x:1004:1004::/last:/bin/sh";
  CHECK(find_home(passwd, 0) == "/root");
  CHECK(find_home(passwd, 1000) == "/home/u");
  CHECK_FALSE(find_home(passwd, 1001).has_value());
  CHECK_FALSE(find_home(passwd, 1002).has_value());
  CHECK(find_home(passwd, 1003) == "/h");
  CHECK(find_home(passwd, 1004) == "/last");
  CHECK_FALSE(find_home(passwd, 5).has_value());
  CHECK_FALSE(find_home(passwd, 4294967295U).has_value());
}

TEST_CASE("host_text: subid lines by name or number, nonsense left out") {
  const auto spans = parse_subid(
      "u:100000:65536\n1000:165536:65536\n\n#x\nbad:1\nbad:1:2:3\nbad:a:b\nzero:5:0\n"
      "huge:18446744073709551615:18446744073709551615\n");
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].first == 100000);
  CHECK(spans[1].count == 65536);
  CHECK(spans[2].first == 18446744073709551615U);
}

TEST_CASE("host_text: a process named \") Z 1\" does not fool the stat parser") {
  const std::string rest = "S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 9 10";
  const auto stat = parse_proc_stat("42 (a) Z 1 (b) " + rest);
  REQUIRE(stat.has_value());
  CHECK(stat->state == 'S');
  CHECK(stat->start_time == 777);
  CHECK(stat->parent == 1);
  CHECK(stat->group == 2);
  CHECK(stat->session == 3);
  CHECK(stat->cpu_time == 11);
  CHECK(stat->rss == 10);
  CHECK(stat->name == "a) Z 1 (b");
  CHECK_FALSE(parse_proc_stat("").has_value());
  CHECK_FALSE(parse_proc_stat("42 (a)").has_value());
  CHECK_FALSE(parse_proc_stat("42 (a) S 1 2").has_value());
  CHECK_FALSE(parse_proc_stat("42 (a S 1 1 1 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 7").has_value());
}

TEST_CASE("host_text: a counter matches the whole key") {
  CHECK(find_counter("low 0\noom 3\noom_kill 2\n", "oom_kill") == 2);
  CHECK(find_counter("oom_kill_disable 0\nunder_oom 0\noom_kill 17", "oom_kill") == 17);
  CHECK_FALSE(find_counter("oom_kill x\n", "oom_kill").has_value());
  CHECK_FALSE(find_counter("oom 1\n", "oom_kill").has_value());
  CHECK_FALSE(find_counter("", "oom_kill").has_value());
}

}  // namespace sbx::confine
