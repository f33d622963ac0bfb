// replay: gives every file below the named directories, and the empty input, to a fuzz target.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void give(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  give("");
  for (int i = 1; i < argc; ++i) {
    std::error_code none;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i], none)) {
      if (entry.is_regular_file()) {
        std::ostringstream all;
        all << std::ifstream(entry.path(), std::ios::binary).rdbuf();
        give(all.str());
        ++count;
      }
    }
  }
  std::printf("%d inputs replayed\n", count);
  return 0;
}
