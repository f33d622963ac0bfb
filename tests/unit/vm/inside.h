// Inside: what tests ask of a plain machine, and the supervisor's side of the jail in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/backend/vm/bridge_process.h"
#include "core/backend/vm/control.h"
#include "core/ipc/channel.h"
#include "core/profile/profile.h"

#include "tests/unit/vm/plain_machine.h"

namespace sbx::test {

/// The answer; the case fails with the console's text when there is none. Prints how long it took.
ipc::Fields ask(PlainMachine& machine, ipc::Fields request, Millis deadline = Millis{20'000});
/// The error that is the answer.
Error refused(PlainMachine& machine, ipc::Fields request);
/// Waits for init. Prints the milestones.
vm::control::Hello hello(PlainMachine& machine);
vm::control::Launched launch(PlainMachine& machine, const vm::control::Launch& wanted);

vm::control::Wake some_wake(char seed);
/// This host's tree, as the backend shows it, for a machine of host_machine().
vm::control::Root host_root();
MachineOptions host_machine();
profile::Profile profile_of(const std::string& name);
vm::control::Launch launch_of(const profile::Profile& profile);

/// A directory in memory, gone with this.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/dev/shm/sbx-vm-XXXXXX";
};

/// The supervisor's side of one launched jail.
class Inside {
 public:
  explicit Inside(PlainMachine& machine);

  /// What the agent says next that is a T; the case fails when it says that something failed.
  template <typename T>
  T expect() {
    while (true) {
      const ipc::Message message = next();
      if (const auto* wanted = std::get_if<T>(&message)) return *wanted;
    }
  }
  struct Ended {
    int status = -1;  ///< as waitpid(2) gives it
    std::string out;
    std::string err;
  };
  /// As the job, or with both ids `user`.
  Ended run(std::vector<std::string> argv, const std::string& input = "", int user = -1);
  Ended shell(const std::string& script, const std::string& input = "", int user = -1);
  /// Starts something that nobody waits for.
  void start(const std::string& script);

 private:
  ipc::Message next();
  ipc::Exec exec_of(std::vector<std::string> argv, int user);

  PlainMachine& machine_;
  vm::BridgeProcess bridge_;
  ipc::Channel channel_;
  std::uint32_t last_ = 0;
};

}  // namespace sbx::test
