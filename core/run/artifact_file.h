// Artifact file: reads one regular file of a hostile tree, knowing where its holes are.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/archive/archive.h"
#include "core/base/result.h"
#include "core/base/sha256.h"
#include "core/base/unique_fd.h"

namespace sbx::run {

/// Opens `path` below `dirfd` without following any link, leaving the directory or entering
/// another mount. What the owner made unreadable for itself is made readable: the tree is ours and
/// is thrown away. kUsage when it is not a `type` (S_IFREG or S_IFDIR) now.
Result<UniqueFd> open_artifact(int dirfd, const std::string& path, mode_t type);

class ArtifactFile {
 public:
  static Result<ArtifactFile> open(int dirfd, const std::string& path);

  std::uint64_t size() const { return size_; }
  /// Where its data is, sorted; one empty extent at the end when it is all hole. Empty when there
  /// is no hole.
  const std::vector<archive::Extent>& extents() const { return extents_; }

  struct Piece {
    std::size_t size = 0;  ///< 0: the end
    bool is_hole = false;  ///< the buffer holds zeros then
  };
  /// The next bytes in order. kProtocol when the file is shorter than it said.
  Result<Piece> next(std::span<std::byte> buffer);

  /// The digest and media type of what next() has given so far; for use at the end.
  std::string sha256() { return hash_.hex(); }
  std::string mime(const std::string& path) const;

 private:
  ArtifactFile(UniqueFd fd, std::uint64_t size) : fd_(std::move(fd)), size_(size) {}
  void find_extents();

  UniqueFd fd_;
  std::uint64_t size_;
  std::uint64_t at_ = 0;
  std::size_t extent_ = 0;  // the first that does not end before at_
  std::vector<archive::Extent> extents_;
  Sha256 hash_;
  std::string head_;
};

}  // namespace sbx::run
