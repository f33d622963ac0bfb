// Tests of the store of kernels: what is found, which is the newest, records, what is left of
// killed commands.
#include "core/kernel/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/kernel/garbage.h"
#include "core/kernel/initramfs.h"
#include "core/kernel/place.h"

#include "tests/support/skip.h"

using namespace sbx;
using namespace sbx::kernel;

namespace {

class State {
 public:
  State() : dir_(make()) {}
  const std::string& path() const { return dir_.path(); }

  void add(const std::string& name, const std::string& release, Features features = {}) const {
    add_in(path() + "/kernels", name, release, features);
  }
  static void add_in(const std::string& dir,
                     const std::string& name,
                     const std::string& release,
                     Features features = {}) {
    REQUIRE(fs::mkdirs(dir + "/" + name + "/modules", 0755).ok());
    const auto fd = fs::open_dir(dir + "/" + name);
    REQUIRE(fd.ok());
    Record record;
    record.name = name;
    record.release = release;
    record.source = "a test";
    record.features = features;
    record.id = std::string(64, 'a');
    REQUIRE(fs::write_atomic(fd.value().get(), "record.json", to_json(record), 0444).ok());
    REQUIRE(fs::write_atomic(fd.value().get(), "vmlinux", "elf", 0444).ok());
  }

 private:
  static fs::TempDir make() {
    auto made = fs::TempDir::create("/tmp", "sbx-kernels-test-");
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  fs::TempDir dir_;
};

std::vector<std::string> names(const std::vector<Kernel>& kernels) {
  std::vector<std::string> out;
  for (const Kernel& kernel : kernels) {
    out.push_back(kernel.name());
  }
  return out;
}

}  // namespace

TEST_CASE("store: the newest kernel is first, of equal ones that which can do more") {
  const State state;
  state.add("6.9.0-1-amd64", "6.9.0-1-amd64");
  state.add("6.10.0-1-amd64", "6.10.0-1-amd64");
  state.add("6.12.0-1-cloud-amd64", "6.12.0-1-cloud-amd64", {.has_blk = true});
  state.add("6.12.0-1-amd64", "6.12.0-1-amd64", {.has_blk = true, .has_9p = true});
  std::vector<std::string> problems;
  CHECK(names(list(state.path(), {}, problems)) ==
        std::vector<std::string>{
            "6.12.0-1-amd64", "6.12.0-1-cloud-amd64", "6.10.0-1-amd64", "6.9.0-1-amd64"});
  CHECK(problems.empty());
  const auto newest = find(state.path(), "");
  REQUIRE(newest.ok());
  CHECK(newest.value().name() == "6.12.0-1-amd64");
  CHECK(newest.value().vmlinux == state.path() + "/kernels/6.12.0-1-amd64/vmlinux");
  CHECK(find(state.path(), "6.9.0-1-amd64").value().name() == "6.9.0-1-amd64");
}

TEST_CASE("store: without a kernel the error says how to get one") {
  const State state;
  const auto none = find(state.path(), "6.1.0");
  CHECK(none.error().code() == Errc::kNotFound);
  CHECK_FALSE(find(state.path(), "../x").ok());
  CHECK_FALSE(find(state.path(), "initramfs").ok());
  state.add("6.1.0-1", "6.1.0-1");
  const auto other = find(state.path(), "6.2");
  CHECK(other.error().code() == Errc::kNotFound);
  CHECK(other.error().hint().find("6.1.0-1") != std::string::npos);
}

TEST_CASE("store: releases are compared by their numbers") {
  CHECK(compare_releases("6.9", "6.10") < 0);
  CHECK(compare_releases("6.10.0-1-amd64", "6.9.99-2-amd64") > 0);
  CHECK(compare_releases("6.1.0-57-amd64", "6.1.0-57-cloud-amd64") == 0);
  CHECK(compare_releases("6.1", "6.1.1") < 0);
  CHECK(compare_releases("6.01", "6.1") == 0);
  CHECK(compare_releases("", "6") < 0);
  CHECK(compare_releases("99999999999999999999999", "99999999999999999999998") > 0);
}

TEST_CASE("store: a kernel that cannot be read is left out, and said") {
  const State state;
  state.add("6.1.0-1", "6.1.0-1");
  state.add("6.2.0-1", "6.2.0-1");
  const auto fd = fs::open_dir(state.path() + "/kernels/6.2.0-1");
  REQUIRE(fs::write_atomic(fd.value().get(), "record.json", "{", 0444).ok());
  std::vector<std::string> problems;
  CHECK(names(list(state.path(), {}, problems)) == std::vector<std::string>{"6.1.0-1"});
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find("6.2.0-1") != std::string::npos);
  // It can still be removed.
  CHECK(remove(state.path(), "6.2.0-1").ok());
  CHECK(remove(state.path(), "6.2.0-1").error().code() == Errc::kNotFound);
}

