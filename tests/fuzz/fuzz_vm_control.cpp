// Fuzz target: what a guest answers on its control port, and what its init reads there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/backend/vm/control.h"

namespace {

using namespace sbx;
using namespace sbx::vm;

void require(bool holds) {
  if (!holds) std::abort();
}

/// What was read is written and read back as the same.
template <typename Read>
void try_back(const ipc::Fields& fields, Read read) {
  const auto once = read(fields);
  if (!once.ok()) return;
  const auto again = read(control::encode(once.value()));
  require(again.ok() && again.value() == once.value());
}

template <typename Read>
void try_text(const ipc::Fields& fields, Read read) {
  const auto once = read(fields);
  if (!once.ok()) return;
  const std::string frame = ipc::encode_frame(control::encode(once.value()));
  const auto again = read(control::encode(once.value()));
  require(again.ok() && ipc::encode_frame(control::encode(again.value())) == frame);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto decoded =
      ipc::decode_frame(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!decoded.ok()) return 0;
  const ipc::Fields& fields = decoded.value();
  (void)ipc::error_of(fields);
  (void)control::decode_value(fields);
  (void)control::decode_flag(fields);
  try_back(fields, control::decode_hello);
  try_back(fields, control::decode_disk);
  try_back(fields, control::decode_wake);
  try_back(fields, control::decode_root);
  try_back(fields, control::decode_launch);
  try_text(fields, control::decode_launched);
  try_text(fields, control::decode_usage);
  try_text(fields, control::decode_processes);
  try_text(fields, control::decode_final);
  return 0;
}
