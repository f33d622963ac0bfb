// Machine plan: see machine_plan.h.
#include "core/backend/vm/machine_plan.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/text.h"

namespace sbx::vm {

namespace {

using Arguments = std::vector<std::string>;

constexpr uint64_t kMiB = uint64_t{1} << 20;
/// Code that the emulator has translated. Its default is an eighth of the host's memory.
constexpr uint64_t kTranslatedMiB = 128;
/// Measured: 60 MB of QEMU itself, twice the kernel's file, 64 threads of file input and output.
constexpr uint64_t kOwnMiB = 256;

/// The value of an option: a comma is doubled.
std::string quoted(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == ',') out += ',';
    out += c;
  }
  return out;
}

void add(Arguments& argv, std::string option, std::string value) {
  argv.push_back(std::move(option));
  argv.push_back(std::move(value));
}

/// Debian's kernels find virtio devices by ACPI only. Without a clock of the old kind (rtc) an
/// emulated start takes 2 s longer; with KVM it is the reverse, and kvmclock takes its place.
std::string machine_of(const MachineSpec& spec) {
  std::string machine = "microvm,acpi=on,isa-serial=on";
  if (spec.accel == Accel::kKvm) machine += ",rtc=off,pit=off,pic=off";
  if (spec.own_memory.has_value()) machine += ",memory-backend=ram";
  return machine;
}

void add_processor(Arguments& argv, const MachineSpec& spec) {
  if (spec.accel == Accel::kKvm) {
    add(argv, "-accel", "kvm");
    add(argv, "-cpu", spec.cpu == CpuModel::kFull ? "host" : "qemu64");
  } else {
    // One thread for one processor: start-up times vary least so.
    add(argv,
        "-accel",
        text::cat("tcg,thread=", spec.cpus == 1 ? "single" : "multi", ",tb-size=", kTranslatedMiB));
    // Without la57: five levels of page tables make every walk dearer.
    add(argv, "-cpu", spec.cpu == CpuModel::kFull ? "max,-la57" : "qemu64");
  }
  add(argv, "-smp", text::cat(spec.cpus));
}

void add_memory(Arguments& argv, const MachineSpec& spec, const MachineFds& fds) {
  add(argv, "-m", text::cat(spec.memory.v / kMiB, "M"));
  if (!spec.own_memory.has_value()) return;
  add(argv,
      "-object",
      text::cat("memory-backend-file,id=ram,share=on,size=",
                spec.memory.v,
                ",mem-path=/proc/self/fd/",
                fds.memory));
}

/// The emulated counter is the host's. A guest that has to find its frequency by an emulated timer
/// hangs in every third start or so.
std::string append_of(const MachineSpec& spec, uint64_t tsc_khz) {
  std::string out = "console=ttyS0 panic=-1 quiet loglevel=3";
  if (spec.accel == Accel::kKvm) {
    out += " reboot=t";
  } else {
    out += text::cat(" no_timer_check tsc=reliable tsc_early_khz=", tsc_khz);
  }
  if (!spec.append.empty()) out += text::cat(" ", spec.append);
  return out;
}

void add_port(
    Arguments& argv, std::string_view id, std::string_view name, int number, int descriptor) {
  add(argv, "-chardev", text::cat("socket,id=", id, ",fd=", descriptor));
  add(argv,
      "-device",
      text::cat("virtserialport,bus=ports.0,nr=", number, ",chardev=", id, ",name=", name));
}

void add_disk(Arguments& argv, const Disk& disk, size_t index, int descriptor) {
  add(argv, "-add-fd", text::cat("fd=", descriptor, ",set=", index));
  std::string block = text::cat("driver=raw,node-name=disk", index);
  block += disk.is_read_only ? ",read-only=on" : ",read-only=off,discard=unmap";
  if (disk.is_volatile) block += ",cache.no-flush=on";
  block += text::cat(",file.driver=file,file.locking=off,file.filename=/dev/fdset/", index);
  if (!disk.is_read_only) block += ",file.discard=unmap";
  add(argv, "-blockdev", std::move(block));
  add(argv, "-device", text::cat("virtio-blk-device,drive=disk", index));
}

