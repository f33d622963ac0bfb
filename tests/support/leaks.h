// leaks: compares the host before and after: processes, mounts, cgroups and files that stayed.
#pragma once

#include <string>
#include <vector>

namespace sbx::test {

/// Made before the work; makes the test process the reaper of all orphans below it.
class LeakCheck {
 public:
  LeakCheck();
  /// All that is left of it, one line each; waits up to `seconds` (scaled) for it to vanish.
  std::vector<std::string> left(double seconds = 3) const;
  /// The same after a kill, which leaves its children to us: those that ended are reaped.
  std::vector<std::string> left_after_kill(double seconds = 3) const;

 private:
  std::vector<std::string> mounts_;
  std::vector<std::string> cgroups_;
  std::vector<std::string> files_;
};

/// Lines of a leak list as one text, for messages.
std::string joined(const std::vector<std::string>& lines);

/// Processes below the test process (zombies too), as "pid (name) state".
std::vector<std::string> descendants();

}  // namespace sbx::test
