// Blob tar: a tar file of named blobs whose lengths are known only once they are written; for the
// outer archive of an exported image.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace sbx::image {

class BlobTar {
 public:
  /// Writes to `fd` from its position on; it can seek, is empty behind that, and stays the
  /// caller's.
  explicit BlobTar(int fd) : fd_(fd) {}

  /// A whole small file. At most 100 bytes of `name`, for all of these.
  Status add(const std::string& name, std::string_view content);
  Status add_directory(const std::string& name);
  /// Makes room for a header; what is written to `fd` next is the content.
  Status begin();
  /// Its name and length are known now.
  Status end(const std::string& name, std::uint64_t size);
  Status finish();

 private:
  Status put_header(const std::string& name, std::uint64_t size, char type, std::uint64_t at) const;

  int fd_;
  std::uint64_t header_at_ = 0;
};

}  // namespace sbx::image
