// Fuzz: agent messages as the host decodes them, and the plan that PID 1 decodes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/backend/jail/jail_codec.h"
#include "core/ipc/codec.h"

using namespace sbx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header = ipc::decode_header(bytes, ipc::kMaxBodyFromAgent);
  if (header.ok()) {
    const std::string_view body = bytes.substr(ipc::kHeaderSize);
    const auto message = ipc::decode_body(header.value().type, body);
    // What decodes must encode to the same bytes, but for booleans, which have one true.
    if (message.ok() && ipc::encode_body(message.value()).size() != body.size()) std::abort();
  }
  const auto plan = jail::decode_init_plan(bytes);
  if (plan.ok() &&
      jail::encode_init_plan(plan.value(), plan.value().steps).size() != bytes.size()) {
    std::abort();
  }
  return 0;
}
