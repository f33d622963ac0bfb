// Requests: what each request to a session's supervisor does.
#include <fcntl.h>

#include <array>
#include <charconv>
#include <csignal>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/session/files_request.h"
#include "core/session/look.h"
#include "core/session/peer.h"

namespace sbx::session {

namespace {

void hello(Peer& peer, Frame& /*frame*/) {
  Daemon& daemon = peer.daemon();
  Fields fields("status");
  fields.set("state",
             std::string(daemon.is_ending()   ? "ending"
                         : daemon.is_paused() ? "paused"
                                              : "running"));
  fields.set("protocol", std::int64_t{kControlProtocol});
  fields.set("version", std::string(SBX_VERSION));
  peer.answer(fields);
}

/// Replaces or adds "NAME=value".
void set_variable(std::vector<std::string>& env, const std::string& entry) {
  const std::size_t equals = entry.find('=');
  if (equals == std::string::npos) return;
  const std::string_view head = std::string_view(entry).substr(0, equals + 1);
  std::erase_if(env, [head](const std::string& each) { return each.starts_with(head); });
  env.push_back(entry);
}

/// The program that the fields of an exec describe.
Result<ExecRequest> exec_request(Peer& peer, Frame& frame) {
  const Fields& fields = frame.fields;
  const bool has_terminal = fields.flag("tty");
  ExecRequest request;
  request.spec = peer.daemon().base_spec(has_terminal, fields.text("term"));
  request.spec.argv = fields.list("argv");
  for (const std::string& entry : fields.list("env")) {
    set_variable(request.spec.env, entry);
  }
  if (fields.has("cwd")) request.spec.cwd = fields.text("cwd");
  if (fields.has("uid")) {
    request.spec.user = backend::User{static_cast<std::uint32_t>(fields.number("uid")),
                                      static_cast<std::uint32_t>(fields.number("gid"))};
  }
  if (has_terminal) {
    request.spec.tty = backend::TermSize{static_cast<std::uint16_t>(fields.number("rows")),
                                         static_cast<std::uint16_t>(fields.number("cols"))};
  }
  request.want_stdin = fields.flag("stdin");
  request.is_detached = fields.flag("detach");
  if (fields.has("timeout_ms")) request.timeout = Millis{fields.number("timeout_ms")};
  if (!request.is_detached) {
    if (frame.fds.size() != 2) return Error(Errc::kProtocol, "exec without its two descriptors");
    request.out = std::move(frame.fds[0]);
    request.err = std::move(frame.fds[1]);
    request.output_limit = peer.daemon().profile().limits.output;
  }
  if (request.spec.argv.empty()) return Error(Errc::kUsage, "no program to run");
  return request;
}

void tell_end(Peer& peer, const ExecRecord& record) {
  peer.answer(Fields("exit").set("record", to_json(record)));
}

/// Of a sandbox that has ended under a request, or hangs: no mistake of whoever asked.
Fields broken_fields(Peer& peer, const Error& error) {
  const std::string_view verb = error.code() == Errc::kTimeout ? "stop " : "start ";
  return error_fields(Error(error)
                          .with_code(Errc::kSystem)
                          .with_hint(text::cat("sbx session ", verb, peer.daemon().record().name)));
}

void start_exec(Peer& peer, Frame& frame) {
  auto request = exec_request(peer, frame);
  if (!request.ok()) return peer.answer(error_fields(request.error()));
  const bool is_detached = request.value().is_detached;
  const bool has_terminal = request.value().spec.tty.has_value();
  const bool want_stdin = request.value().want_stdin;
  // Without a terminal the input is there before exec() returns; with one it follows later.
  auto early = std::make_shared<std::pair<bool, UniqueFd>>(true, UniqueFd());
  const auto on_stdin = [self = peer.self(), early](UniqueFd in) {
    if (early->first) {
      early->second = std::move(in);
      return;
    }
    const int fds[] = {in.get()};
    if (const auto there = self.lock()) (*there)->answer(Fields("stdin"), fds);
  };
  const auto id = peer.daemon().exec(std::move(request).value(), on_stdin);
  early->first = false;
  if (!id.ok()) return peer.answer(broken_fields(peer, id.error()));
  Fields fields("exec");
  fields.set("id", std::int64_t{id.value()});
  const int fds[] = {early->second.get()};
  const bool has_stdin = want_stdin && !has_terminal && early->second.valid();
  peer.answer(fields, has_stdin ? std::span<const int>(fds) : std::span<const int>());
  early->second.reset();
  if (is_detached) return;
  peer.attach(id.value());
  (void)peer.daemon().when_ended(id.value(), [self = peer.self()](const ExecRecord& record) {
    if (const auto there = self.lock()) tell_end(**there, record);
  });
}

void exec(Peer& peer, Frame& frame) {
  Daemon& daemon = peer.daemon();
  if (!daemon.is_paused()) return start_exec(peer, frame);
  if (frame.fields.flag("no_start")) {
    return peer.answer(
        error_fields(Error(Errc::kDenied, text::cat("session ", daemon.record().name, " is paused"))
                         .with_hint(text::cat("sbx session resume ", daemon.record().name))));
  }
  auto kept = std::make_shared<Frame>(std::move(frame));
  daemon.resume([self = peer.self(), kept](const Status& resumed) {
    const auto there = self.lock();
    if (!there) return;
    if (!resumed.ok()) return (*there)->answer(broken_fields(**there, resumed.error()));
    start_exec(**there, *kept);
  });
}

void signal_exec(Peer& peer, Frame& frame) {
  const auto id = static_cast<std::uint32_t>(frame.fields.number("exec"));
  const auto signo = static_cast<int>(frame.fields.number("signo"));
  if (signo < 1 || signo > SIGRTMAX) {
    return peer.answer(error_fields(Error(Errc::kUsage, "no such signal")));
  }
  if (id == 0) return peer.answer(peer.daemon().supervisor().signal(0, signo));
  Execution* const execution = peer.daemon().find(id);
  if (execution == nullptr || execution->has_ended()) {
    return peer.answer(
        error_fields(Error(Errc::kNotFound, text::cat("no program ", id, " runs"))
                         .with_hint(text::cat("sbx session ps ", peer.daemon().record().name))));
  }
  if (frame.fields.flag("interrupted")) {
    execution->interrupted(signo);
    return;  // the end of the program is the answer
  }
  peer.answer(execution->signal(signo));
}

void resize_exec(Peer& peer, Frame& frame) {
  const auto id = static_cast<std::uint32_t>(frame.fields.number("exec"));
  Execution* const execution = peer.daemon().find(id);
  if (execution == nullptr) return;
  (void)execution->resize({static_cast<std::uint16_t>(frame.fields.number("rows")),
                           static_cast<std::uint16_t>(frame.fields.number("cols"))});
}

void wait_exec(Peer& peer, Frame& frame) {
  const auto id = static_cast<std::uint32_t>(frame.fields.number("exec"));
  const Status waiting =
      peer.daemon().when_ended(id, [self = peer.self()](const ExecRecord& record) {
        if (const auto there = self.lock()) tell_end(**there, record);
      });
  if (!waiting.ok()) peer.answer(waiting);
}

void pause(Peer& peer, Frame& /*frame*/) {
  peer.daemon().pause(peer.later());
}

void resume(Peer& peer, Frame& /*frame*/) {
  peer.daemon().resume(peer.later());
}

/// The answer is that the connection ends.
void stop(Peer& peer, Frame& frame) {
  std::string reason = frame.fields.text("reason");
  if (reason.empty()) reason = "stopped";
  peer.daemon().stop(std::move(reason), Millis{frame.fields.number("grace_ms")});
}

void touch(Peer& peer, Frame& /*frame*/) {
  peer.daemon().touch();
  peer.answer(Status());
}

/// Programs stand still until "release", or the end of the connection.
void hold(Peer& peer, Frame& /*frame*/) {
  peer.begin_hold(peer.later());
}

void release(Peer& peer, Frame& /*frame*/) {
  peer.end_hold(peer.later());
}

constexpr std::array kRows{
    RequestRow{"status", hello},
    RequestRow{"exec", exec},
    RequestRow{"signal", signal_exec},
    RequestRow{"resize", resize_exec},
    RequestRow{"wait", wait_exec},
    RequestRow{"processes", tell_processes},
    RequestRow{"usage", tell_usage},
    RequestRow{"pause", pause},
    RequestRow{"resume", resume},
    RequestRow{"stop", stop},
    RequestRow{"touch", touch},
    RequestRow{"hold", hold},
    RequestRow{"release", release},
    RequestRow{"files", handle_files},
    RequestRow{"files_stop", handle_files_stop},
};

}  // namespace

std::span<const RequestRow> request_rows() {
  return kRows;
}

}  // namespace sbx::session
