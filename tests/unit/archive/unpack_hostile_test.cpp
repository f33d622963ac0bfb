// unpack_hostile_test: streams and neighbours that want to write elsewhere.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "core/archive/tar_format.h"
#include "core/archive/tar_reader.h"
#include "core/base/scope_exit.h"
#include "core/base/text.h"

#include "tests/unit/archive/copy_support.h"

namespace sbx::archive {

using test::HostileStream;
using test::Tree;
using test::unpack_any;
using test::unpack_one;

namespace {

/// `stream` must be refused and write nothing but what is below `out`.
void check_refused(int stream, std::string_view root_name = "out") {
  const Tree tree;
  tree.dir("in");
  const Status done = unpack_one(stream, tree.path("in"), std::string(root_name));
  CHECK(!done.ok());
  CHECK(tree.names() == "in");
  const std::string names = tree.names("in");
  CAPTURE(names);
  CHECK((names.empty() || names == root_name));
}

}  // namespace

TEST_CASE("unpack: members outside of the tree that was asked for are refused") {
  for (const std::string path : {"out2/x",
                                 "../x",
                                 "/x",
                                 "out/../../x",
                                 "out/../x",
                                 "..",
                                 "",
                                 "x",
                                 ".",
                                 "./..",
                                 "out/a/../../b"}) {
    CAPTURE(path);
    HostileStream stream;
    stream.dir("out").file(path, "evil");
    check_refused(stream.end());
  }
}

TEST_CASE("unpack: a member through a link of the same stream is refused") {
  const Tree outside;
  HostileStream stream;
  stream.dir("out").symlink("out/l", outside.path()).file("out/l/x", "evil");
  check_refused(stream.end());
  CHECK(outside.names().empty());
  HostileStream dirs;
  dirs.dir("out").symlink("out/l", outside.path()).dir("out/l").file("out/l/x", "evil");
  check_refused(dirs.end());
  CHECK(outside.names().empty());
  HostileStream root;
  root.symlink("out", outside.path()).file("out/x", "evil");
  check_refused(root.end());
  CHECK(outside.names().empty());
}

TEST_CASE("unpack: a link that was at the destination is not gone through") {
  const Tree tree;
  tree.dir("outside");
  tree.dir("in");
  tree.link("in/d", tree.path("outside"));
  HostileStream stream;
  stream.dir("d").file("d/x", "1");
  CHECK(!unpack_one(stream.end(), tree.path("in"), "d").ok());
  CHECK(tree.names("outside").empty());
}

TEST_CASE("unpack: hard links lead nowhere outside, and not through links") {
  const Tree secret;
  secret.file("s", "secret");
  for (const std::string& target : {secret.path("s"),
                                    text::cat("../", secret.path("s")),
                                    std::string("out/l/s"),
                                    std::string("out2/s"),
                                    std::string("")}) {
    CAPTURE(target);
    HostileStream stream;
    stream.dir("out").symlink("out/l", secret.path()).hard_link("out/h", target);
    check_refused(stream.end());
    CHECK(secret.info("s").st_nlink == 1);
  }
  HostileStream to_link;
  to_link.dir("out").symlink("out/l", secret.path("s")).hard_link("out/h", "out/l");
  check_refused(to_link.end());
}

TEST_CASE("unpack: names with NUL, too long or too deep are refused") {
  HostileStream nul;
  TarEntry entry;
  entry.path = std::string(101, 'a') + std::string("\0/../x", 6);
  nul.dir("out").add(entry);
  check_refused(nul.end());
  HostileStream long_name;
  long_name.dir("out").file("out/" + std::string(256, 'n'), "x");
  check_refused(long_name.end());
  std::string path = "out";
  for (int i = 0; i < 1000; ++i) {
    path += "/d";
  }
  HostileStream deep;
  deep.dir("out").dir(path);
  check_refused(deep.end());
}

TEST_CASE("unpack: devices and FIFOs of a stream are not made") {
  const Tree tree;
  HostileStream stream;
  TarEntry entry;
  entry.path = "out/fifo";
  entry.type = TarType::kSpecial;
  stream.dir("out").add(entry).file("out/f", "x");
  CHECK(unpack_one(stream.end(), tree.path(), "out").ok());
  CHECK(tree.names("out") == "f");
}

TEST_CASE("unpack: more files or bytes than allowed are refused") {
  const Tree tree;
  HostileStream stream;
  stream.file("a", "12345").file("b", "12345").file("c", "12345");
  UnpackRequest request;
  request.path = tree.path();
  request.members = Members::kAny;
  request.max_entries = 2;
  TransferReport report;
  CHECK(unpack(request, stream.end(), report).error().code() == Errc::kLimit);
  CHECK(tree.names() == "a b");
  request.max_entries = 100;
  request.max_bytes = 9;
  REQUIRE(::unlink(tree.path("b").c_str()) == 0);
  HostileStream bytes;
  bytes.file("a", "12345").file("b", "12345");
  CHECK(unpack(request, bytes.end(), report).error().code() == Errc::kLimit);
  CHECK(tree.names() == "a");
}

TEST_CASE("unpack: a resume that nobody asked for and a map that lies are refused") {
  HostileStream resume;
  TarEntry entry;
  entry.path = "out";
  entry.size = 10;
  entry.is_sparse = true;
  entry.data = {{5, 5}};
  entry.resume_at = 5;
  resume.add(entry, "12345");
  check_refused(resume.end());
  HostileStream map;
  entry.resume_at = 0;
  entry.data = {{5, 5}, {2, 5}};
  map.add(entry, "1234512345");
  check_refused(map.end());
}

TEST_CASE("unpack: compressed streams are refused with what to do") {
  const std::array<std::pair<std::string, std::string_view>, 2> cases{
      {{std::string("\x1f\x8b\x08\x00", 4), "gzip -dc"},
       {std::string("\x28\xb5\x2f\xfd", 4), "zstd -dc"}}};
  for (const auto& [magic, tool] : cases) {
    const Tree tree;
    const UniqueFd stream = test::memory_file(magic + std::string(2000, 'x'));
    const Status done = unpack_any(stream.get(), tree.path());
    REQUIRE(!done.ok());
    CHECK(done.error().hint().find(tool) != std::string::npos);
  }
}

TEST_CASE("unpack: headers of megabytes cost no memory") {
  tar::Header header{};
  header.type = 'x';
  (void)tar::set_number(header.size, 1ULL << 32U);
  tar::set_checksum(header);
  const UniqueFd stream =
      test::memory_file(std::string_view(reinterpret_cast<const char*>(&header), sizeof header));
  TarReader reader(stream.get());
  CHECK(reader.next().error().code() == Errc::kLimit);
}

TEST_CASE("unpack: a directory swapped for a link all the time lets nothing out or in") {
  const Tree tree;
  const Tree outside;
  outside.dir("d");
  outside.file("d/x", "outside");
  tree.dir("shared");
  tree.dir("shared/d");
  tree.link("shared/l", outside.path("d"));
  tree.dir("src");
  tree.dir("src/d");
  tree.file("src/d/x", "copied in");
  tree.file("src/d/y", "copied in");
  const std::string a = tree.path("shared/d");
  const std::string b = tree.path("shared/l");
  const pid_t swapper = ::fork();
  if (swapper == 0) {
    while (true) {
      (void)::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), 2U /* EXCHANGE */);
    }
  }
  REQUIRE(swapper > 0);
  const ScopeExit end([&] {
    (void)::kill(swapper, SIGKILL);
    (void)::waitpid(swapper, nullptr, 0);
  });
  int refused = 0;
  int copied_in = 0;
  for (int i = 0; i < 1000; ++i) {
    const test::Copied in = test::copy(tree.path("src/d"), tree.path("shared"));
    (in.unpacked.ok() ? copied_in : refused) += 1;
    const test::Copied out = test::copy(tree.path("shared"), tree.path("back"));
    REQUIRE(out.packed.ok());
    for (const std::string name : {"back/d", "back/l"}) {
      const bool is_dir = tree.exists(name) && S_ISDIR(tree.info(name).st_mode);
      if (is_dir) REQUIRE(tree.content(name + "/x") != "outside");
    }
    REQUIRE(outside.names("d") == "x");
    REQUIRE(outside.content("d/x") == "outside");
    tree.remove("back");
  }
  MESSAGE("copied in: " << copied_in << ", refused: " << refused);
  CHECK(copied_in > 0);
}

}  // namespace sbx::archive
