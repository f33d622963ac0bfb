// Fuzz target: records of images, and what skopeo prints. Whatever is read of the former must be
// written and read back as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/image/budget.h"
#include "core/image/pull.h"
#include "core/image/record.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sbx::image;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  (void)check_name(input);
  (void)skopeo_message(input);
  (void)skopeo_source(input);
  (void)inspected_size(input);
  (void)parse_budget(input);
  const auto record = parse_record(input);
  if (!record.ok()) return 0;
  const std::string once = to_json(record.value());
  const auto again = parse_record(once);
  require(again.ok() && to_json(again.value()) == once);
  require(identity(again.value()) == identity(record.value()));
  return 0;
}
