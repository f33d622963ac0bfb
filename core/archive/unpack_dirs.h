// Unpack dirs: the directories that an unpacked tree goes through, held open from the root down to
// the one that is being filled.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/archive/tar_entry.h"
#include "core/archive/transfer.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::archive {

enum class Leftovers : std::uint8_t { kRemove, kKeep };

class UnpackDirs {
 public:
  UnpackDirs(UniqueFd base, Leftovers leftovers, TransferReport& report);

  /// The directory `parts` below the base, made where it is missing. Valid until the next call.
  /// kDenied when a component is a link or no directory.
  Result<int> enter(std::span<const std::string> parts);
  /// Makes it like `entry` says (mode, time and attributes when it is left).
  Status make(std::span<const std::string> parts, const TarEntry& entry);
  /// The directory `parts` for looking only; nothing is made.
  Result<UniqueFd> find(std::span<const std::string> parts) const;
  /// Leaves all.
  void finish();

 private:
  struct Attributes {
    mode_t mode = 0755;
    std::optional<std::int64_t> mtime_ns;
    std::vector<TarXattr> xattrs;
  };
  struct Level {
    std::string name;
    UniqueFd fd;
    std::optional<Attributes> attributes;  // none: it was there and stays as it is
  };

  Status step(const std::string& name);
  void leave();
  int top() const { return levels_.empty() ? base_.get() : levels_.back().fd.get(); }
  std::string path() const;

  UniqueFd base_;
  Leftovers leftovers_;
  TransferReport& report_;
  mode_t implicit_mode_;
  std::vector<Level> levels_;
  // Those that were left: streams in odd order come back to them.
  std::map<std::pair<dev_t, ino_t>, Attributes> left_;
};

}  // namespace sbx::archive
