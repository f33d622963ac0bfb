// Fuzz target: the class of a Java source. Whatever comes out must be words of the source.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/run/java_class.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto found = sbx::run::java_class_of(source);
  if (!found.has_value()) return 0;
  require(!found->file.empty() && !found->main.empty());
  require(found->qualified().ends_with(found->main));
  for (const std::string& name : {found->file, found->main}) {
    require(source.find(name) != std::string_view::npos);
    require(name.find_first_of("/. \n\t\"'(){}[];") == std::string::npos);
  }
  require(found->package.size() <= size);
  return 0;
}
