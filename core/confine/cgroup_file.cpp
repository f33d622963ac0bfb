// Cgroup file: see cgroup_file.h.
#include "core/confine/cgroup_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "core/confine/host_text.h"

namespace sbx::confine::cgroup_file {

Status write(int dir, const std::string& group, const char* file, std::string_view value) {
  auto fd = sys::openat(dir, file, O_WRONLY | O_NOFOLLOW);
  if (!fd.ok()) return std::move(fd).error().prefixed(group);
  const ssize_t done = ::write(fd.value().get(), value.data(), value.size());
  if (done == static_cast<ssize_t>(value.size())) return {};
  const int err = done < 0 ? errno : EIO;
  return sys_error(text::cat("write ", value, " to ", group, "/", file), err);
}

Result<std::string> read(int dir, const std::string& group, const char* file) {
  auto content = fs::read_file_at(dir, file, Bytes{16U << 20U});
  if (!content.ok()) return std::move(content).error().prefixed(group);
  return std::string(text::trim(content.value()));
}

bool exists(int dir, const char* file) {
  return ::faccessat(dir, file, F_OK, 0) == 0;
}

Result<std::uint64_t> counter(int dir,
                              const std::string& group,
                              const char* file,
                              std::string_view key) {
  SBX_ASSIGN(const std::string content, read(dir, group, file));
  if (const auto value = find_counter(content, key)) return *value;
  return Error(Errc::kProtocol, text::cat("read ", group, "/", file, ": no line \"", key, "\""));
}

}  // namespace sbx::confine::cgroup_file
