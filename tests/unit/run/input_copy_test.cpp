// input_copy_test: inputs that are copied because they cannot be mounted.
#include "core/run/input_copy.h"

#include <sys/wait.h>

#include <string>
#include <vector>

#include "tests/unit/run/tree.h"

namespace sbx::run {

TEST_CASE("input copy: files, trees, links and holes; read-only; special files left out") {
  const Tree host;
  const Tree work;
  host.write("data.csv", "1,2", 0600);
  host.mkdir("tree");
  host.mkdir("tree/sub");
  host.write("tree/sub/run.sh", "#!", 0700);
  REQUIRE(sys::symlinkat("sub/run.sh", host.fd(), "tree/link").ok());
  REQUIRE(::mkfifo(host.at("tree/pipe").c_str(), 0600) == 0);
  host.write("tree/sparse", "");
  REQUIRE(::truncate(host.at("tree/sparse").c_str(), off_t{10} << 30U) == 0);
  {
    const UniqueFd sparse(::open(host.at("tree/sparse").c_str(), O_WRONLY | O_CLOEXEC));
    REQUIRE(::pwrite(sparse.get(), "mid", 3, off_t{5} << 30U) == 3);
  }
  const std::vector<backend::InputMount> inputs{
      {.host_path = host.at("data.csv"), .name = "in\xff.csv", .is_dir = false},
      {.host_path = host.at("tree"), .name = "t", .is_dir = true}};
  const Status copied = copy_inputs(work.fd(), inputs);
  if (!copied.ok()) FAIL(copied.error().to_string());
  CHECK(work.read("in\xff.csv") == "1,2");
  CHECK((work.stat("in\xff.csv").st_mode & 0777U) == 0444);
  CHECK(work.read("t/sub/run.sh") == "#!");
  CHECK((work.stat("t/sub/run.sh").st_mode & 0777U) == 0544);
  CHECK((work.stat("t/sub").st_mode & 0777U) == 0555);
  CHECK(S_ISLNK(work.stat("t/link").st_mode));
  CHECK_FALSE(work.exists("t/pipe"));
  CHECK(work.stat("t/sparse").st_size == off_t{10} << 30U);
  CHECK(work.stat("t/sparse").st_blocks < 1000);
  const UniqueFd sparse(::open(work.at("t/sparse").c_str(), O_RDONLY | O_CLOEXEC));
  std::string middle(3, ' ');
  CHECK(::pread(sparse.get(), middle.data(), 3, off_t{5} << 30U) == 3);
  CHECK(middle == "mid");
}

TEST_CASE("input copy: root's private files become the job's") {
  if (::geteuid() != 0) {
    MESSAGE("SKIP: needs root");
    return;
  }
  const Tree host;
  const Tree work;
  host.write("private", "secret", 0600);
  host.mkdir("dir", 0700);
  host.write("dir/f", "deep", 0600);
  REQUIRE(::fchownat(work.fd(), ".", 65534, 65534, AT_SYMLINK_NOFOLLOW) == 0);
  const std::vector<backend::InputMount> inputs{
      {.host_path = host.at("private"), .name = "private", .is_dir = false},
      {.host_path = host.at("dir"), .name = "dir", .is_dir = true}};
  REQUIRE(copy_inputs(work.fd(), inputs).ok());
  CHECK(work.stat("private").st_uid == 65534);
  CHECK(work.stat("dir/f").st_uid == 65534);
  CHECK(work.stat("dir").st_gid == 65534);
  host.write("after", "x");  // our own id is back
  CHECK(host.stat("after").st_uid == 0);
}

TEST_CASE("input copy: a wide and deep tree needs few descriptors") {
  const Tree host;
  const Tree work;
  host.mkdir("t");
  std::string path = "t";
  for (int i = 0; i < 1200; ++i) {
    host.mkdir("t/wide" + std::to_string(i));
  }
  for (int i = 0; i < 300; ++i) {
    path += "/deep";
    host.mkdir(path);
  }
  host.write(path + "/f", "bottom");
  const std::vector<backend::InputMount> inputs{
      {.host_path = host.at("t"), .name = "t", .is_dir = true}};
  REQUIRE(copy_inputs(work.fd(), inputs).ok());
  CHECK(work.read(path + "/f") == "bottom");
  CHECK(work.exists("t/wide1199"));
}

TEST_CASE("input copy: what is in the way is an error that names the input") {
  const Tree host;
  const Tree work;
  host.write("f", "1");
  work.write("f", "2");
  const std::vector<backend::InputMount> inputs{
      {.host_path = host.at("f"), .name = "f", .is_dir = false}};
  const Status copied = copy_inputs(work.fd(), inputs);
  REQUIRE_FALSE(copied.ok());
  CHECK(copied.error().message().find(host.at("f")) != std::string::npos);
  CHECK(work.read("f") == "2");
}

TEST_CASE("input copy: a file that the kernel cannot send, and that is shorter than it says") {
  // A file of sysfs: 4096 bytes by its size, a few in fact.
  const std::string source = "/sys/devices/system/cpu/possible";
  const auto text = fs::read_file(source, Bytes{4096});
  if (!text.ok()) {
    MESSAGE("SKIP: needs ", source);
    return;
  }
  const Tree work;
  const std::vector<backend::InputMount> inputs{
      {.host_path = source, .name = "cpus", .is_dir = false}};
  const Status copied = copy_inputs(work.fd(), inputs);
  if (!copied.ok()) FAIL(copied.error().to_string());
  CHECK(work.read("cpus") == text.value());
}

}  // namespace sbx::run
