// VM plan: from a request and what this host has to one virtual machine and what runs in it; pure.
//
// The machine is QEMU in a jail of ours (machine.h). Inside, the guest's init makes an ordinary
// jail out of the same request (guest_init.h), so everything that is not about the machine itself
// is decided there, by the code that decides it on a host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/jail/host_tree.h"
#include "core/backend/vm/control.h"
#include "core/backend/vm/machine_plan.h"
#include "core/base/result.h"
#include "core/kernel/store.h"

namespace sbx::vm {

/// A file system of an image for the guest.
struct ImageFile {
  std::string path;
  std::string type;  ///< "erofs" or "ext4"
  std::string id;    ///< of its content
};

/// What the plan depends on besides the request.
struct VmFacts {
  kernel::Kernel kernel;
  std::string initramfs;
  std::uint32_t processors = 1;
  std::uint64_t memory_total = 0;
  jail::HostTree tree;             ///< without an image
  std::optional<ImageFile> image;  ///< with one
  std::vector<bool> mount_is_dir;  ///< of profile.mounts, in their order
  std::uint64_t input_bytes = 0;   ///< of the request's inputs, on the disk
};

/// A disk for what is written, made for one run and gone with it, or a session's own.
struct StateDisk {
  std::string path;  ///< a session's; empty: a fresh one
  Bytes size;
};

struct VmPlan {
  MachineSpec machine;  ///< without disks: they are opened at launch
  std::optional<ImageFile> image;
  std::optional<StateDisk> disk;
  control::Root root;
  control::Launch launch;
  std::vector<backend::InputMount> inputs;  ///< copied in before the jail is made
  bool is_warm = true;                      ///< from a template; else it boots
  std::vector<confine::InForce> expected;
  std::optional<Millis> cpu_time;
  std::vector<std::string> warnings;
};

/// kUnsupported for what a virtual machine cannot do, with what can be done instead.
Result<VmPlan> make_plan(const backend::LaunchRequest& request, const VmFacts& facts);

/// One line for each decision, as `--dry-run` shows it.
std::string to_text(const VmPlan& plan);

}  // namespace sbx::vm
