// kernel_test: kernels for virtual machines, out of packages and files that the test makes, out of
// an archive that it plays, and out of Debian's own package.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/kernel_files.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

constexpr std::string_view kRelease = "6.1.0-9-test";

/// A state directory of its own.
class Kernels {
 public:
  Kernels() : state_(dir_.at("state")) {
    run({.argv = {"/bin/mkdir", "-m", "700", state_}, .as = &subject()});
  }
  Outcome sbx(Args args, const std::vector<std::string>& env = {}) const {
    Spec spec = sbx_spec(std::move(args));
    spec.env = environment_of(subject());
    spec.env.push_back("SBX_STATE_DIR=" + state_);
    for (const std::string& each : env) {
      const std::string key = each.substr(0, each.find('=') + 1);
      std::erase_if(spec.env, [&](const std::string& other) { return other.starts_with(key); });
      spec.env.push_back(each);
    }
    spec.timeout = 120;
    return run(spec);
  }
  Outcome install(const std::string& content, const Args& flags = {}) const {
    Args args{"kernel", "install", "--from", dir_.write("file", content)};
    args.insert(args.end(), flags.begin(), flags.end());
    return sbx(args);
  }
  /// Names in kernels/ but the lock.
  std::vector<std::string> files() const {
    std::vector<std::string> names = names_in(state_ + "/kernels");
    std::erase(names, "lock");
    return names;
  }
  const WorkDir& dir() const { return dir_; }
  const std::string& state() const { return state_; }

 private:
  WorkDir dir_;
  std::string state_;
};

std::string package() {
  return make_deb(make_gzip(make_tar(kernel_package(kRelease))), ".gz");
}

}  // namespace

