// Accel: finds what a machine needs on this host. See machine.h.
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

#include "core/backend/vm/machine.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/host/doctor.h"
#include "core/host/probes.h"

namespace sbx::vm {

Result<std::string> find_qemu() {
  constexpr const char* kProgram = "qemu-system-x86_64";
  constexpr const char* kFix = "as root: apt-get install --no-install-recommends qemu-system-x86";
  const auto found = host::find_in_path(host::DoctorContext(), kProgram);
  if (!found.has_value()) {
    return Error(Errc::kUnsupported, text::cat("there is no ", kProgram, " on PATH"))
        .with_hint(kFix);
  }
  char* real = ::realpath(found->c_str(), nullptr);
  if (real == nullptr) return sys_error(text::cat("look at ", *found));
  std::string path(real);
  std::free(real);  // NOLINT: realpath(3) allocates it so
  if (!path.starts_with("/usr/")) {
    return Error(Errc::kUnsupported,
                 text::cat(path, ": QEMU runs in a sandbox, which shows it below /usr only"))
        .with_hint(kFix);
  }
  return path;
}

Status check_kvm() {
  host::Finding found = host::check_kvm(host::DoctorContext());
  if (found.verdict == host::Verdict::kOk) return {};
  Error error(Errc::kUnsupported, text::cat("no hardware virtualization: ", found.cause));
  if (found.fix.empty()) return error;
  return std::move(error).with_hint(std::move(found.fix));
}

Status try_kvm() {
  constexpr Millis kPatience{5'000};
  constexpr Bytes kMostWords{std::uint64_t{64} << 10U};
  SBX_ASSIGN(const std::string qemu, find_qemu());
  SBX_ASSIGN(sys::Pipe in, sys::pipe());
  SBX_ASSIGN(sys::Pipe err, sys::pipe());
  SBX_TRY(
      sys::write_all(in.w.get(), "{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"quit\"}\n"));
  SpawnOptions options;
  options.argv = {qemu,
                  "-nodefaults",
                  "-no-user-config",
                  "-display",
                  "none",
                  "-M",
                  "microvm",
                  "-accel",
                  "kvm",
                  "-cpu",
                  "host",
                  "-m",
                  "16M",
                  "-S",
                  "-qmp",
                  "stdio"};
  options.in = in.r.get();
  options.err = err.w.get();
  SBX_ASSIGN(ChildProcess child, spawn(options));
  in.r.reset();
  err.w.reset();
  std::array<pollfd, 1> polled{{{child.pidfd(), POLLIN, 0}}};
  SBX_TRY(sys::poll(polled, kPatience));
  if (polled[0].revents == 0) (void)child.kill(SIGKILL);
  SBX_ASSIGN(const int status, child.wait());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const auto words = sys::read_all(err.r.get(), kMostWords);
  std::string_view said = words.ok() ? text::trim(words.value()) : std::string_view();
  said = said.substr(0, said.find('\n'));
  return Error(Errc::kUnsupported,
               text::cat("KVM is here, but QEMU cannot use it: ",
                         said.empty() ? "it does not answer" : text::escape(said)));
}

}  // namespace sbx::vm
