// Peer: see peer.h.
#include "core/session/peer.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::session {

Peer::Peer(Daemon& daemon, UniqueFd socket, std::function<void()> on_end)
    : daemon_(daemon),
      self_(std::make_shared<Peer*>(this)),
      connection_(
          daemon.loop(),
          std::move(socket),
          [this](Frame frame) { on_frame(std::move(frame)); },
          std::move(on_end)) {}

Peer::~Peer() {
  if (is_holding_) daemon_.release([](const Status& /*thawed*/) {});
  for (const std::uint32_t id : attached_) {
    if (Execution* const execution = daemon_.find(id)) execution->hang_up();
  }
}

void Peer::answer(const Status& status) {
  answer(status.ok() ? Fields("done") : error_fields(status.error()));
}

std::function<void(Status)> Peer::later() {
  return [self = self()](const Status& status) {
    if (const auto peer = self.lock()) (*peer)->answer(status);
  };
}

void Peer::begin_hold(std::function<void(Status)> then) {
  if (std::exchange(is_holding_, true)) return then({});
  daemon_.hold(std::move(then));
}

void Peer::end_hold(std::function<void(Status)> then) {
  if (!std::exchange(is_holding_, false)) return then({});
  daemon_.release(std::move(then));
}

void Peer::on_frame(Frame frame) {
  const std::string op = frame.fields.op();
  const std::int64_t protocol = frame.fields.number("protocol");
  // Those that every version understands.
  const bool is_common = op == "stop" || op == "status";
  if (protocol != kControlProtocol && !is_common) {
    answer(error_fields(
        Error(Errc::kUnsupported,
              text::cat("the supervisor of session ",
                        daemon_.record().name,
                        " is of sbx ",
                        SBX_VERSION,
                        " and speaks protocol ",
                        kControlProtocol,
                        ", the command protocol ",
                        protocol))
            .with_hint(text::cat("sbx session stop ",
                                 daemon_.record().name,
                                 ", then start it with the sbx that you use; no file is lost"))));
    return;
  }
  const auto rows = request_rows();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&op](const RequestRow& r) { return r.op == op; });
  if (row == rows.end()) {
    answer(error_fields(
        Error(Errc::kUnsupported, text::cat("unknown request \"", text::escape(op), "\""))));
    return;
  }
  if (daemon_.is_ending() && !is_common) {
    answer(error_fields(
        Error(Errc::kDenied, text::cat("session ", daemon_.record().name, " is being stopped"))
            .with_hint(text::cat("once it has: sbx session start ", daemon_.record().name))));
    return;
  }
  row->handle(*this, frame);
}

Status check_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return sys_error("ask who connected");
  }
  if (peer.uid != ::geteuid()) return Error(Errc::kDenied, "another user connected");
  SBX_ASSIGN(const std::string ours, sys::readlinkat(AT_FDCWD, "/proc/self/ns/user"));
  SBX_ASSIGN(const std::string theirs,
             sys::readlinkat(AT_FDCWD, text::cat("/proc/", peer.pid, "/ns/user")));
  if (ours != theirs) return Error(Errc::kDenied, "a process of another user namespace connected");
  return {};
}

}  // namespace sbx::session
