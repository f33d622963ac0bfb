// Control client: the host's end of the port "sbx.control". It believes nothing of the guest: an
// answer that is late, too long or rubbish is an error, and costs no more than the deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "core/ipc/fields.h"

namespace sbx::vm {

class ControlClient {
 public:
  /// `stream`: a connected SOCK_STREAM socket; made non-blocking.
  explicit ControlClient(UniqueFd stream);

  /// Sends `request` (with a number of its own) and waits for its answer, at most `deadline`. An
  /// answer that says an error is that error, its texts made safe to print, its code never
  /// kProtocol or kTimeout, so that these mean: the guest did not answer. kTimeout: not in time;
  /// the next call may work, and drops an answer to this one. kProtocol: the guest is gone or sent
  /// rubbish; so will all later calls. Blocks.
  Result<ipc::Fields> call(ipc::Fields request, Millis deadline);

  /// False after an error from which there is no way back.
  bool is_usable() const { return stream_.valid(); }
  int fd() const { return stream_.get(); }

 private:
  Status send(const std::string& frame, Millis until);
  Result<ipc::Fields> receive(Millis until);
  Status fill(Millis until);
  Error broken(std::string what);

  UniqueFd stream_;
  std::uint64_t sent_ = 0;  // number of the newest request
  std::string buffer_;      // what came of the next frame
};

}  // namespace sbx::vm
