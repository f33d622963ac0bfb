// image_pull_test: pull through skopeo, from a registry that the test starts on loopback.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/images.h"
#include "tests/support/skip.h"

namespace sbx::test {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

bool answers(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  const int done = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::close(fd);
  return done == 0;
}

/// A registry without TLS, below the case's directory; ends with the case.
class Registry {
 public:
  explicit Registry(const Images& images) : images_(images), port_(free_port()) {
    images.shell("mkdir registry");
    const std::string config = images.dir().write(
        "registry.yml",
        "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: " +
            images.dir().at("registry") + "\nhttp:\n  addr: " + host() + "\n");
    child_ = std::make_unique<Child>(Spec{.argv = {"/usr/bin/docker-registry", "serve", config},
                                          .env = environment_of(subject()),
                                          .as = &subject(),
                                          .timeout = 280});
    REQUIRE(comes_true([this] { return answers(port_); }));
  }
  ~Registry() {
    child_->kill(SIGKILL);
    (void)child_->wait();
  }
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  /// Puts an image of a layer, a tar file, there.
  void push(const std::string& tar, const std::string& name) const {
    images_.shell("skopeo copy -q --dest-tls-verify=false tarball:" + tar + " docker://" + host() +
                  "/" + name);
  }

 private:
  const Images& images_;
  int port_;
  std::unique_ptr<Child> child_;
};

}  // namespace

TEST_SUITE("image") {
  TEST_CASE("image pull: an image of a registry is here afterwards, and nothing else") {
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("skopeo");
    SKIP_UNLESS("docker-registry");
    const Images images;
    const Registry registry(images);
    registry.push(images.tar("a.tar", "mkdir etc; echo hi >etc/motd"), "team/a:1");
    const std::string ref = registry.host() + "/team/a:1";
    const Outcome o = images.call({"pull", "--tls-verify=false", ref, "a"});
    INFO(o.show());
    REQUIRE(o.code == 0);
    CHECK(images.call({"ls", "-q"}).out == "a\n");
    CHECK(images.show("a", "/source") == "pull " + ref);
    CHECK(images.show("a", "/layers/0/bytes") == "3");
    CHECK(names_in(images.state_dir() + "/downloads").empty());
    CHECK(images.layers().size() == 1);
    CHECK(images.is_clean());

    // Without a name it is called as it was asked for; its layer is here already.
    CHECK(images.call({"pull", "--tls-verify=false", "-q", ref}).code == 0);
    CHECK(images.call({"ls", "-q"}).out == ref + "\na\n");
    CHECK(images.layers().size() == 1);
  }

  TEST_CASE("image pull: what goes wrong is said with the next step, and leaves nothing") {
    SKIP_UNLESS("skopeo");
    SKIP_UNLESS("docker-registry");
    const Images images;
    const Registry registry(images);
    registry.push(images.tar("a.tar", "head -c 3000000 /dev/urandom >f"), "a:1");
    struct Row {
      Args args;
      std::vector<std::string> env;
      int code;
      std::string_view part;
    };
    const std::vector<Row> rows{
        {{"pull", registry.host() + "/a:1"}, {}, 125, "--tls-verify=false"},
        {{"pull", "--tls-verify=false", registry.host() + "/a:2"}, {}, 2, "manifest unknown"},
        {{"pull", "--tls-verify=false", registry.host() + "/b:1"}, {}, 2, "fix"},
        {{"pull", "--tls-verify=false", "127.0.0.1:1/a:1"}, {}, 125, "connection refused"},
        {{"pull", "--tls-verify=false", registry.host() + "/a:1"},
         {"SBX_STATE_BUDGET=1M"},
         125,
         "budget of 1M"},
        {{"pull", "debian"}, {"PATH=/nonexistent"}, 125, "apt-get install skopeo"},
    };
    for (const Row& row : rows) {
      Spec spec = images.spec(row.args, row.env);
      const Outcome o = run(spec);
      INFO(o.show());
      CHECK(o.code == row.code);
      CHECK(contains(o.err, row.part));
      CHECK(names_in(images.state_dir() + "/downloads").empty());
      CHECK(images.layers().empty());
    }
  }

  TEST_CASE("image pull: one that is killed leaves what gc and the next pull remove") {
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("skopeo");
    SKIP_UNLESS("docker-registry");
    const Images images;
    const Registry registry(images);
    registry.push(images.tar("a.tar", "head -c 40000000 /dev/urandom >f"), "a:1");
    const Args args{"pull", "--tls-verify=false", registry.host() + "/a:1", "a"};
    const std::string downloads = images.state_dir() + "/downloads";
    for (const int signo : {SIGKILL, SIGTERM}) {
      Child child(images.spec(args));
      REQUIRE(comes_true([&] { return !names_in(downloads).empty(); }));
      pause(0.2);
      child.kill(signo);
      const Outcome o = child.wait();
      INFO(o.show());
      if (o.code == 0) continue;  // it was faster
      if (signo == SIGTERM) {
        CHECK(o.code == 128 + SIGTERM);
        CHECK(names_in(downloads).empty());
      }
      CHECK(
          comes_true([&] { return images.sbx({"gc"}).code == 0 && names_in(downloads).empty(); }));
      CHECK(images.is_clean());
    }
    const Outcome o = images.call(args);
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(names_in(downloads).empty());
  }
}

}  // namespace sbx::test
