// Fuzz target: escaping and UTF-8. What escape gives must be valid, free of controls and stable.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/text.h"

namespace {

using namespace sbx;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string shown = text::escape(input);
  require(text::is_utf8(shown));
  for (const char c : shown) {
    require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  require(text::escape(shown) == shown);

  const std::size_t valid = text::utf8_valid_prefix(input);
  require(valid <= input.size());
  require(text::is_utf8(input.substr(0, valid)));
  require(text::is_utf8(input) == (valid == input.size()));

  std::size_t joined = 0;
  const std::vector<std::string_view> fields = text::split(input, ',');
  for (const std::string_view field : fields) {
    joined += field.size() + 1;
  }
  require(joined == input.size() + 1);
  require(text::base64(input).size() == (input.size() + 2) / 3 * 4);
  require(text::trim(input).size() <= input.size());
  static_cast<void>(text::closest(input.substr(0, 300), fields));
  return 0;
}
