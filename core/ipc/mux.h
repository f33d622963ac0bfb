// Mux: frames that carry messages and the streams behind their descriptors over one byte stream.
//
// Pure: bytes to frames and back, bounded and fuzzed; who may say what when is the bridge's. A
// frame is a 9-byte header (u32 length of the payload, u8 kind, u32 stream) and the payload, all
// little-endian. The two ends of a wire are the host (even stream numbers) and the guest (odd
// ones); a number is used once.
//
// A stream has a half for each direction in which bytes flow. The writer of a half sends DATA, as
// far as the reader's CREDIT goes (kWindow at first), and then EOF, always and once. The reader
// sends RESET, always and once: after everything up to EOF was delivered, or as soon as nobody
// reads any more; then the writer answers with EOF. A half is over with both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ipc/channel.h"
#include "core/ipc/codec.h"
#include "core/ipc/message.h"

namespace sbx::ipc {

inline constexpr uint16_t kMuxVersion = 1;
inline constexpr size_t kFrameHeaderSize = 9;
/// Longest payload: what a stream waits at most for another's.
inline constexpr size_t kMaxPayload = size_t{64} << 10;
inline constexpr size_t kMaxFrame = kFrameHeaderSize + kMaxPayload;
/// What the writer of a half may send before the reader's first CREDIT.
inline constexpr uint32_t kWindow = 256U << 10;
/// Longest opaque header of an OPEN.
inline constexpr size_t kMaxOpenHeader = 4096;

enum class FrameKind : uint8_t {
  kHello = 1,  ///< first frame of each side on a wire
  kMessage,    ///< a piece of a packed message: u8 (1: the last) and bytes; stream 0
  kData,       ///< bytes of a stream
  kCredit,     ///< u32: so many more bytes may come
  kEof,        ///< the writer closed
  kReset,      ///< the reader closed
  kOpen,       ///< a new stream, both ways, with a header that says what for
  kAccept,     ///< an OPEN is granted
  kRefuse,     ///< it is not: u32 errno; the stream never was
  kEnding,     ///< this side's local end has closed; stream 0
  kEnd,        ///< nothing more will come; stream 0
};

struct FrameHeader {
  uint32_t length = 0;
  FrameKind kind = FrameKind::kHello;
  uint32_t stream = 0;
};

/// A frame as it lies in the bytes that it was cut out of.
struct Frame {
  FrameKind kind = FrameKind::kHello;
  uint32_t stream = 0;
  std::string_view payload;
};

/// The header's bytes.
std::array<char, kFrameHeaderSize> encode_frame_header(const FrameHeader& header);
/// kProtocol for an unknown kind, a length that the kind does not have, or a stream number where
/// there must be none (or the other way round).
Result<FrameHeader> decode_frame_header(std::string_view bytes);
/// A whole frame.
std::string encode_mux_frame(FrameKind kind, uint32_t stream, std::string_view payload = {});
/// Takes the first frame off `bytes`; nullopt when it is not whole yet.
Result<std::optional<Frame>> take_frame(std::string_view& bytes);

/// The payload of HELLO.
struct Hello {
  uint16_t version = kMuxVersion;
  Side side = Side::kHost;
  uint32_t epoch = 0;  ///< which life of the wire; both sides must mean the same
};
std::string encode_hello(const Hello& hello);
Result<Hello> decode_hello(std::string_view payload);

std::string encode_u32(uint32_t value);
/// `payload` has four bytes.
uint32_t decode_u32(std::string_view payload);

/// Where the bytes of a descriptor flow.
enum class Flow : uint8_t {
  kNull,     ///< nowhere: the other side opens /dev/null (stream 0)
  kToGuest,  ///
  kToHost,
  kBoth,
};

/// One descriptor of a message.
struct Port {
  uint32_t stream = 0;
  Flow flow = Flow::kNull;
  bool operator==(const Port&) const = default;
};

/// A message with what became of its descriptors.
struct Parcel {
  Message message;
  std::vector<Port> ports;
};

/// Longest packed message from that side.
size_t max_parcel(Side from);
std::string pack_parcel(const Message& message, std::span<const Port> ports);
/// kProtocol when it is no message, when that side may not send it, or when its descriptors are not
/// those that it has.
Result<Parcel> unpack_parcel(std::string_view bytes, Side from);

/// Whether that side may send such a message to the other over a wire.
bool may_send(Side from, const Message& message);
/// The flows of the descriptors that a message has; nullopt when it cannot have so many.
std::optional<std::vector<Flow>> flows_of(const Message& message, size_t fds);

/// Puts the pieces of one message together.
class ParcelReader {
 public:
  explicit ParcelReader(Side from) : from_(from) {}
  /// The payload of a MESSAGE frame: the parcel when it was the last piece.
  Result<std::optional<Parcel>> take(std::string_view piece);
  size_t buffered() const { return bytes_.size(); }

 private:
  Side from_;
  std::string bytes_;
};

}  // namespace sbx::ipc
