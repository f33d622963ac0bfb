// Tests of install: kernels out of small packages and files made here, and the initramfs of one.
#include "core/kernel/install.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/kernel/initramfs.h"

#include "tests/support/kernel_files.h"

using namespace sbx;
using namespace sbx::kernel;
using namespace sbx::test;

namespace {

constexpr std::string_view kRelease = "6.1.0-9-test";

class State {
 public:
  State() : dir_(make()) {}
  const std::string& path() const { return dir_.path(); }
  std::string file(const std::string& name, const std::string& content) const {
    REQUIRE(fs::write_atomic(dir_.fd(), name, content, 0644).ok());
    return path() + "/" + name;
  }
  Result<Installed> install(const std::string& from, const std::string& name = "") const {
    InstallRequest request;
    request.from = from;
    request.name = name;
    return kernel::install(path(), request);
  }

 private:
  static fs::TempDir make() {
    auto made = fs::TempDir::create("/tmp", "sbx-install-test-");
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  fs::TempDir dir_;
};

std::string content(const std::string& path) {
  auto text = fs::read_file(path, Bytes{std::uint64_t{64} << 20U});
  REQUIRE_MESSAGE(text.ok(), path);
  return std::move(text).value();
}

std::string package() {
  return make_deb(make_gzip(make_tar(kernel_package(kRelease))), ".gz");
}

std::size_t position(const std::vector<std::string>& order, std::string_view name) {
  const auto at = std::ranges::find(order, name);
  REQUIRE_MESSAGE(at != order.end(), name);
  return static_cast<std::size_t>(at - order.begin());
}

Files without(Files files, std::string_view part) {
  std::erase_if(files,
                [&](const auto& file) { return file.first.find(part) != std::string::npos; });
  return files;
}

}  // namespace

TEST_CASE("install: a package gives the kernel, its config and its modules in order") {
  const State state;
  const auto done = state.install(state.file("k.deb", package()));
  REQUIRE_MESSAGE(done.ok(), done.error().to_string());
  CHECK(done.value().is_new);
  CHECK(done.value().warnings.empty());
  const Kernel& made = done.value().kernel;
  CHECK(made.name() == kRelease);
  CHECK(made.vmlinux == state.path() + "/kernels/" + std::string(kRelease) + "/vmlinux");
  CHECK(content(made.vmlinux) == make_vmlinux(kRelease));
  const auto& order = made.record.modules;
  CHECK(position(order, "virtio_ring.ko") < position(order, "virtio.ko"));
  CHECK(position(order, "virtio.ko") < position(order, "virtio-rng.ko"));
  CHECK(position(order, "crc32c_generic.ko") < position(order, "jbd2.ko"));
  // Named by no list: it takes another pass.
  CHECK(position(order, "rare-one.ko") < position(order, "9p.ko"));
  CHECK(std::ranges::find(order, "big.ko") == order.end());
  CHECK(std::ranges::find(order, "overlay.ko") == order.end());
  std::string listed;
  for (const std::string& name : order) {
    listed += name + "\n";
    CHECK(::access((made.modules_dir + "/" + name).c_str(), R_OK) == 0);
  }
  CHECK(content(state.path() + "/kernels/" + std::string(kRelease) + "/order") == listed);
  CHECK(content(state.path() + "/kernels/" + std::string(kRelease) + "/config").size() > 20);
  CHECK_FALSE(state.install(state.path() + "/k.deb").value().is_new);
}

TEST_CASE("install: a kernel is replaced, and nothing else stays") {
  const State state;
  REQUIRE(state.install(state.file("k.deb", package())).ok());
  const auto other = state.install(
      state.file("two.deb", make_deb(make_tar(without(kernel_package(kRelease), "fs/9p/")))));
  REQUIRE(other.ok());
  CHECK(other.value().is_new);
  CHECK_FALSE(other.value().kernel.features().has_9p);
  REQUIRE(other.value().warnings.size() == 1);
  CHECK(other.value().warnings[0].starts_with("no 9p"));
  std::vector<std::string> problems;
  CHECK(list(state.path(), {}, problems).size() == 1);
  const auto dir = fs::open_dir(state.path() + "/kernels");
  CHECK_FALSE(sys::fstatat(dir.value().get(), ".tmp-", 0).ok());
}

TEST_CASE("install: a bare kernel is taken with a warning") {
  const State state;
  const std::string plain = make_vmlinux("6.7.8-own");
  const auto image =
      state.install(state.file("bz", make_bzimage(make_old_lz4(plain), "6.7.8-own")));
  REQUIRE_MESSAGE(image.ok(), image.error().to_string());
  CHECK(image.value().kernel.name() == "6.7.8-own");
  CHECK_FALSE(image.value().kernel.features().is_known);
  CHECK(image.value().warnings.size() == 1);
  const auto elf = state.install(state.file("elf", plain), "mine");
  REQUIRE(elf.ok());
  CHECK(elf.value().kernel.name() == "mine");
  CHECK(elf.value().kernel.record.release == "6.7.8-own");
  CHECK(elf.value().kernel.record.id == image.value().kernel.record.id);
}

TEST_CASE("install: what no guest could be started with is refused, and nothing stays") {
  const State state;
  struct Row {
    std::string content;
    std::string_view part;  // of the message
  };
  const Files whole = kernel_package(kRelease);
  Files two = whole;
  two.emplace_back("./lib/modules/7.0.0/kernel/fs/x.ko", "x");
  Files odd = whole;
  odd.emplace_back("./lib/modules/" + std::string(kRelease) + "/kernel/virtio_mmio.ko", "x");
  for (const Row& row : {
           Row{"", "neither a Debian package nor a kernel"},
           Row{"text", "neither a Debian package nor a kernel"},
           Row{make_deb(make_tar({})), "no kernel in the package"},
           Row{make_deb(make_tar(without(whole, "vmlinuz"))), "no kernel in the package"},
           Row{make_deb(make_tar(without(whole, ".ko"))), "it lacks virtio_mmio, virtio_console"},
           Row{make_deb(make_tar(without(whole, "virtio_ring"))), "it lacks virtio_mmio"},
           Row{make_deb(make_tar(two)), "several kernels"},
           Row{package().substr(0, 5000), ""},
           Row{make_vmlinux("6.1", false), "no PVH entry"},
           Row{make_vmlinux("?"), "does not say its release"},
           Row{make_bzimage(make_gzip("no kernel"), "6.1"), "no 64-bit ELF kernel"},
       }) {
    CAPTURE(row.part);
    const auto done = state.install(state.file("bad", row.content));
    REQUIRE_FALSE(done.ok());
    CHECK_MESSAGE(done.error().message().find(row.part) != std::string::npos,
                  done.error().message());
    std::vector<std::string> problems;
    CHECK(list(state.path(), {}, problems).empty());
  }
  CHECK(state.install(state.path()).error().code() == Errc::kUsage);
  CHECK(state.install(state.path() + "/none").error().code() == Errc::kNotFound);
  CHECK(state.install(state.path() + "/bad", "a/b").error().code() == Errc::kUsage);
}

TEST_CASE("initramfs: it has the program, the modules and their order, and is made once") {
  const State state;
  const auto done = state.install(state.file("k.deb", package()));
  REQUIRE(done.ok());
  const Kernel& kernel = done.value().kernel;
  const std::string program = state.file("program", "the program");
  const auto path = initramfs(state.path(), kernel, program);
  REQUIRE_MESSAGE(path.ok(), path.error().to_string());
  CHECK(path.value().starts_with(state.path() + "/kernels/initramfs/"));
  const std::string file = content(path.value());
  CHECK(file.starts_with("070701"));
  CHECK(file.size() % 4 == 0);
  const std::string order = content(state.path() + "/kernels/" + kernel.name() + "/order");
  CHECK(file.find(std::string("init\0", 5)) != std::string::npos);
  CHECK(file.find("the program") != std::string::npos);
  CHECK(file.find("modules/virtio_mmio.ko") != std::string::npos);
  CHECK(file.find(order) != std::string::npos);
  CHECK(file.find("TRAILER!!!") != std::string::npos);
  struct stat first {};
  struct stat second {};
  REQUIRE(::stat(path.value().c_str(), &first) == 0);
  CHECK((first.st_mode & 0777U) == 0444);
  CHECK(initramfs(state.path(), kernel, program).value() == path.value());
  REQUIRE(::stat(path.value().c_str(), &second) == 0);
  CHECK(first.st_ino == second.st_ino);
  CHECK(initramfs(state.path(), kernel, state.file("other", "another")).value() != path.value());
  CHECK_FALSE(initramfs(state.path(), kernel, "/bin/ls").ok());  // needs a dynamic linker
}
