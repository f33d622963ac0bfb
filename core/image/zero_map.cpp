// Zero map: see zero_map.h.
#include "core/image/zero_map.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/archive/tar_entry.h"
#include "core/base/sys.h"

namespace sbx::image {

namespace {

bool is_zeros(const char* data, std::size_t size) {
  return size == 0 || (data[0] == 0 && std::memcmp(data, data + 1, size - 1) == 0);
}

/// Where the stretch with the next data at or behind `at` begins; `size` when there is none.
std::uint64_t skip_hole(int fd, std::uint64_t at, std::uint64_t size) {
  const off64_t data = ::lseek64(fd, static_cast<off64_t>(at), SEEK_DATA);
  if (data == -1) return errno == ENXIO ? size : at;
  const std::uint64_t start = static_cast<std::uint64_t>(data) / kZeroStretch * kZeroStretch;
  return std::max(at, std::min(start, size));
}

/// Reads up to buffer's size; the rest of a file that got shorter is zeros.
Status read_at(int fd, std::uint64_t at, std::vector<char>& buffer, std::size_t want) {
  std::size_t done = 0;
  while (done < want) {
    const ssize_t n =
        ::pread64(fd, buffer.data() + done, want - done, static_cast<off64_t>(at + done));
    if (n == -1 && errno == EINTR) continue;
    if (n == -1) return sys_error("read content");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  std::fill(buffer.begin() + static_cast<std::ptrdiff_t>(done), buffer.end(), '\0');
  return {};
}

void add(std::vector<archive::Extent>& data, std::uint64_t at, std::uint64_t length) {
  if (!data.empty() && data.back().offset + data.back().length == at) {
    data.back().length += length;
  } else {
    data.push_back({at, length});
  }
}

}  // namespace

Result<std::vector<archive::Extent>> nonzero_extents(int fd, std::uint64_t size) {
  std::vector<archive::Extent> data;
  if (size < kSparseFrom) {
    if (size > 0) data.push_back({0, size});
    return data;
  }
  std::vector<char> buffer(kZeroStretch * 16);
  for (std::uint64_t at = skip_hole(fd, 0, size); at < size;) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size - at));
    SBX_TRY(read_at(fd, at, buffer, want));
    for (std::size_t i = 0; i < want; i += kZeroStretch) {
      const std::size_t length = std::min<std::size_t>(kZeroStretch, want - i);
      if (!is_zeros(buffer.data() + i, length)) add(data, at + i, length);
    }
    at = skip_hole(fd, at + want, size);
  }
  archive::limit_extents(data);
  return data;
}

}  // namespace sbx::image