TEST_CASE("store: a kernel for all users counts only when root alone can write there") {
  SKIP_UNLESS("root");
  const State state;
  const State shared;
  const std::string dir = shared.path() + "/kernels";
  State::add_in(dir, "6.5.0-1", "6.5.0-1");
  std::vector<std::string> problems;
  const auto found = list(state.path(), {dir}, problems);
  REQUIRE(found.size() == 1);
  CHECK(found[0].is_system);
  CHECK(problems.empty());
  REQUIRE(::chmod((dir + "/6.5.0-1/vmlinux").c_str(), 0666) == 0);
  CHECK(list(state.path(), {dir}, problems).empty());
  CHECK(problems.size() == 1);
  REQUIRE(::chmod((dir + "/6.5.0-1/vmlinux").c_str(), 0444) == 0);
  REQUIRE(::chown(dir.c_str(), 1, 1) == 0);
  CHECK(list(state.path(), {dir}, problems).empty());
}

TEST_CASE("store: a record is read back as it was written") {
  Record record;
  record.name = "6.1.0-1";
  record.release = "6.1.0-1";
  record.source = "file \"x\"";
  record.created_ns = 5;
  record.vmlinux_bytes = 7;
  record.modules_bytes = 9;
  record.modules = {"a.ko", "virtio-rng.ko"};
  record.features.has_9p = true;
  record.id = std::string(64, '0');
  const auto again = parse_record(to_json(record));
  REQUIRE(again.ok());
  CHECK(to_json(again.value()) == to_json(record));
  CHECK(again.value().features == record.features);
  record.modules = {"../a.ko"};
  CHECK(parse_record(to_json(record)).error().code() == Errc::kProtocol);
  record.modules.clear();
  record.id = "short";
  CHECK_FALSE(parse_record(to_json(record)).ok());
  CHECK_FALSE(parse_record("[]").ok());
  CHECK(parse_record(R"({"format":2})").error().code() == Errc::kUnsupported);
}

TEST_CASE("store: what a killed command left is found and removed, what is held stays") {
  const State state;
  CHECK(stale_files(state.path()).empty());
  state.add("6.1.0-1", "6.1.0-1");
  const std::string dir = state.path() + "/kernels";
  REQUIRE(fs::mkdirs(dir + "/.tmp-dead/modules", 0755).ok());
  const auto fd = open_kernels_dir(state.path());
  REQUIRE(fd.ok());
  auto draft = Draft::make(fd.value().get(), dir);
  REQUIRE(draft.ok());
  auto stale = stale_files(state.path());
  REQUIRE(stale.size() == 1);
  CHECK(stale[0].path == dir + "/.tmp-dead");
  CHECK(remove_stale(state.path(), stale[0]).ok());
  CHECK(stale_files(state.path()).empty());
  CHECK(::access(draft.value().path().c_str(), F_OK) == 0);
  CHECK(draft.value().commit("6.1.0-2").ok());
  CHECK(::access((dir + "/6.1.0-2").c_str(), F_OK) == 0);
}

TEST_CASE("store: an initramfs that was not asked for lately is stale, one of a kernel is not") {
  const State state;
  state.add("6.1.0-1", "6.1.0-1");
  const auto kernel = find(state.path(), "6.1.0-1");
  REQUIRE(kernel.ok());
  REQUIRE(fs::mkdirs(state.path() + "/program", 0755).ok());
  const auto dir = fs::open_dir(state.path() + "/program");
  REQUIRE(fs::write_atomic(dir.value().get(), "one", "a program", 0755).ok());
  const auto file = initramfs(state.path(), kernel.value(), state.path() + "/program/one");
  REQUIRE(file.ok());
  CHECK(stale_files(state.path()).empty());
  const auto stale = stale_files(state.path(), Millis{0});
  REQUIRE(stale.size() == 1);
  CHECK(stale[0].path == file.value());
  CHECK(stale[0].bytes > 0);
  CHECK(remove_stale(state.path(), stale[0]).ok());
  CHECK(remove_stale(state.path(), stale[0]).ok());
  CHECK(::access(file.value().c_str(), F_OK) != 0);
}
