// Dir names: see dir_names.h.
#include "core/backend/vm/dir_names.h"

#include <dirent.h>
#include <fcntl.h>

#include <string_view>

#include "core/base/sys.h"

namespace sbx::vm {

std::vector<std::string> dir_names(int dir) {
  std::vector<std::string> names;
  auto copy = sys::openat(dir, ".", O_RDONLY | O_DIRECTORY);
  if (!copy.ok()) return names;
  DIR* const list = ::fdopendir(copy.value().get());
  if (list == nullptr) return names;
  (void)copy.value().release();
  while (const dirent* entry = ::readdir(list)) {  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string_view name(static_cast<const char*>(entry->d_name));
    if (name != "." && name != "..") names.emplace_back(name);
  }
  (void)::closedir(list);
  return names;
}

}  // namespace sbx::vm
