// Tool: see tool.h.
#include "core/image/tool.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "core/base/text.h"

namespace sbx::image {

std::optional<std::string> find_tool(std::string_view name) {
  constexpr std::string_view kUsual =
      "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  const char* const own = std::getenv("PATH");
  const std::string all = own == nullptr ? std::string(kUsual) : text::cat(own, ":", kUsual);
  for (const std::string_view dir : text::split(all, ':')) {
    if (!dir.starts_with('/')) continue;
    std::string path = text::cat(dir, "/", name);
    struct stat st {};
    const bool is_program =
        ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && ::access(path.c_str(), X_OK) == 0;
    if (is_program) return path;
  }
  return std::nullopt;
}

}  // namespace sbx::image
