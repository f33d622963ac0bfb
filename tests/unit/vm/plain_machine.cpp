// Plain machine: see plain_machine.h.
#include "tests/unit/vm/plain_machine.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <x86intrin.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

#include "tests/support/process.h"

namespace sbx::test {

namespace {

constexpr const char* kQemu = "/usr/bin/qemu-system-x86_64";

std::string machine_dir() {
  const char* dir = std::getenv("SBX_TEST_VM_DIR");  // NOLINT(concurrency-mt-unsafe)
  return dir == nullptr ? "" : dir;
}

std::string read(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

/// Of this machine's time stamp counter, which the emulated one shares.
std::uint64_t tsc_khz() {
  const auto now = [] {
    timespec at{};
    ::clock_gettime(CLOCK_MONOTONIC_RAW, &at);
    return static_cast<std::uint64_t>(at.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(at.tv_nsec);
  };
  const std::uint64_t from = now();
  const std::uint64_t ticks = __rdtsc();
  pause(0.05);
  return (__rdtsc() - ticks) * 1'000'000U / (now() - from);
}

class Cpio {
 public:
  void add(const std::string& name, unsigned mode, const std::string& data) {
    std::array<char, 120> head{};
    (void)std::snprintf(head.data(),
                        head.size(),
                        "070701%08x%08x%08x%08x%08x%08x%08zx%08x%08x%08x%08x%08zx%08x",
                        ++inode_,
                        mode,
                        0U,
                        0U,
                        1U,
                        0U,
                        data.size(),
                        0U,
                        0U,
                        0U,
                        0U,
                        name.size() + 1,
                        0U);
    out_ += head.data();
    out_ += name;
    out_ += '\0';
    pad();
    out_ += data;
    pad();
  }
  const std::string& finish() {
    add("TRAILER!!!", 0, "");
    return out_;
  }

 private:
  void pad() { out_.resize((out_.size() + 3) / 4 * 4); }
  std::string out_;
  unsigned inode_ = 0;
};

struct Pair {
  UniqueFd ours;
  UniqueFd theirs;
};

Pair stream_pair() {
  int fds[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace

bool have_machine() {
  const char* missing = nullptr;
  if (::access(kQemu, X_OK) != 0) missing = "needs qemu";
  if (machine_dir().empty()) missing = "needs SBX_TEST_VM_DIR with a kernel";
  if (missing != nullptr) std::printf("SKIP: %s\n", missing);
  return missing == nullptr;
}

void write_initramfs(const std::string& path, const std::string& init, const std::string& modules) {
  Cpio cpio;
  for (const char* dir : {"dev", "proc", "sys", "new", "modules"}) {
    cpio.add(dir, 040755, "");
  }
  cpio.add("init", 0100755, read(init));
  const std::string order = read(modules + "/order");
  cpio.add("modules/order", 0100644, order);
  for (const std::string_view line : text::split(order, '\n')) {
    if (line.empty()) continue;
    cpio.add(text::cat("modules/", line), 0100644, read(text::cat(modules, "/", line)));
  }
  std::ofstream(path, std::ios::binary) << cpio.finish();
}

PlainMachine::PlainMachine(const MachineOptions& options) {
  std::string name = "/tmp/sbx-vm-XXXXXX";
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  dir_ = name;
  write_initramfs(dir_ + "/initramfs", options.binary, machine_dir() + "/modules");
  Pair agent = stream_pair();
  Pair control = stream_pair();
  SpawnOptions spawned;
  std::vector<std::string>& argv = spawned.argv;
  argv = {
      kQemu,
      "-nodefaults",
      "-no-user-config",
      "-display",
      "none",
      "-no-reboot",
      "-m",
      text::cat(options.memory_mib),
      "-M",
      "microvm,acpi=on,isa-serial=on",
      "-accel",
      "tcg,thread=single",
      "-cpu",
      "qemu64",
      "-global",
      "virtio-mmio.force-legacy=false",
      "-kernel",
      machine_dir() + "/vmlinux",
      "-initrd",
      dir_ + "/initramfs",
      "-serial",
      text::cat("file:", dir_, "/console"),
      "-append",
      text::cat("console=ttyS0 panic=-1 quiet loglevel=3 lsm=landlock no_timer_check tsc=reliable "
                "tsc_early_khz=",
                tsc_khz()),
      "-device",
      "virtio-serial-device,id=vs"};
  Pair qmp = stream_pair();
  ram_ = options.ram;
  if (!ram_.empty()) {
    argv[9] += ",memory-backend=ram";
    argv.insert(argv.end(),
                {"-object",
                 text::cat("memory-backend-file,id=ram,size=",
                           options.memory_mib,
                           "M,mem-path=",
                           ram_,
                           options.is_clone ? ",share=off" : ",share=on"),
                 "-chardev",
                 text::cat("socket,id=qm,fd=", qmp.theirs.get()),
                 "-mon",
                 "chardev=qm,mode=control"});
    spawned.pass_fds.push_back(qmp.theirs.get());
  }
  if (options.is_clone) argv.insert(argv.end(), {"-incoming", "defer"});
  const auto add_port = [&](const char* id, std::string_view port, const UniqueFd& fd) {
    argv.insert(argv.end(),
                {"-chardev",
                 text::cat("socket,id=", id, ",fd=", fd.get()),
                 "-device",
                 text::cat("virtserialport,bus=vs.0,chardev=", id, ",name=", port)});
    spawned.pass_fds.push_back(fd.get());
  };
  add_port("ag", "sbx.agent", agent.theirs);
  add_port("ct", "sbx.control", control.theirs);
  const Pair data = stream_pair();
  add_port("da", "sbx.data", data.theirs);
  argv.insert(argv.end(), {"-device", "virtio-rng-device"});
  for (const auto& [tag, path] : options.shares) {
    argv.insert(
        argv.end(),
        {"-fsdev",
         text::cat(
             "local,id=f", tag, ",path=", path, ",security_model=none,readonly=on,multidevs=remap"),
         "-device",
         text::cat("virtio-9p-device,fsdev=f", tag, ",mount_tag=", tag)});
  }
  for (std::size_t i = 0; i < options.disks.size(); ++i) {
    std::string path = options.disks[i];
    const bool is_read_only = path.starts_with("ro:");
    if (is_read_only) path.erase(0, 3);
    argv.insert(argv.end(),
                {"-blockdev",
                 text::cat("driver=raw,node-name=d",
                           i,
                           is_read_only ? ",read-only=on" : "",
                           ",file.driver=file,file.locking=off,file.filename=",
                           path),
                 "-device",
                 text::cat("virtio-blk-device,drive=d", i)});
  }
  const Result<UniqueFd> log = sys::open(dir_ + "/qemu", O_WRONLY | O_CREAT | O_APPEND, 0600);
  spawned.err = log.value().get();
  started_ = now();
  Result<ChildProcess> qemu = spawn(spawned);
  REQUIRE(qemu.ok());
  qemu_ = std::make_unique<ChildProcess>(std::move(qemu).value());
  agent_ = std::move(agent.ours);
  control_ = std::make_unique<vm::ControlClient>(std::move(control.ours));
  qmp_ = std::move(qmp.ours);
  qmp.theirs.reset();
  if (ram_.empty()) return;
  listen("\"QMP\"");
  order(R"({"execute":"qmp_capabilities"})");
  order(
      R"({"execute":"migrate-set-capabilities","arguments":{"capabilities":[{"capability":"x-ignore-shared","state":true}]}})");
  if (!options.is_clone) return;
  order(text::cat(
      R"({"execute":"migrate-incoming","arguments":{"uri":"exec:cat )", ram_, ".state\"}}"));
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(sys::write_all(qmp_.get(), R"({"execute":"query-status"})").ok());
    if (listen("\"return\"").find("inmigrate") == std::string::npos) break;
    pause(0.002);
  }
  order(R"({"execute":"cont"})");
  started_ = now();
}

/// Reads lines until one has `until`; that one.
std::string PlainMachine::listen(const std::string& until) {
  std::string line;
  while (true) {
    char letter = 0;
    const auto got = sys::read(qmp_.get(), &letter, 1);
    const std::string said = got.ok() && got.value() == 1 ? "" : console();
    CAPTURE(said);
    CAPTURE(line);
    REQUIRE(got.ok());
    REQUIRE(got.value() == 1);
    line += letter;
    if (letter != '\n') continue;
    CAPTURE(line);
    REQUIRE(line.find("\"error\"") == std::string::npos);
    if (line.find(until) != std::string::npos) return line;
    line.clear();
  }
}

void PlainMachine::order(const std::string& command) {
  REQUIRE(sys::write_all(qmp_.get(), command).ok());
  listen("\"return\"");
}

void PlainMachine::save_template() {
  order(R"({"execute":"stop"})");
  order(text::cat(R"({"execute":"migrate","arguments":{"uri":"exec:cat >)", ram_, ".state\"}}"));
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(sys::write_all(qmp_.get(), R"({"execute":"query-migrate"})").ok());
    const std::string said = listen("\"return\"");
    REQUIRE(said.find("failed") == std::string::npos);
    if (said.find("completed") != std::string::npos) break;
    pause(0.005);
  }
  order(R"({"execute":"quit"})");
}

PlainMachine::~PlainMachine() {
  qemu_.reset();
  (void)fs::remove_tree(AT_FDCWD, dir_);
}

std::string PlainMachine::console() const {
  return read(dir_ + "/qemu") + read(dir_ + "/console");
}

double PlainMachine::cpu_ms() const {
  double total = 0;
  const std::string tasks = text::cat("/proc/", qemu_->pid(), "/task");
  for (const auto& entry : std::filesystem::directory_iterator(tasks)) {
    total += std::atof(read(entry.path().string() + "/schedstat").c_str()) / 1e6;
  }
  return total;
}

bool PlainMachine::wait_for_end(int seconds) {
  for (int i = 0; i < seconds * 100; ++i) {
    const auto ended = qemu_->try_wait();
    if (ended.ok() && ended.value().has_value()) return true;
    pause(0.01);
  }
  return false;
}

}  // namespace sbx::test
