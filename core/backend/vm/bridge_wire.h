// Wire: the stream of bytes below a bridge: whole frames in, whole frames out, counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/ipc/mux.h"

namespace sbx::vm {

/// What a transfer did. EAGAIN is the normal end of every turn here, hence no Result with text.
struct Moved {
  ssize_t n = -1;
  int err = 0;  ///< errno when n < 0
  bool would_block() const;
};
Moved read_some(int fd, char* to, std::size_t size);
/// A socket is written to without SIGPIPE; other files need it ignored.
Moved write_some(int fd, const char* from, std::size_t size, bool is_socket);

/// Calls its owner from the loop only. None of its calls destroys it.
class WireOwner {
 public:
  WireOwner() = default;
  WireOwner(const WireOwner&) = delete;
  WireOwner& operator=(const WireOwner&) = delete;
  virtual ~WireOwner() = default;
  /// A frame came; its payload is valid during the call. An error ends the wire.
  virtual Status on_frame(const ipc::Frame& frame) = 0;
  /// There is nothing to write: put() or space() and commit(), as long as there is has_room().
  virtual void on_fill() = 0;
  /// Everything is written and on_fill() had nothing.
  virtual void on_flushed() = 0;
  /// The reading limit was reached.
  virtual void on_limit() = 0;
  /// Nothing will be read any more: the far side closed (no error), or what was wrong.
  virtual void on_wire_end(std::optional<Error> error) = 0;
};

class Wire {
 public:
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  Wire(Loop& loop, WireOwner& owner, UniqueFd fd);

  /// There may be something to write: on_fill() will be called.
  void wake();
  bool has_room() const { return end_ + ipc::kMaxFrame <= out_.size(); }
  void put(ipc::FrameKind kind, std::uint32_t stream, std::string_view payload = {});
  /// Where the payload of a frame may be written to; kMaxPayload bytes.
  std::span<char> space() { return {out_.data() + end_ + ipc::kFrameHeaderSize, ipc::kMaxPayload}; }
  /// Makes `size` bytes there a frame.
  void commit(ipc::FrameKind kind, std::uint32_t stream, std::size_t size);

  void set_reading(bool is_reading);
  void set_writing(bool is_writing);
  /// Reads up to `total` bytes; on_limit() when there, perhaps at once.
  void set_limit(std::uint64_t total);
  std::uint64_t read_bytes() const { return read_; }
  std::uint64_t written_bytes() const { return written_; }
  /// Starts counting anew (at a HELLO to be written next).
  void restart();
  bool has_half_a_frame() const { return in_end_ != 0; }
  bool has_unwritten() const { return at_ < end_; }
  /// Nothing is read or written any more.
  void close();

 private:
  void on_ready(std::uint32_t events);
  void read();
  bool take_frames();
  void write();
  void wait_for_host();
  void update();
  void end(std::optional<Error> error);

  Loop& loop_;
  WireOwner& owner_;
  UniqueFd fd_;
  bool is_socket_ = false;
  bool is_port_ = false;  // of a guest: its host may come and go
  bool is_reading_ = true;
  bool is_writing_ = true;
  bool wants_to_write_ = false;
  bool is_broken_ = false;  // for writing
  bool is_over_ = false;
  std::uint64_t limit_ = kNoLimit;
  std::uint64_t read_ = 0;
  std::uint64_t written_ = 0;
  std::vector<char> in_;
  std::size_t in_end_ = 0;
  std::vector<char> out_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  int pause_ms_ = 0;
  Watch watch_;
  Watch pause_;
};

}  // namespace sbx::vm
