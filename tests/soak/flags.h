// Flags of the storms: "--name NUMBER" pairs.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

namespace sbx::test {

struct NumberFlag {
  std::string_view name;  ///< "--runs"
  int* value;
};

/// Reads the pairs of a command line; false, with `usage` on stderr, when one is unknown or no
/// number.
inline bool read_flags(int argc,
                       char** argv,
                       std::initializer_list<NumberFlag> flags,
                       const char* usage) {
  for (int i = 1; i < argc; i += 2) {
    int* value = nullptr;
    for (const NumberFlag& flag : flags) {
      if (flag.name == argv[i]) value = flag.value;
    }
    char* end = nullptr;
    const long number = i + 1 < argc ? std::strtol(argv[i + 1], &end, 10) : 0;
    if (value == nullptr || end == nullptr || end == argv[i + 1] || *end != '\0') {
      std::fprintf(stderr, "usage: %s\n", usage);
      return false;
    }
    *value = static_cast<int>(number);
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return true;
}

}  // namespace sbx::test
