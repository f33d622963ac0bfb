// Mux: see mux.h.
#include "core/ipc/mux.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"

namespace sbx::ipc {

namespace {

constexpr uint32_t kHelloMagic = 0x5842'5853;  // "SXBX"
constexpr size_t kHelloSize = 11;
constexpr size_t kPortSize = 5;
constexpr uint8_t kLastPiece = 1;

/// What a kind's frames look like; one row each, by number.
struct KindRow {
  FrameKind kind;
  size_t least;
  size_t most;
  bool has_stream;
};

constexpr std::array kKinds{
    KindRow{FrameKind::kHello, kHelloSize, kHelloSize, false},
    KindRow{FrameKind::kMessage, 1, kMaxPayload, false},
    KindRow{FrameKind::kData, 1, kMaxPayload, true},
    KindRow{FrameKind::kCredit, 4, 4, true},
    KindRow{FrameKind::kEof, 0, 0, true},
    KindRow{FrameKind::kReset, 0, 0, true},
    KindRow{FrameKind::kOpen, 0, kMaxOpenHeader, true},
    KindRow{FrameKind::kAccept, 0, 0, true},
    KindRow{FrameKind::kRefuse, 4, 4, true},
    KindRow{FrameKind::kEnding, 0, 0, false},
    KindRow{FrameKind::kEnd, 0, 0, false},
};

const KindRow* row_of(uint8_t kind) {
  const auto* row = std::ranges::find_if(
      kKinds, [kind](const KindRow& r) { return static_cast<uint8_t>(r.kind) == kind; });
  return row == kKinds.end() ? nullptr : row;
}

Error malformed(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("wire of the guest: ", what));
}

bool is_exec_or_files(const Message& message) {
  return std::holds_alternative<Exec>(message) || std::holds_alternative<Files>(message);
}

}  // namespace

std::array<char, kFrameHeaderSize> encode_frame_header(const FrameHeader& header) {
  std::array<char, kFrameHeaderSize> out{};
  const auto put = [&out](size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) {
      out[at + i] = static_cast<char>(value >> (8 * i));
    }
  };
  put(0, header.length);
  out[4] = static_cast<char>(header.kind);
  put(5, header.stream);
  return out;
}

Result<FrameHeader> decode_frame_header(std::string_view bytes) {
  if (bytes.size() < kFrameHeaderSize) return malformed("a frame header is cut short");
  FrameHeader header;
  header.length = decode_u32(bytes);
  const KindRow* row = row_of(static_cast<uint8_t>(bytes[4]));
  header.stream = decode_u32(bytes.substr(5));
  if (row == nullptr) return malformed("a frame of an unknown kind");
  header.kind = row->kind;
  if (header.length < row->least || header.length > row->most) {
    return malformed("a frame is shorter or longer than its kind");
  }
  if ((header.stream != 0) != row->has_stream) return malformed("a frame of the wrong stream");
  return header;
}

std::string encode_mux_frame(FrameKind kind, uint32_t stream, std::string_view payload) {
  const auto header = encode_frame_header({static_cast<uint32_t>(payload.size()), kind, stream});
  std::string out(header.data(), header.size());
  out.append(payload);
  return out;
}

Result<std::optional<Frame>> take_frame(std::string_view& bytes) {
  if (bytes.size() < kFrameHeaderSize) return std::optional<Frame>();
  SBX_ASSIGN(const FrameHeader header, decode_frame_header(bytes));
  if (bytes.size() - kFrameHeaderSize < header.length) return std::optional<Frame>();
  const Frame frame{header.kind, header.stream, bytes.substr(kFrameHeaderSize, header.length)};
  bytes.remove_prefix(kFrameHeaderSize + header.length);
  return std::optional(frame);
}

std::string encode_hello(const Hello& hello) {
  Writer writer;
  writer.u32(kHelloMagic);
  writer.u16(hello.version);
  writer.u8(hello.side == Side::kHost ? 0 : 1);
  writer.u32(hello.epoch);
  return writer.take();
}

Result<Hello> decode_hello(std::string_view payload) {
  Reader reader(payload);
  const uint32_t magic = reader.u32();
  Hello hello;
  hello.version = reader.u16();
  const uint8_t side = reader.u8();
  hello.epoch = reader.u32();
  if (!reader.done() || magic != kHelloMagic || side > 1) return malformed("no greeting");
  hello.side = side == 0 ? Side::kHost : Side::kAgent;
  return hello;
}

