// Files request: see files_request.h.
#include "core/session/files_request.h"

#include <csignal>
#include <memory>
#include <utility>
#include <vector>

#include "core/session/peer.h"

namespace sbx::session {

Fields files_fields(const ipc::Files& request) {
  Fields fields("files");
  fields.set("what", static_cast<std::int64_t>(request.op));
  fields.set("path", request.path).set("root_name", request.root_name);
  fields.set("following", request.is_following).set("announcing", request.is_announcing);
  fields.set("resuming", request.is_resuming);
  return fields;
}

void handle_files(Peer& peer, Frame& frame) {
  const Fields& fields = frame.fields;
  const std::int64_t what = fields.number("what", -1);
  if (what < 0 || what >= ipc::kFilesOps) {
    return peer.answer(error_fields(Error(Errc::kUnsupported, "an unknown kind of copy")));
  }
  ipc::Files request;
  request.op = static_cast<ipc::FilesOp>(what);
  request.path = fields.text("path");
  request.root_name = fields.text("root_name");
  request.is_following = fields.flag("following");
  request.is_announcing = fields.flag("announcing");
  request.is_resuming = fields.flag("resuming");
  std::vector<int> fds;
  for (const UniqueFd& fd : frame.fds) {
    fds.push_back(fd.get());
  }
  Daemon& daemon = peer.daemon();
  if (daemon.is_ending()) {
    return peer.answer(error_fields(Error(Errc::kDenied, "the session is about to stop")));
  }
  daemon.touch();
  supervise::FilesHandler handler;
  const bool is_writing =
      request.op == ipc::FilesOp::kUnpack || request.op == ipc::FilesOp::kUnpackAny;
  handler.on_exit = [&daemon, self = peer.self(), is_writing, path = request.path](int status) {
    if (is_writing) daemon.note(EventKind::kCopied, {{"path", path}, {"ok", status == 0}});
    daemon.touch();
    const auto there = self.lock();
    if (there) (*there)->answer(Fields("files_end").set("status", std::int64_t{status}));
  };
  handler.on_failed = [self = peer.self()](const Error& error) {
    if (const auto there = self.lock()) (*there)->answer(error_fields(error));
  };
  const auto id = daemon.supervisor().files(std::move(request), fds, std::move(handler));
  if (!id.ok()) return peer.answer(error_fields(id.error()));
  peer.answer(Fields("files").set("id", std::int64_t{id.value()}));
}

void handle_files_stop(Peer& peer, Frame& frame) {
  const auto id = static_cast<std::uint32_t>(frame.fields.number("id"));
  if (id == 0) return;
  (void)peer.daemon().supervisor().signal(id, SIGKILL);
}

}  // namespace sbx::session
