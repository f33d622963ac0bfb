// Accel: finds what a machine needs on this host. See machine.h.
#include <stdlib.h>

#include <string>
#include <utility>

#include "core/backend/vm/machine.h"
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

}  // namespace sbx::vm