void add_share(Arguments& argv, const MachineSpec& spec, size_t index) {
  const Share& share = spec.shares[index];
  // Two file systems of the host below one directory have inode numbers of their own.
  add(argv,
      "-fsdev",
      text::cat("local,id=share",
                index,
                ",path=",
                quoted(share_inside(spec, index)),
                ",security_model=none,multidevs=remap,readonly=",
                share.is_read_only ? "on" : "off"));
  add(argv,
      "-device",
      text::cat("virtio-9p-device,fsdev=share", index, ",mount_tag=", quoted(share.tag)));
}

/// In an order that is part of every saved state: a device's place follows from it.
void add_devices(Arguments& argv, const MachineSpec& spec, const MachineFds& fds) {
  add(argv, "-device", "virtio-serial-device,id=ports,max_ports=4");
  add_port(argv, "agent", kAgentPort, 1, MachineFds::kAgent);
  add_port(argv, "control", kControlPort, 2, MachineFds::kControl);
  add_port(argv, "data", kDataPort, 3, MachineFds::kData);
  add(argv, "-object", "rng-random,id=random,filename=/dev/urandom");
  add(argv, "-device", "virtio-rng-device,rng=random");
  add(argv, "-device", "virtio-balloon-device,id=balloon,free-page-reporting=on");
  for (size_t i = 0; i < spec.disks.size(); ++i) {
    add_disk(argv, spec.disks[i], i, fds.first_disk + static_cast<int>(i));
  }
  for (size_t i = 0; i < spec.shares.size(); ++i) {
    add_share(argv, spec, i);
  }
}

}  // namespace

Bytes default_overhead(const MachineSpec& spec) {
  uint64_t mib = kOwnMiB;
  if (spec.accel == Accel::kTcg) mib += kTranslatedMiB;
  return Bytes{mib * kMiB};
}

MachineFds machine_fds(const MachineSpec& spec) {
  MachineFds fds;
  int next = MachineFds::kQmp + 1;
  if (spec.own_memory.has_value()) fds.memory = next++;
  fds.first_disk = next;
  next += static_cast<int>(spec.disks.size());
  fds.count = next - MachineFds::kAgent;
  return fds;
}

std::string share_inside(const MachineSpec& spec, size_t share) {
  if (spec.shares[share].from == Share::From::kTree) return spec.shares[share].path;
  return text::cat("/work/share", share);
}

std::vector<std::string> machine_argv(const MachineSpec& spec,
                                      const std::string& qemu,
                                      uint64_t tsc_khz) {
  const MachineFds fds = machine_fds(spec);
  Arguments argv{qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"};
  add(argv, "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
  add(argv, "-M", machine_of(spec));
  add_processor(argv, spec);
  add_memory(argv, spec, fds);
  add(argv, "-global", "virtio-mmio.force-legacy=false");
  add(argv, "-chardev", text::cat("socket,id=qmp,fd=", MachineFds::kQmp));
  add(argv, "-mon", "chardev=qmp,mode=control");
  add(argv, "-chardev", "stdio,id=serial,signal=off");
  add(argv, "-serial", "chardev:serial");
  add(argv, "-kernel", kKernelInside);
  add(argv, "-initrd", kInitramfsInside);
  add(argv, "-append", append_of(spec, tsc_khz));
  add_devices(argv, spec, fds);
  if (spec.is_incoming) add(argv, "-incoming", "defer");
  return argv;
}

std::string machine_shape(const MachineSpec& spec) {
  MachineSpec shape = spec;
  shape.is_incoming = false;
  std::string out;
  const Arguments argv = machine_argv(shape, {}, 0);
  for (size_t i = 0; i < argv.size(); ++i) {
    // A share may lead elsewhere, and what is on a disk is not the machine.
    if (argv[i] == "-fsdev" || argv[i] == "-add-fd") {
      ++i;
      continue;
    }
    out += argv[i];
    out += '\n';
  }
  return out;
}

}  // namespace sbx::vm
