// Fuzz: the wire between a guest and its host as either side cuts it up, and the state that a
// host's bridge leaves to the next.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/backend/vm/bridge_state.h"
#include "core/ipc/mux.h"

using namespace sbx;

namespace {

void read_wire(std::string_view bytes, ipc::Side from) {
  ipc::ParcelReader parcels(from);
  while (true) {
    const size_t before = bytes.size();
    const auto frame = ipc::take_frame(bytes);
    if (!frame.ok() || !frame.value().has_value()) return;
    if (before - bytes.size() != frame.value()->payload.size() + ipc::kFrameHeaderSize)
      std::abort();
    if (frame.value()->payload.size() > ipc::kMaxPayload) std::abort();
    if (frame.value()->kind == ipc::FrameKind::kHello) {
      (void)ipc::decode_hello(frame.value()->payload).ok();
    }
    if (frame.value()->kind != ipc::FrameKind::kMessage) continue;
    const auto parcel = parcels.take(frame.value()->payload);
    if (!parcel.ok()) return;
    if (parcels.buffered() > ipc::max_parcel(from)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_wire(bytes, ipc::Side::kAgent);
  read_wire(bytes, ipc::Side::kHost);
  const auto state = vm::decode_state(bytes);
  if (state.ok() && vm::encode_state(state.value()).size() != bytes.size()) std::abort();
  return 0;
}
