// Guest: machines for tests, with a guest that does what it is told (make_guest), run as root or as
// an unprivileged user.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/vm/machine.h"
#include "core/base/result.h"

#include "tests/support/user.h"

namespace sbx::test {

/// Kernel and initramfs, made once for all cases; nullptr after "SKIP: ..." was printed: there is
/// no QEMU, or no kernel. SBX_TEST_GUEST names the directory of the kernel, as make_guest wants it.
const WorkDir* guest_files();

/// Runs `what` in a child as `who` with a state directory; its text (or the child's death) is what
/// went wrong, empty: nothing.
std::string as_user(const Identity& who,
                    const std::function<std::string(const std::string& state)>& what);

/// root and the unprivileged user when the test runs as root, else who runs it.
std::vector<const Identity*> machine_identities();
/// The case, as each of them: skipped without guest_files(), failed where there is a problem.
void as_each_user(const std::function<std::string(const std::string& state)>& what);

/// A machine of these files; more is set by the caller.
vm::MachineSpec guest_spec(const std::string& state);

/// A started machine and its two ports.
class Guest {
 public:
  /// Starts it; problem() says what went wrong.
  explicit Guest(const vm::MachineSpec& spec);
  vm::Machine& machine() { return *machine_; }
  const std::string& problem() const { return problem_; }
  /// Waits until the guest's init is up; false after half a minute.
  bool wait_up();
  /// Output of a shell command inside; "?" after half a minute.
  std::string sh(const std::string& command);
  /// What comes back over the agent's port for `text`.
  std::string echo(std::string_view text);
  /// Milliseconds from the start of the machine to the last answer.
  double elapsed_ms() const;

 private:
  std::string read_until(int fd, std::string_view end);

  std::unique_ptr<vm::Machine> machine_;
  std::string problem_;
  UniqueFd agent_;
  UniqueFd control_;
  std::string rest_;
  int64_t started_ns_ = 0;
};

/// Waits until it is up; what went wrong, with what it wrote to its serial port.
std::string started(Guest& guest);

}  // namespace sbx::test

/// In a function that returns a problem.
#define SBX_EXPECT(condition)                                            \
  do {                                                                   \
    if (!(condition)) return sbx::text::cat(__LINE__, ": ", #condition); \
  } while (false)
#define SBX_EXPECT_OK(status)                                                          \
  do {                                                                                 \
    const auto& done_ = (status);                                                      \
    if (!done_.ok()) return sbx::text::cat(__LINE__, ": ", done_.error().to_string()); \
  } while (false)
