// Arguments: see arguments.h.
#include "core/base/arguments.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace sbx {

namespace {

char* g_begin = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): one argv
std::size_t g_size = 0;   // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): the same

}  // namespace

void remember_arguments(int argc, char* const* argv) {
  if (argc < 1) return;
  g_begin = argv[0];
  // The kernel lays the strings out one behind the other (execve(2), fs/exec.c).
  const char* const last = argv[argc - 1];
  if (last < g_begin) return;
  g_size = static_cast<std::size_t>(last - g_begin) + std::strlen(last) + 1;
}

void hide_arguments(const char* name) {
  if (g_begin == nullptr || g_size == 0) return;
  std::memset(g_begin, 0, g_size);
  std::copy_n(name, std::min(std::strlen(name), g_size - 1), g_begin);
}

}  // namespace sbx
