// Machine plan: what one virtual machine is to be like, and the arguments of QEMU for it. Pure.
//
// It does not know what is inside: kernel, initramfs and disks are files, the two ports are
// streams.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"

namespace sbx::vm {

/// Names of the ports inside (/sys/class/virtio-ports/*/name).
inline constexpr const char* kAgentPort = "sbx.agent";
inline constexpr const char* kControlPort = "sbx.control";
inline constexpr const char* kDataPort = "sbx.data";

enum class Accel : uint8_t { kKvm, kTcg };

/// Which processor is shown.
enum class CpuModel : uint8_t {
  kFull,   ///< KVM: the host's; emulated: all that the emulator knows (x86-64-v3)
  kPlain,  ///< x86-64-v1
};

/// A virtio-blk disk: vda, vdb, ... in order. The file is opened by us and passed as a descriptor,
/// so its owner and place do not matter to QEMU's ids. Not locked: that is for whoever owns it.
struct Disk {
  std::string path;
  bool is_read_only = false;
  bool is_volatile = false;  ///< nothing is ever synced to the disk
};

/// A 9p file system, mounted inside by its tag. A machine with one that is mounted cannot be saved.
struct Share {
  /// kTree: `path` is one of QEMU's own root, which is that of a jail: "/usr", "/etc". What a jail
  /// would see is seen, whatever the host has.
  /// kHost: `path` is a directory of the host's, bound into QEMU's jail.
  enum class From : uint8_t { kTree, kHost };
  From from = From::kTree;
  std::string path;  ///< absolute
  std::string tag;   ///< [a-z0-9.-], at most 31
  bool is_read_only = true;
  std::string beneath = {};  ///< kHost: as profile::Mount::beneath
};

/// Guest memory in a memory file of ours, so that save(kDeviceState) leaves it out and it is copied
/// on its own. Without one the memory is QEMU's own, and pages of it are bigger.
struct Memory {
  std::string image;  ///< a file of save_memory(): what is in it at the start. Empty: new memory
};

struct MachineLimits {
  std::optional<uint32_t> cpu_millis;
  /// Refused where a limit cannot be held, the one of memory too; else approximated.
  bool is_explicit = false;
};

struct MachineSpec {
  std::string id;         ///< as backend::LaunchRequest::id
  std::string state_dir;  ///< absolute; exists, 0700
  Accel accel = Accel::kKvm;
  CpuModel cpu = CpuModel::kFull;
  uint32_t cpus = 1;
  Bytes memory{uint64_t{512} << 20};  ///< what the guest has; whole MiB
  Bytes overhead;                     ///< what QEMU may use besides; 0: default_overhead()
  MachineLimits limits;
  bool is_lasting = false;  ///< as backend::LaunchRequest::is_lasting
  std::string kernel;       ///< an ELF vmlinux with a PVH note; others may read it (0444)
  std::string initramfs;    ///< the same
  std::string append;       ///< further words of the kernel's command line
  std::vector<Disk> disks;
  std::vector<Share> shares;
  std::optional<Memory> own_memory;
  /// Nothing runs until load(). All that shapes the machine is as in the one that was saved: see
  /// machine_shape().
  bool is_incoming = false;
};

/// What QEMU may need besides the guest's memory: translated code, the kernel's file, threads.
Bytes default_overhead(const MachineSpec& spec);

/// Descriptors of the program by number, as machine_argv() names them.
struct MachineFds {
  static constexpr int kAgent = 3;
  static constexpr int kControl = 4;
  static constexpr int kData = 5;
  static constexpr int kQmp = 6;
  int memory = -1;  ///< -1: none
  int first_disk = -1;
  int count = 0;  ///< from 3 on
};
MachineFds machine_fds(const MachineSpec& spec);

/// Where things are in QEMU's jail.
inline constexpr const char* kKernelInside = "/work/kernel";
inline constexpr const char* kInitramfsInside = "/work/initramfs";
std::string share_inside(const MachineSpec& spec, size_t share);

/// QEMU's argument list. `tsc_khz` matters for kTcg only.
std::vector<std::string> machine_argv(const MachineSpec& spec,
                                      const std::string& qemu,
                                      uint64_t tsc_khz);

/// What a saved state depends on, as text: to be hashed together with the contents of kernel and
/// initramfs and with QEMU's version. It has no path, id or limit, and not what was measured.
std::string machine_shape(const MachineSpec& spec);

}  // namespace sbx::vm
