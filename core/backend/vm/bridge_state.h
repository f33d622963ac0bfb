// Bridge state: what a host's bridge at rest leaves to the next one; plain data, and its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ipc/message.h"
#include "core/ipc/mux.h"

namespace sbx::vm {

/// A stream that is not over, as the host has it.
struct LiveStream {
  std::uint32_t number = 0;
  std::uint32_t exec = 0;  ///< id of the message that it came with
  std::uint8_t index = 0;  ///< which of that message's descriptors
  ipc::Flow flow = ipc::Flow::kBoth;
  // Towards the guest.
  std::uint32_t credit = 0;  ///< bytes that may be sent
  std::string unsent;        ///< came out of the local descriptor, which is gone
  bool is_source_over = false;
  bool is_eof_sent = false;
  bool is_reset_received = false;
  // Towards the host.
  std::uint32_t window = 0;      ///< bytes that may still come
  std::uint32_t uncredited = 0;  ///< delivered, but not said to be
  std::string undelivered;
  bool is_sink_over = false;
  bool is_eof_received = false;
  bool is_reset_sent = false;
};

/// An exec, or the worker of a copy, that has not exited or whose streams are not over.
struct LiveExec {
  std::uint32_t id = 0;
  std::int32_t pid = 0;
  bool has_terminal = false;
  bool is_worker = false;
  bool was_signalled = false;
  bool has_exited = false;
};

struct BridgeState {
  std::uint32_t last_own = 0;   ///< newest stream number of the host's
  std::uint32_t last_peer = 0;  ///< and of the guest's
  std::vector<LiveExec> execs;
  std::vector<LiveStream> streams;
  /// Messages that came and were held back.
  std::vector<ipc::Message> held;
};

std::string encode_state(const BridgeState& state);
/// kProtocol for anything that is no state. Pure, fuzzed.
Result<BridgeState> decode_state(std::string_view bytes);

}  // namespace sbx::vm