TEST_SUITE("kernel") {
  TEST_CASE("kernel: one is installed from a package, listed and removed") {
    const Kernels kernels;
    const Outcome none = kernels.sbx({"kernel", "ls"});
    CHECK(none.code == 0);
    CHECK(lines_of(none.out).size() == 1);
    const Outcome made = kernels.install(package());
    INFO(made.show());
    REQUIRE(made.code == 0);
    CHECK(made.out.starts_with("6.1.0-9-test  "));
    CHECK(made.out.ends_with(" modules\n"));
    CHECK(made.err == "unpacking the kernel\n");
    const Outcome listed = kernels.sbx({"kernel", "ls", "--json"});
    CHECK(field(listed.out, "/name") == kRelease);
    CHECK(field(listed.out, "/features/9p") == "true");
    CHECK(field(listed.out, "/modules/0") == "virtio_ring.ko");
    CHECK(field(listed.out, "/is_system") == "false");
    CHECK(contains(slurp(field(listed.out, "/path")), "Linux version 6.1.0-9-test"));
    CHECK(kernels.sbx({"kernel", "ls", "-q"}).out == "6.1.0-9-test\n");
    CHECK(contains(kernels.sbx({"doctor", "guest-kernel"}).out, "ok    guest-kernel"));
    const Outcome again = kernels.install(package(), {"--json"});
    CHECK(field(again.out, "/is_new") == "false");
    CHECK(kernels.sbx({"kernel", "rm", std::string(kRelease)}).code == 0);
    CHECK(kernels.files().empty());
    const Outcome gone = kernels.sbx({"kernel", "rm", std::string(kRelease)});
    CHECK(gone.code == 2);
    CHECK(contains(gone.err, "there is no kernel \"6.1.0-9-test\""));
    CHECK(contains(kernels.sbx({"doctor", "guest-kernel"}).out, "fix:   sbx kernel install"));
    CHECK(kernels.sbx({"gc", "--dry-run"}).out == "nothing is left\n");
  }

  TEST_CASE("kernel: what a guest cannot do with it is said") {
    const Kernels kernels;
    Files files = kernel_package(kRelease);
    std::erase_if(files, [](const auto& file) { return contains(file.first, "/9p/"); });
    const Outcome small = kernels.install(make_deb(make_tar(files)), {"--name", "small"});
    INFO(small.show());
    CHECK(small.code == 0);
    CHECK(contains(small.err, "sbx: warning: no 9p: the host's files cannot be the root"));
    const Outcome bare = kernels.install(make_vmlinux("7.0.0-own"));
    CHECK(bare.code == 0);
    CHECK(contains(bare.err, "sbx: warning: 7.0.0-own has no modules here"));
    CHECK(field(lines_of(kernels.sbx({"kernel", "ls", "--json"}).out)[0], "/features") == "null");
    CHECK(kernels.sbx({"kernel", "ls", "-q"}).out == "7.0.0-own\nsmall\n");
    CHECK(contains(kernels.sbx({"doctor", "guest-kernel"}).out, "warn  guest-kernel"));
  }

  TEST_CASE("kernel: a file that is none, or one that does not fit, leaves nothing") {
    const Kernels kernels;
    const Outcome text = kernels.install("no kernel");
    INFO(text.show());
    CHECK(text.code == 125);
    CHECK(contains(text.err, "it is neither a Debian package nor a kernel for x86-64"));
    CHECK(kernels.install(package().substr(0, 3000)).code == 125);
    CHECK(kernels.sbx({"kernel", "install", "--from", kernels.dir().at("none")}).code == 2);
    CHECK(kernels.sbx({"kernel", "install", "--from", "x", "--cloud"}).code == 2);
    const Outcome big =
        kernels.sbx({"kernel", "install", "--from", kernels.dir().write("k.deb", package())},
                    {"SBX_STATE_BUDGET=1M"});
    CHECK(big.code == 125);
    CHECK(contains(big.err, "budget of 1M"));
    CHECK(kernels.files().empty());
  }

  TEST_CASE("kernel: what a killed install left is removed by gc") {
    const Kernels kernels;
    REQUIRE(kernels.install(package()).code == 0);
    run({.argv = {"/bin/mkdir", kernels.state() + "/kernels/.tmp-killed"}, .as = &subject()});
    const Outcome dry = kernels.sbx({"gc", "--dry-run", "--json"});
    CHECK(field(dry.out, "/leftovers/0/kind") == "kernel");
    CHECK(field(dry.out, "/leftovers/0/removed") == "false");
    CHECK(kernels.sbx({"gc"}).code == 0);
    CHECK(kernels.files() == std::vector<std::string>{std::string(kRelease)});
  }

  TEST_CASE("kernel: apt's newest one is downloaded once, and nothing is installed") {
    const Kernels kernels;
    const WorkDir& dir = kernels.dir();
    const std::string deb = dir.write("k.deb", package());
    dir.write(
        "apt-cache",
        "#!/bin/sh\nfor last; do :; done\ncase $last in\n"
        "linux-image-amd64) printf 'Package: %s\\nVersion: 2\\nDepends: linux-image-9-amd64 "
        "(= 2)\\n' \"$last\" ;;\n"
        "linux-image-9-amd64) printf 'Package: %s\\nVersion: 2\\nSize: 5000\\n' \"$last\" ;;\n"
        "*) echo \"E: No packages found\" >&2; exit 100 ;;\nesac\n",
        0755);
    dir.write("apt-get",
              "#!/bin/sh\necho \"$*\" >>" + dir.at("asked") + "\nif [ -e " + dir.at("broken") +
                  " ]; then echo 'E: Failed to fetch it  404  Not Found' >&2; exit 100; fi\ncp " +
                  deb + " kernel.deb\n",
              0755);
    const std::vector<std::string> env{"PATH=" + dir.path() + ":/usr/bin:/bin"};
    dir.write("broken", "");
    const Outcome broken = kernels.sbx({"kernel", "install"}, env);
    INFO(broken.show());
    CHECK(broken.code == 125);
    CHECK(contains(broken.err, "apt-get: Failed to fetch it  404  Not Found"));
    CHECK(contains(broken.err, "apt-get update"));
    CHECK(kernels.files().empty());
    run({.argv = {"/bin/rm", dir.at("broken"), dir.at("asked")}});
    const Outcome made = kernels.sbx({"kernel", "install"}, env);
    INFO(made.show());
    CHECK(made.code == 0);
    CHECK(contains(made.err, "downloading linux-image-9-amd64 2 (1M)\n"));
    CHECK(kernels.sbx({"kernel", "install"}, env).code == 0);
    CHECK(slurp(dir.at("asked")) ==
          "-q -o APT::Sandbox::User=root download -- linux-image-9-amd64=2\n");
    const Outcome listed = kernels.sbx({"kernel", "ls", "--json"});
    CHECK(field(listed.out, "/source") == "apt linux-image-9-amd64 2");
    CHECK(kernels.files() == std::vector<std::string>{std::string(kRelease)});
    const Outcome unknown = kernels.sbx({"kernel", "install", "linux-image-none"}, env);
    CHECK(unknown.code == 2);
    CHECK(contains(unknown.err, "apt knows no package linux-image-none: No packages found"));
  }

  TEST_CASE("kernel: Debian's own package gives a kernel with everything") {
    SKIP_UNLESS("kernel-package");
    const Kernels kernels;
    const Outcome made = kernels.install(slurp(kernel_package_file()), {"--json"});
    INFO(made.show());
    REQUIRE(made.code == 0);
    CHECK(field(made.out, "/warnings") == "[]");
    for (const char* feature : {"blk", "9p", "overlay", "ext4", "erofs", "rng", "balloon"}) {
      CAPTURE(feature);
      CHECK(field(made.out, std::string("/features/") + feature) == "true");
    }
    CHECK(contains(field(made.out, "/modules"), "crc32c_generic.ko"));
    CHECK(slurp(field(made.out, "/path")).starts_with("\x7f\x45LF"));
  }
}

}  // namespace sbx::test
