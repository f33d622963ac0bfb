// Bridge state: see bridge_state.h.
#include "core/backend/vm/bridge_state.h"

#include <utility>

#include "core/ipc/codec.h"

namespace sbx::vm {

namespace {

constexpr std::uint32_t kMagic = 0x5342'5853;  // "SXBS"
constexpr std::uint16_t kVersion = 1;
/// A live exec takes 13 bytes, a stream more: counts beyond the rest of the bytes are refused.
constexpr std::size_t kLeastItem = 4;

void flags(ipc::Writer& w, std::initializer_list<bool> values) {
  for (const bool value : values) {
    w.u8(value ? 1 : 0);
  }
}

bool flag(ipc::Reader& r) {
  const std::uint8_t value = r.u8();
  if (value > 1) r.fail();
  return value == 1;
}

void write(ipc::Writer& w, const LiveExec& e) {
  w.u32(e.id);
  w.i32(e.pid);
  flags(w, {e.has_terminal, e.is_worker, e.was_signalled, e.has_exited});
}

LiveExec read_exec(ipc::Reader& r) {
  LiveExec e;
  e.id = r.u32();
  e.pid = r.i32();
  e.has_terminal = flag(r);
  e.is_worker = flag(r);
  e.was_signalled = flag(r);
  e.has_exited = flag(r);
  return e;
}

void write(ipc::Writer& w, const LiveStream& s) {
  w.u32(s.number);
  w.u32(s.exec);
  w.u8(s.index);
  w.u8(static_cast<std::uint8_t>(s.flow));
  w.u32(s.credit);
  w.str(s.unsent);
  flags(w, {s.is_source_over, s.is_eof_sent, s.is_reset_received});
  w.u32(s.window);
  w.u32(s.uncredited);
  w.str(s.undelivered);
  flags(w, {s.is_sink_over, s.is_eof_received, s.is_reset_sent});
}

LiveStream read_stream(ipc::Reader& r) {
  LiveStream s;
  s.number = r.u32();
  s.exec = r.u32();
  s.index = r.u8();
  const std::uint8_t flow = r.u8();
  if (flow == 0 || flow > static_cast<std::uint8_t>(ipc::Flow::kBoth)) r.fail();
  s.flow = static_cast<ipc::Flow>(flow);
  s.credit = r.u32();
  s.unsent = r.str();
  s.is_source_over = flag(r);
  s.is_eof_sent = flag(r);
  s.is_reset_received = flag(r);
  s.window = r.u32();
  s.uncredited = r.u32();
  s.undelivered = r.str();
  s.is_sink_over = flag(r);
  s.is_eof_received = flag(r);
  s.is_reset_sent = flag(r);
  if (s.number == 0) r.fail();
  return s;
}

Error malformed() {
  return Error(Errc::kProtocol, "the state of a bridge is malformed");
}

}  // namespace

std::string encode_state(const BridgeState& state) {
  ipc::Writer w;
  w.u32(kMagic);
  w.u16(kVersion);
  w.u32(state.last_own);
  w.u32(state.last_peer);
  w.u32(static_cast<std::uint32_t>(state.execs.size()));
  for (const LiveExec& exec : state.execs) {
    write(w, exec);
  }
  w.u32(static_cast<std::uint32_t>(state.streams.size()));
  for (const LiveStream& stream : state.streams) {
    write(w, stream);
  }
  w.u32(static_cast<std::uint32_t>(state.held.size()));
  for (const ipc::Message& message : state.held) {
    w.str(ipc::pack_parcel(message, {}));
  }
  return w.take();
}

Result<BridgeState> decode_state(std::string_view bytes) {
  ipc::Reader r(bytes);
  if (r.u32() != kMagic || r.u16() != kVersion) return malformed();
  BridgeState state;
  state.last_own = r.u32();
  state.last_peer = r.u32();
  const auto count = [&]() -> std::uint32_t {
    const std::uint32_t items = r.u32();
    if (items > bytes.size() / kLeastItem) r.fail();
    return r.ok() ? items : 0;
  };
  for (std::uint32_t left = count(); left > 0 && r.ok(); --left) {
    state.execs.push_back(read_exec(r));
  }
  for (std::uint32_t left = count(); left > 0 && r.ok(); --left) {
    state.streams.push_back(read_stream(r));
  }
  for (std::uint32_t left = count(); left > 0 && r.ok(); --left) {
    const std::string packed = r.str();
    if (!r.ok()) break;
    SBX_ASSIGN(ipc::Parcel parcel, ipc::unpack_parcel(packed, ipc::Side::kAgent));
    if (!parcel.ports.empty()) return malformed();
    state.held.push_back(std::move(parcel.message));
  }
  if (!r.done()) return malformed();
  return state;
}

}  // namespace sbx::vm
