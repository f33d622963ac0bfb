// QMP: the control protocol of QEMU, over one end of a socket pair: a command, its answer, and
// nothing else (events are skipped).
//
// QEMU is not trusted to keep to the protocol: the guest may have taken it over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace sbx::vm {

/// Longest line that is read.
inline constexpr size_t kMaxQmpLine = size_t{1} << 20;
inline constexpr Millis kQmpDeadline{5'000};

/// One line of QEMU's.
struct QmpMessage {
  enum class Kind : uint8_t { kGreeting, kReturn, kError, kEvent };
  Kind kind = Kind::kEvent;
  uint64_t id = 0;  ///< of the command that it answers; 0: none
  /// The scalars of the answer (or of the error) as text: "status" is "running", "enabled" is
  /// "true", and those of objects in it: "ram.remaining". At most 256, others are left out.
  std::map<std::string, std::string, std::less<>> fields;

  std::optional<std::string> get(std::string_view name) const;
};

/// Pure. kProtocol when it is not a message.
Result<QmpMessage> parse_qmp(std::string_view line);

class Qmp {
 public:
  /// Takes a connected SOCK_STREAM socket. Reads and writes nothing yet.
  explicit Qmp(UniqueFd socket) : socket_(std::move(socket)) {}

  /// Sends a command and waits for its answer. `arguments` is a JSON object, or empty. `fd`, when
  /// there is one, goes along (for getfd) and stays the caller's. Blocks until `deadline` from now.
  /// kTimeout then, and a late answer is skipped; kProtocol when the other side has gone or sends
  /// rubbish; kUnsupported with QEMU's own words (hostile) when the command was refused.
  Result<QmpMessage> execute(std::string_view command,
                             std::string_view arguments = {},
                             Millis deadline = kQmpDeadline,
                             int fd = -1);
  /// For waiting: readable when QEMU has something to say, or has ended.
  int fd() const { return socket_.get(); }

 private:
  Status open(int64_t until);
  Status send(std::string_view line, int64_t until, int fd);
  Result<std::string> read_line(int64_t until);
  Result<QmpMessage> answer_to(uint64_t id, int64_t until);

  UniqueFd socket_;
  std::string buffer_;
  uint64_t next_id_ = 1;
  bool is_open_ = false;
};

}  // namespace sbx::vm
