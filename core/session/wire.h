// Wire: what a command and a session's supervisor say to each other over the control socket.
//
// A frame is a 4-byte length (little-endian) and a CBOR map (RFC 8949) of texts, numbers, flags and
// lists of texts; texts are byte strings of any bytes. Descriptors travel with the first byte
// (SCM_RIGHTS, unix(7)). Each request says `protocol`; a supervisor that does not speak it answers
// with an error and its own number. Both ends are processes of one user, outside of the sandbox.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::session {

inline constexpr int kControlProtocol = 1;
/// Longest frame: an argv of the kernel's most (6 MiB) fits.
inline constexpr std::size_t kLongestFrame = std::size_t{16} << 20;
inline constexpr std::size_t kMostFrameFds = 8;

/// The fields of one frame by name. What is missing or of another type reads as the fallback.
class Fields {
 public:
  using List = std::vector<std::string>;
  using Value = std::variant<std::string, std::int64_t, bool, List>;

  Fields() = default;
  /// A request or an answer of this kind.
  explicit Fields(std::string_view op) { set("op", std::string(op)); }

  Fields& set(std::string_view key, Value value);
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::string op() const { return text("op"); }
  std::string text(std::string_view key) const;
  std::int64_t number(std::string_view key, std::int64_t fallback = 0) const;
  bool flag(std::string_view key) const;
  List list(std::string_view key) const;
  const std::map<std::string, Value, std::less<>>& all() const { return values_; }

 private:
  const Value* find(std::string_view key) const;
  std::map<std::string, Value, std::less<>> values_;
};

/// An answer that says `error`.
Fields error_fields(const Error& error);
/// The error that an answer says; nullopt when it says none.
std::optional<Error> error_of(const Fields& fields);

/// The whole frame.
std::string encode_frame(const Fields& fields);
/// The map of a frame, without its length. kProtocol for anything else.
Result<Fields> decode_frame(std::string_view body);

struct Frame {
  Fields fields;
  std::vector<UniqueFd> fds;
};

/// Puts frames together from what a socket delivers piece by piece.
class FrameReader {
 public:
  /// Reads what is there. nullopt: nothing more for now. kProtocol at the end of the stream ("the
  /// other side closed the connection") and for rubbish.
  Result<std::optional<Frame>> next(int socket);

 private:
  Status fill(int socket, bool& has_more);
  std::string buffer_;
  std::vector<UniqueFd> fds_;
};

/// Sends a frame; blocks while the other side does not read.
Status send_frame(int socket, const Fields& fields, std::span<const int> fds = {});
/// Waits for a frame.
Result<Frame> receive_frame(int socket, FrameReader& reader);

/// One connection on a loop: frames in, frames out, nothing blocks.
class Connection {
 public:
  /// `on_frame` may destroy the connection; `on_end` (the other side went, or sent rubbish) as
  /// well. Neither is called from within send().
  Connection(Loop& loop,
             UniqueFd socket,
             std::function<void(Frame)> on_frame,
             std::function<void()> on_end);
  /// Queues a frame. `fds` are duplicated.
  void send(const Fields& fields, std::span<const int> fds = {});
  int fd() const { return socket_.get(); }
  bool is_open() const { return is_open_; }

 private:
  struct Outgoing {
    std::string bytes;
    std::size_t sent = 0;
    std::vector<UniqueFd> fds;
  };
  void on_ready(std::uint32_t events);
  void read();
  bool write();
  void end();

  Loop& loop_;
  UniqueFd socket_;
  FrameReader reader_;
  std::vector<Outgoing> queue_;
  std::function<void(Frame)> on_frame_;
  std::function<void()> on_end_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  bool is_open_ = true;
  Watch watch_;

 public:
  ~Connection() { *is_alive_ = false; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
};

}  // namespace sbx::session
