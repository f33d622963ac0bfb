// Plain machine: QEMU with our init, started without any fence, for tests of what runs inside.
//
// It needs a directory (SBX_TEST_VM_DIR) with "vmlinux", an ELF of Linux 6.1, and "modules", the
// drivers and "modules/order".
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/vm/control_client.h"
#include "core/base/process.h"
#include "core/base/unique_fd.h"

namespace sbx::test {

struct MachineOptions {
  std::vector<std::pair<std::string, std::string>> shares{};  ///< tag, directory of this host
  std::vector<std::string> disks{};  ///< "vda", "vdb"…; "ro:PATH" or PATH
  int memory_mib = 512;
  std::string binary = SBX_BINARY;  ///< becomes /init
  /// Not empty: the guest's memory is this file. With `is_clone` a private copy of it, and the rest
  /// of the machine is what save_template() put beside it; everything else must be the same.
  std::string ram{};
  bool is_clone = false;
};

/// Prints why and returns false where it cannot be.
bool have_machine();

class PlainMachine {
 public:
  explicit PlainMachine(const MachineOptions& options);
  ~PlainMachine();
  PlainMachine(const PlainMachine&) = delete;
  PlainMachine& operator=(const PlainMachine&) = delete;

  vm::ControlClient& control() { return *control_; }
  UniqueFd take_agent() { return std::move(agent_); }
  /// Stops the machine and puts what is not in its memory file beside that, as "<ram>.state".
  void save_template();
  /// What the console said so far.
  std::string console() const;
  /// CPU time of QEMU so far, in ms: what others do on this host shows less in it.
  double cpu_ms() const;
  /// Waits until QEMU ends by itself.
  bool wait_for_end(int seconds);
  double started() const { return started_; }

 private:
  void order(const std::string& command);
  std::string listen(const std::string& until);

  std::string dir_;
  std::string ram_;
  UniqueFd agent_;
  UniqueFd qmp_;
  std::unique_ptr<vm::ControlClient> control_;
  std::unique_ptr<ChildProcess> qemu_;
  double started_ = 0;
};

/// Makes an initramfs in the newc format: /init, modules, empty directories.
void write_initramfs(const std::string& path, const std::string& init, const std::string& modules);

}  // namespace sbx::test
