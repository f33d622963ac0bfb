// artifacts_test: walking what a hostile program may leave behind.
#include "core/run/artifacts.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/run/tree.h"

namespace sbx::run {

namespace {

ArtifactList find_in(const Tree& tree, const std::vector<std::string>& inputs = {}) {
  ArtifactRequest request;
  request.work_dir = tree.fd();
  request.inputs = inputs;
  auto found = find_artifacts(request);
  REQUIRE(found.ok());
  return std::move(found).value();
}

ArtifactList hash_in(const Tree& tree) {
  ArtifactRequest request;
  request.work_dir = tree.fd();
  ArtifactList list = find_in(tree);
  REQUIRE(hash_artifacts(request, list).ok());
  return list;
}

}  // namespace

TEST_CASE("artifacts: files are listed by path, with size, mode, digest and type") {
  const Tree tree;
  tree.mkdir("sub");
  tree.write("sub/b.csv", "1,2\n", 0640);
  tree.write("a.txt", "abc");
  const ArtifactList list = hash_in(tree);
  REQUIRE(list.items.size() == 3);
  CHECK(list.items[0].path == "a.txt");
  CHECK(list.items[0].bytes == 3);
  CHECK(list.items[0].sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(list.items[0].mime == "text/plain");
  CHECK(list.items[1].type == ArtifactType::kDirectory);
  CHECK(list.items[2].path == "sub/b.csv");
  CHECK(list.items[2].mode == 0640);
  CHECK(list.items[2].mime == "text/csv");
  CHECK(list.is_complete);
  CHECK(list.warnings.empty());
}

TEST_CASE("artifacts: inputs are none, whatever lies under their name") {
  const Tree tree;
  tree.write("in.csv", "");
  tree.mkdir("data");
  tree.write("data/x", "1");
  tree.mkdir("keep");
  tree.mkdir("keep/mounted");
  tree.write("keep/in.csv", "1");
  const ArtifactList list = find_in(tree, {"in.csv", "data", "keep/mounted"});
  REQUIRE(list.items.size() == 2);
  CHECK(list.items[0].path == "keep");
  CHECK(list.items[1].path == "keep/in.csv");
}

TEST_CASE("artifacts: links, pipes, sockets and devices are listed and never opened") {
  const Tree tree;
  REQUIRE(sys::symlinkat("/etc/shadow", tree.fd(), "shadow").ok());
  REQUIRE(sys::symlinkat("/", tree.fd(), "root").ok());
  REQUIRE(sys::symlinkat("loop", tree.fd(), "loop").ok());
  REQUIRE(::mkfifo(tree.at("pipe").c_str(), 0600) == 0);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket_path = tree.at("socket");
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size());
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bind(2)'s own interface
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const ArtifactList list = hash_in(tree);
  REQUIRE(list.items.size() == 5);
  CHECK(find_item(list, "shadow").type == ArtifactType::kSymlink);
  CHECK(find_item(list, "shadow").link == "/etc/shadow");
  CHECK(find_item(list, "shadow").sha256.empty());
  CHECK(find_item(list, "root").type == ArtifactType::kSymlink);
  CHECK(find_item(list, "loop").type == ArtifactType::kSymlink);
  CHECK(find_item(list, "pipe").type == ArtifactType::kFifo);
  CHECK(find_item(list, "socket").type == ArtifactType::kSocket);
}

TEST_CASE("artifacts: names of any bytes") {
  const Tree tree;
  const std::vector<std::string> names{
      "bad\xff\xfe", "gr\xc3\xbc\xc3\x9f", "new\nline", "-rf", " ", "$(x)", std::string(255, 'n')};
  for (const std::string& name : names) {
    tree.write(name, name);
  }
  const ArtifactList list = hash_in(tree);
  CHECK(list.items.size() == names.size());
  for (const std::string& name : names) {
    CAPTURE(name);
    REQUIRE(find_item(list, name).path == name);
    CHECK(find_item(list, name).bytes == name.size());
  }
}

TEST_CASE("artifacts: a tree deeper than a path can be long is cut, said, and needs no stack") {
  const Tree tree;
  const std::string name(100, 'd');
  {
    auto dir = sys::dup(tree.fd());
    REQUIRE(dir.ok());
    UniqueFd at = std::move(dir).value();
    for (int i = 0; i < 200; ++i) {  // 20,200 bytes of path
      REQUIRE(sys::mkdirat(at.get(), name, 0755).ok());
      auto next = sys::openat(at.get(), name, O_RDONLY | O_DIRECTORY);
      REQUIRE(next.ok());
      at = std::move(next).value();
    }
  }
  const ArtifactList list = find_in(tree);
  CHECK(list.items.size() == 40);
  REQUIRE_FALSE(list.warnings.empty());
  CHECK(list.warnings[0].find("too deep") != std::string::npos);
}

TEST_CASE("artifacts: hard links point to the first of their names") {
  const Tree tree;
  tree.write("b", "shared");
  REQUIRE(::linkat(tree.fd(), "b", tree.fd(), "a", 0) == 0);
  REQUIRE(::linkat(tree.fd(), "b", tree.fd(), "c", 0) == 0);
  tree.write("d", "own");
  const ArtifactList list = hash_in(tree);
  REQUIRE(list.items.size() == 4);
  CHECK(list.items[0].link.empty());
  CHECK(list.items[1].link == "a");
  CHECK(list.items[2].link == "a");
  CHECK(list.items[3].link.empty());
  CHECK(list.items[1].sha256 == list.items[0].sha256);
  CHECK(list.items[2].mime == "text/plain");
}

TEST_CASE("artifacts: sparse files are known as such and hashed with their holes") {
  const Tree tree;
  tree.write("sparse", "");
  REQUIRE(::truncate(tree.at("sparse").c_str(), 64 << 20) == 0);
  const ArtifactList list = hash_in(tree);
  CHECK(list.has_holes);
  CHECK(list.items[0].bytes == 64U << 20U);
  // sha256 of 64 MiB of zeros
  CHECK(list.items[0].sha256 == "3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351");
}

TEST_CASE("artifacts: bounds on one file, on all, and on the number of entries") {
  const Tree tree;
  tree.write("big", "");
  REQUIRE(::truncate(tree.at("big").c_str(), off_t{1} << 40U) == 0);
  tree.write("a", "12345");
  tree.write("b", "12345");
  tree.write("c", "12345");
  ArtifactRequest request;
  request.work_dir = tree.fd();
  request.limits.file = Bytes{100};
  request.limits.total = Bytes{11};
  auto found = find_artifacts(request);
  REQUIRE(found.ok());
  CHECK(find_item(found.value(), "big").skipped.find("larger than") != std::string::npos);
  CHECK(find_item(found.value(), "a").skipped.empty());
  CHECK(find_item(found.value(), "b").skipped.empty());
  CHECK_FALSE(find_item(found.value(), "c").skipped.empty());
  CHECK(found.value().warnings.size() == 2);
  request.limits.entries = 2;
  auto few = find_artifacts(request);
  REQUIRE(few.ok());
  CHECK(few.value().items.size() == 2);
  CHECK_FALSE(few.value().is_complete);
}

TEST_CASE("artifacts: what the program made unreadable for its owner is read all the same") {
  const Tree tree;
  tree.mkdir("closed");
  tree.write("closed/f", "inside", 0000);
  tree.write("secret", "top", 0000);
  REQUIRE(::chmod(tree.at("closed").c_str(), 0000) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {  // root reads everything: as an owner without privileges
    const uid_t user = ::geteuid() == 0 ? 65534 : ::geteuid();
    for (const char* name : {"closed/f", "closed", "secret", "."}) {
      if (::fchownat(tree.fd(), name, user, user, 0) != 0) ::_exit(2);
    }
    if (::geteuid() == 0 && (::setgid(user) != 0 || ::setuid(user) != 0)) ::_exit(3);
    ArtifactRequest request;
    const UniqueFd again(::open(tree.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    request.work_dir = again.get();
    auto found = find_artifacts(request);
    if (!found.ok() || !hash_artifacts(request, found.value()).ok()) ::_exit(4);
    const Artifact inside = find_item(found.value(), "closed/f");
    const Artifact secret = find_item(found.value(), "secret");
    const bool is_right = inside.sha256.size() == 64 && inside.mode == 0 &&
                          secret.sha256.size() == 64 && secret.mode == 0;
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("artifacts: required globs match whole paths of files") {
  const Tree tree;
  tree.write("report.pdf", "1");
  tree.mkdir("charts");
  tree.write("charts/a.png", "1");
  tree.mkdir("dir.csv");
  REQUIRE(sys::symlinkat("report.pdf", tree.fd(), "link.txt").ok());
  const ArtifactList list = find_in(tree);
  const std::vector<std::string> there{
      "*.pdf", "report.pdf", "charts/*.png", "charts/[a-b].png", "*/*"};
  CHECK(missing_required(list, there).empty());
  const std::vector<std::string> missing{"*.png", "*.csv", "*.txt", "REPORT.pdf", "charts"};
  CHECK(missing_required(list, missing) == missing);
}

TEST_CASE("artifacts: a wish to stop ends the work with EINTR") {
  const Tree tree;
  tree.write("f", "1");
  ArtifactRequest request;
  request.work_dir = tree.fd();
  request.should_stop = [] { return true; };
  auto found = find_artifacts(request);
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().sys_errno() == EINTR);
}

}  // namespace sbx::run
