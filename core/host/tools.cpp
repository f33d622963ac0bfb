// Tools: see tools.h.
#include "core/host/tools.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::host {

namespace {

struct Found {
  std::string path;  // as PATH names it
  std::string real;
};

std::optional<Found> find(std::string_view command,
                          std::string_view path,
                          const ExecutableLookup& lookup) {
  for (const std::string_view dir : text::split(path, ':')) {
    if (!dir.starts_with('/')) continue;
    std::string candidate = text::cat(dir, dir.ends_with('/') ? "" : "/", command);
    if (auto real = lookup(candidate)) return Found{std::move(candidate), std::move(*real)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> executable_at(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (!real) return std::nullopt;
  std::string found(real.get());
  const Result<struct stat> info = sys::fstatat(AT_FDCWD, found, AT_SYMLINK_NOFOLLOW);
  if (!info.ok() || !S_ISREG(info.value().st_mode)) return std::nullopt;
  if (::faccessat(AT_FDCWD, found.c_str(), X_OK, AT_EACCESS) != 0) return std::nullopt;
  return found;
}

std::vector<ToolDifference> differing_tools(std::span<const std::string_view> commands,
                                            std::string_view own_path,
                                            std::string_view inside_path,
                                            const ExecutableLookup& lookup) {
  std::vector<ToolDifference> differences;
  for (const std::string_view command : commands) {
    const std::optional<Found> own = find(command, own_path, lookup);
    if (!own) continue;
    const std::optional<Found> inside = find(command, inside_path, lookup);
    if (inside && inside->real == own->real) continue;
    differences.push_back({std::string(command), own->path, inside ? inside->path : std::string()});
  }
  return differences;
}

}  // namespace sbx::host