std::string encode_u32(uint32_t value) {
  Writer writer;
  writer.u32(value);
  return writer.take();
}

uint32_t decode_u32(std::string_view payload) {
  return Reader(payload).u32();
}

bool may_send(Side from, const Message& message) {
  if (from == Side::kHost) {
    return is_exec_or_files(message) || std::holds_alternative<Signal>(message) ||
           std::holds_alternative<Resize>(message) || std::holds_alternative<SetFrozen>(message);
  }
  return std::holds_alternative<Ready>(message) || std::holds_alternative<SetupFailed>(message) ||
         std::holds_alternative<Started>(message) || std::holds_alternative<ExecFailed>(message) ||
         std::holds_alternative<Exited>(message) || std::holds_alternative<FrozenSet>(message);
}

std::optional<std::vector<Flow>> flows_of(const Message& message, size_t fds) {
  std::vector<Flow> flows;
  if (const auto* exec = std::get_if<Exec>(&message)) {
    if (!exec->tty) flows = {Flow::kToGuest, Flow::kToHost, Flow::kToHost};
  } else if (const auto* files = std::get_if<Files>(&message)) {
    const bool is_writing = files->op == FilesOp::kPack || files->op == FilesOp::kList;
    flows = {is_writing ? Flow::kToHost : Flow::kToGuest, Flow::kToHost};
    if (files->op == FilesOp::kPack && files->is_resuming) flows.push_back(Flow::kToGuest);
  } else if (std::holds_alternative<Started>(message) && fds != 0) {
    flows = {Flow::kBoth};
  }
  if (flows.size() != fds) return std::nullopt;
  return flows;
}

size_t max_parcel(Side from) {
  const size_t body = from == Side::kHost ? kMaxBodyToAgent : kMaxBodyFromAgent;
  return body + 3 + kMaxFds * kPortSize;
}

std::string pack_parcel(const Message& message, std::span<const Port> ports) {
  const std::string body = encode_body(message);
  Writer writer;
  writer.reserve(body.size() + 3 + ports.size() * kPortSize);
  writer.u16(static_cast<uint16_t>(message.index()));
  writer.u8(static_cast<uint8_t>(ports.size()));
  for (const Port& port : ports) {
    writer.u32(port.stream);
    writer.u8(static_cast<uint8_t>(port.flow));
  }
  return writer.take() + body;
}

Result<Parcel> unpack_parcel(std::string_view bytes, Side from) {
  Reader reader(bytes);
  const uint16_t type = reader.u16();
  const size_t count = reader.u8();
  Parcel parcel;
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    Port port;
    port.stream = reader.u32();
    const uint8_t flow = reader.u8();
    if (flow > static_cast<uint8_t>(Flow::kBoth)) reader.fail();
    port.flow = static_cast<Flow>(flow);
    parcel.ports.push_back(port);
  }
  if (!reader.ok()) return malformed("a message is cut short");
  SBX_ASSIGN(parcel.message, decode_body(type, bytes.substr(3 + count * kPortSize)));
  if (!may_send(from, parcel.message)) return malformed("a message that this side does not send");
  const auto flows = flows_of(parcel.message, count);
  if (!flows.has_value()) return malformed("a message without its descriptors");
  for (size_t i = 0; i < count; ++i) {
    const Port& port = parcel.ports[i];
    const bool is_null = port.flow == Flow::kNull;
    const bool may_be_null = (*flows)[i] == Flow::kToGuest;
    if (is_null ? !may_be_null : port.flow != (*flows)[i]) {
      return malformed("a descriptor of the wrong direction");
    }
    if (is_null != (port.stream == 0)) return malformed("a descriptor of the wrong stream");
  }
  return parcel;
}

Result<std::optional<Parcel>> ParcelReader::take(std::string_view piece) {
  const auto last = static_cast<uint8_t>(piece.front());
  piece.remove_prefix(1);
  if (last > kLastPiece) return malformed("a piece of a message of an unknown form");
  if (piece.size() > max_parcel(from_) - bytes_.size()) {
    return malformed("a message is longer than allowed");
  }
  bytes_.append(piece);
  if (last != kLastPiece) return std::optional<Parcel>();
  const std::string whole = std::exchange(bytes_, {});
  SBX_ASSIGN(Parcel parcel, unpack_parcel(whole, from_));
  return std::optional(std::move(parcel));
}

}  // namespace sbx::ipc
