// What virtual machines would need: /dev/kvm, QEMU with its microvm machine, a guest kernel.
#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

/// The name of group `gid` out of /etc/group; its number when it has none.
std::string group_name(const HostFiles& files, gid_t gid) {
  std::string number = std::to_string(gid);
  const std::string groups = read_host_file(files, "/etc/group").value_or("");
  for (const std::string_view line : text::split(groups, '\n')) {
    const auto fields = text::split(line, ':');
    if (fields.size() >= 3 && fields[2] == number) return std::string(fields[0]);
  }
  return number;
}

bool has_virtualization(const HostFiles& files) {
  const std::string info = read_host_file(files, "/proc/cpuinfo").value_or("");
  return info.find(" vmx") != std::string::npos || info.find(" svm") != std::string::npos;
}

Finding no_kvm_device(const DoctorContext& context, const std::string& tried) {
  if (has_virtualization(context.files)) {
    return missing(tried,
                   "the processor can do it, but there is no /dev/kvm",
                   "as root: modprobe kvm_intel || modprobe kvm_amd; in a container: --device "
                   "/dev/kvm");
  }
  return missing(tried,
                 "there is no /dev/kvm, and the processor shows no virtualization (vmx, svm)",
                 "turn it on in the firmware; when this host is itself a virtual machine, turn "
                 "nested virtualization on for it");
}

Finding denied_kvm(const DoctorContext& context, const std::string& tried, int err) {
  struct stat info {};
  const std::string path = text::cat(context.files.root, "/dev/kvm");
  const bool is_known = ::stat(path.c_str(), &info) == 0 && info.st_gid != 0;
  const std::string group = is_known ? group_name(context.files, info.st_gid) : "kvm";
  return missing(tried,
                 sys_error("open /dev/kvm", err).message(),
                 text::cat("as root: usermod -aG ", group, " $USER (yours), then log in again"));
}

}  // namespace

Finding check_kvm(const DoctorContext& context) {
  const std::string tried = "opened /dev/kvm, asked for its API version, made a machine";
  const auto kvm = sys::open(text::cat(context.files.root, "/dev/kvm"), O_RDWR);
  if (!kvm.ok()) {
    const int err = kvm.error().sys_errno();
    if (err == ENOENT || err == ENODEV || err == ENXIO) return no_kvm_device(context, tried);
    if (err == EACCES || err == EPERM) return denied_kvm(context, tried, err);
    return missing(tried, kvm.error());
  }
  const int version = ::ioctl(kvm.value().get(), KVM_GET_API_VERSION, 0);
  if (version != KVM_API_VERSION) {
    return missing(tried, text::cat("/dev/kvm speaks version ", version, ", not 12"), "");
  }
  const UniqueFd machine(::ioctl(kvm.value().get(), KVM_CREATE_VM, 0));
  if (machine.valid()) return works(tried);
  const int err = errno;
  return missing(
      tried,
      sys_error("make a virtual machine", err).message(),
      err == EBUSY ? "another hypervisor has the processor: end VirtualBox or VMware" : "");
}

Finding check_qemu(const DoctorContext& context) {
  constexpr std::string_view kProgram = "qemu-system-x86_64";
  const std::string tried = text::cat("asked ", kProgram, " for its machines");
  const std::string_view fix = "as root: apt-get install --no-install-recommends qemu-system-x86";
  const auto path = find_in_path(context, kProgram);
  if (!path) {
    return missing(tried, text::cat("there is no ", kProgram, " on PATH"), std::string(fix));
  }
  const auto printed = run_helper({*path, "-machine", "help"}, kHelperDeadline);
  if (!printed.ok()) return missing(tried, printed.error());
  if (printed.value().status != 0) {
    return missing(
        tried, text::cat(*path, ": ", text::trim(printed.value().err)), std::string(fix));
  }
  if (printed.value().out.find("\nmicrovm") == std::string::npos) {
    return missing(tried, text::cat(*path, " has no machine type microvm"), std::string(fix));
  }
  return works(text::cat(tried, ": ", *path, " has microvm"));
}

Finding check_guest_kernel(const DoctorContext& context) {
  const std::string tried = "looked for a kernel to start virtual machines with";
  if (!context.find_guest_kernel) return plays_no_part("nobody looked for guest kernels");
  const auto kernel = context.find_guest_kernel();
  if (!kernel.ok()) return missing(tried, kernel.error());
  const std::string found = text::cat(tried, ": ", kernel.value().found);
  if (kernel.value().lacking.empty()) return works(found);
  return weak(found, text::join(kernel.value().lacking, "; "), "sbx kernel install");
}

}  // namespace sbx::host
