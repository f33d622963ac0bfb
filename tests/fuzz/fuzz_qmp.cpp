// Fuzz: lines of QEMU's control socket.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/backend/vm/qmp.h"

using namespace sbx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto message = vm::parse_qmp({reinterpret_cast<const char*>(data), size});
  if (message.ok() && message.value().fields.size() > 256) std::abort();
  return 0;
}
