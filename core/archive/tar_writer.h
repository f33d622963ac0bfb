// Tar writer: a tar stream (pax form) into a descriptor: names of any bytes, ns times, holes in GNU
// tar's 1.0 form, extended attributes as star and GNU tar write them.
//
// Every common tar reads it. libarchive is not used here: its names go through the locale, which
// in sbx is always "C" and would make every byte above 127 a question mark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/archive/tar_entry.h"
#include "core/base/result.h"

namespace sbx::archive {

class TarWriter {
 public:
  /// Writes to `fd`, which stays the caller's and is blocking. Every call may block.
  explicit TarWriter(int fd);
  /// Gives the stream to `sink`, piece by piece.
  using Sink = std::function<Status(std::string_view)>;
  explicit TarWriter(Sink sink);

  /// Says how many bytes of content will come, for the reader's progress. First or never.
  Status add_total(std::uint64_t bytes);
  /// One member. `read` gives its stored bytes in order (stored_size() of them; kProtocol when it
  /// gives fewer).
  Status add(const TarEntry& entry, const ReadContent& read = {});
  /// The end of the archive; without it a reader knows that the stream was cut.
  Status finish();

  /// Bytes of content written so far.
  std::uint64_t content_bytes() const { return content_; }

 private:
  Status put(std::string_view bytes);
  Status pad(std::uint64_t size);
  Status flush();
  Status add_pax(char type, const std::string& body);
  Status put_header(const TarEntry& entry, std::string_view name, std::uint64_t stored);
  Status copy(std::uint64_t size, const std::string& path, const ReadContent& read);

  Sink sink_;
  std::vector<char> buffer_;
  std::size_t used_ = 0;
  std::uint64_t content_ = 0;
};

}  // namespace sbx::archive
