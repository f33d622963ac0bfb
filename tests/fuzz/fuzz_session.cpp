// Fuzz target: frames of the control socket and the records of sessions. Whatever is read must be
// written and read back as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/session/exec_record.h"
#include "core/session/life.h"
#include "core/session/record.h"
#include "core/session/wire.h"

namespace {

using namespace sbx;
using namespace sbx::session;

void require(bool holds) {
  if (!holds) std::abort();
}

void try_frame(std::string_view input) {
  const auto fields = decode_frame(input);
  if (!fields.ok()) return;
  const std::string once = encode_frame(fields.value());
  const auto again = decode_frame(std::string_view(once).substr(4));
  require(again.ok() && encode_frame(again.value()) == once);
}

void try_record(std::string_view input) {
  const auto record = parse_record(input);
  if (!record.ok()) return;
  const std::string once = to_json(record.value());
  const auto again = parse_record(once);
  require(again.ok() && to_json(again.value()) == once);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try_frame(input);
  try_record(input);
  (void)parse_life(input);
  (void)parse_run_file(input);
  (void)parse_exec_record(input);
  return 0;
}
