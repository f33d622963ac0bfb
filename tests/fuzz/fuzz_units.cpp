// Fuzz target: sizes, durations and counts. What is accepted must be written and read back as the
// same value; what is refused must say so in one printable line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/text.h"
#include "core/base/units.h"

namespace {

using namespace sbx;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_refusal(const Error& error) {
  require(error.code() == Errc::kUsage);
  require(error.message().size() < 1024);
  require(text::escape(error.message()) == error.message());
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const Result<Bytes> bytes = parse_bytes(input); bytes.ok()) {
    require(parse_bytes(to_string(bytes.value())).value() == bytes.value());
  } else {
    check_refusal(bytes.error());
  }
  if (const Result<Millis> millis = parse_duration(input); millis.ok()) {
    require(millis.value().v >= 0);
    require(parse_duration(to_string(millis.value())).value() == millis.value());
  } else {
    check_refusal(millis.error());
  }
  if (const Result<std::uint64_t> count = parse_count(input); count.ok()) {
    require(std::to_string(count.value()) == input);
  } else {
    check_refusal(count.error());
  }
  return 0;
}
