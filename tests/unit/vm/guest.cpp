// Guest: see guest.h.
#include "tests/unit/vm/guest.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"

#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace sbx::test {

namespace {

constexpr double kPatience = 30'000;
constexpr double kNsPerMs = 1e6;

std::string guest_dir() {
  if (const char* dir = std::getenv("SBX_TEST_GUEST")) return dir;
  return SBX_SOURCE_DIR "/build/vm61";
}

std::string& files_path() {
  static std::string path;
  return path;
}

void become(const Identity& who) {
  if (who.uid == ::getuid()) return;
  if (::setgroups(0, nullptr) != 0 || ::setgid(who.gid) != 0 || ::setuid(who.uid) != 0) {
    ::_exit(99);
  }
  (void)::prctl(PR_SET_DUMPABLE, 1);  // the change took it, and with it the right to /proc/PID
}

}  // namespace

const WorkDir* guest_files() {
  if (skip_without("qemu")) return nullptr;
  static std::unique_ptr<WorkDir> made;
  if (made != nullptr) return made.get();
  const std::string dir = guest_dir();
  if (!exists(dir + "/vmlinux") || !have("busybox") || !have("python")) {
    std::printf("SKIP: needs a guest kernel (tests/vm61/boot --fetch --work %s), busybox, python\n",
                dir.c_str());
    return nullptr;
  }
  made = std::make_unique<WorkDir>(self());
  REQUIRE(::chmod(made->path().c_str(), 0755) == 0);
  Spec spec;
  spec.argv = {SBX_SOURCE_DIR "/tests/unit/vm/make_guest", dir, made->path()};
  spec.env = {"PATH=/usr/bin:/bin"};
  const Outcome outcome = run(spec);
  REQUIRE_MESSAGE(outcome.code == 0, outcome.show());
  files_path() = made->path();
  return made.get();
}

std::string as_user(const Identity& who,
                    const std::function<std::string(const std::string& state)>& what) {
  const WorkDir dir(who);
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    (void)::close(pipe[0]);
    become(who);
    const std::string state = dir.at("state");
    std::string problem = ::mkdir(state.c_str(), 0700) == 0 ? "" : "no state directory";
    if (problem.empty()) problem = what(state);
    (void)sys::write_all(pipe[1], problem).ok();
    std::fflush(nullptr);
    ::_exit(0);
  }
  (void)::close(pipe[1]);
  const UniqueFd from(pipe[0]);
  const auto problem = sys::read_all(from.get(), Bytes{1U << 20});
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  if (status != 0) return text::cat("the test's process ended with wait status ", status);
  return problem.ok() ? problem.value() : problem.error().to_string();
}

std::vector<const Identity*> machine_identities() {
  std::vector<const Identity*> all{&self()};
  if (self().uid == 0) all.push_back(&test_user());
  return all;
}

void as_each_user(const std::function<std::string(const std::string& state)>& what) {
  if (guest_files() == nullptr) return;
  for (const Identity* who : machine_identities()) {
    CAPTURE(who->name);
    CHECK(as_user(*who, what) == "");
  }
}

vm::MachineSpec guest_spec(const std::string& state) {
  vm::MachineSpec spec;
  spec.id = text::cat("vmtest", ::getpid());
  spec.state_dir = state;
  spec.accel = vm::Accel::kTcg;
  spec.memory = Bytes{uint64_t{256} << 20};
  spec.kernel = files_path() + "/vmlinux";
  spec.initramfs = files_path() + "/initramfs";
  return spec;
}

Guest::Guest(const vm::MachineSpec& spec) : started_ns_(monotonic_ns()) {
  auto machine = vm::Machine::start(spec);
  if (!machine.ok()) {
    problem_ = machine.error().to_string();
    return;
  }
  machine_ = std::move(machine).value();
  agent_ = machine_->take_agent();
  control_ = machine_->take_control();
}

std::string Guest::read_until(int fd, std::string_view end) {
  std::string& out = rest_;
  const double until = static_cast<double>(monotonic_ns()) / kNsPerMs + kPatience * slowness();
  for (;;) {
    const size_t at = out.find(end);
    if (at != std::string::npos) {
      const std::string all = out.substr(0, at + end.size());
      out.erase(0, all.size());
      return all;
    }
    const double left = until - static_cast<double>(monotonic_ns()) / kNsPerMs;
    std::array<pollfd, 1> polled{{{fd, POLLIN, 0}}};
    const auto ready = sys::poll(polled, Millis{left > 0 ? static_cast<int64_t>(left) : 0});
    if (!ready.ok() || ready.value() == 0) return "?";
    std::array<char, 4096> chunk{};
    const auto got = sys::read(fd, chunk.data(), chunk.size());
    if (!got.ok() || got.value() == 0) return "?";
    out.append(chunk.data(), got.value());
  }
}

bool Guest::wait_up() {
  return read_until(control_.get(), "up\n") == "up\n";
}

std::string Guest::sh(const std::string& command) {
  const std::string end = text::cat("done-", command.size(), "\n");
  if (!sys::write_all(control_.get(), text::cat(command, "; echo ", end)).ok()) return "?";
  std::string out = read_until(control_.get(), end);
  if (out == "?") return out;
  (void)read_until(control_.get(), "=0\n");
  return out.substr(0, out.size() - end.size());
}

std::string Guest::echo(std::string_view text) {
  if (!sys::write_all(agent_.get(), text).ok()) return "?";
  return read_until(agent_.get(), text);
}

std::string started(Guest& guest) {
  if (!guest.problem().empty()) return guest.problem();
  if (guest.wait_up()) return {};
  return "the guest does not come up: " + guest.machine().serial_tail();
}

double Guest::elapsed_ms() const {
  return static_cast<double>(monotonic_ns() - started_ns_) / kNsPerMs;
}

}  // namespace sbx::test
