// Applied notes: which files of a host directory are as an earlier apply left them, so that sbx's
// own writing is not taken for somebody else's change.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::workspace {

/// Plain data; its text form is for a file in the state directory.
class AppliedNotes {
 public:
  /// The longest text that is read.
  static constexpr Bytes kMaxText{std::uint64_t{256} << 20U};

  /// kProtocol for rubbish, kUnsupported for a newer format.
  static Result<AppliedNotes> parse(std::string_view text);
  std::string to_text() const;

  /// Whether the file at `path` is the one that was noted: inode, time of its last change, size.
  bool is_as_left(const std::string& path, const struct stat& st) const;
  void note(const std::string& path, const struct stat& st);
  void forget(const std::string& path) { files_.erase(path); }

 private:
  struct Mark {
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;  // ctime
    std::uint64_t size = 0;
    bool operator==(const Mark&) const = default;
  };
  static Mark mark_of(const struct stat& st);

  std::map<std::string, Mark, std::less<>> files_;
};

}  // namespace sbx::workspace
