// Guest port: the virtio ports of a guest, and the end of the control port that answers.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/ipc/fields.h"

namespace sbx::vm {

/// Opens the port that the host calls `name` (/sys/class/virtio-ports/*/name), non-blocking.
/// kNotFound when there is none.
Result<UniqueFd> open_port(std::string_view name);

/// Reads requests and writes their answers, one after the other; what the host sends meanwhile
/// waits. It survives whatever comes: a frame that cannot be read is answered with an error.
class ControlServer {
 public:
  /// To be called once, within `answer` or later.
  using Reply = std::function<void(ipc::Fields)>;
  using Answer = std::function<void(const ipc::Fields& request, Reply reply)>;
  ControlServer(Loop& loop, UniqueFd port, Answer answer);
  /// Called once the answer that is being made is written, or cannot be.
  void when_sent(std::function<void()> then) { then_ = std::move(then); }

 private:
  void watch(std::uint32_t events);
  void on_ready(std::uint32_t events);
  void wait();
  bool read();
  void take_frames();
  void write();
  void reply(std::int64_t number, ipc::Fields answer);

  Loop& loop_;
  UniqueFd port_;
  Answer answer_;
  std::function<void()> then_;
  std::string in_;
  std::size_t skip_ = 0;   // bytes of a frame that is too long
  bool is_asked_ = false;  // a request is being answered
  bool is_taking_ = false;
  std::string out_;
  std::size_t sent_ = 0;
  Watch watch_;
  Watch timer_;
};

}  // namespace sbx::vm
