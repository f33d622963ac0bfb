// Compile step: see compile_step.h.
#include "core/run/compile_step.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/base/clock.h"

namespace sbx::run {

namespace {

constexpr double kSecondsPerNs = 1e-9;

}  // namespace

Status CompileStep::start(const backend::ExecSpec& spec,
                          bool capture,
                          std::optional<Bytes> limit,
                          std::function<void()> done) {
  is_capturing_ = capture;
  if (limit.has_value()) limit_.v = std::min(limit_.v, limit->v);
  done_ = std::move(done);
  supervise::ExecHandler handler;
  handler.on_streams = [this](backend::ExecStreams streams) {
    out_ = relay(std::move(streams.out));
    err_ = relay(std::move(streams.err));
  };
  handler.on_exit = [this](int status) {
    end_.wait_status = status;
    has_ended();
  };
  handler.on_failed = [this](int error, Error message) {
    end_.exec_errno = error;
    end_.exec_error = std::move(message);
    has_ended();
  };
  began_ns_ = monotonic_ns();
  auto started = supervisor_.exec(spec, supervise::Stdin::kNone, std::move(handler));
  if (!started.ok()) return std::move(started).error();
  return {};
}

std::unique_ptr<supervise::Relay> CompileStep::relay(UniqueFd source) {
  const auto done = [this] { finish_if_drained(); };
  if (is_capturing_) return supervise::Relay::to_memory(loop_, std::move(source), limit_, done);
  return supervise::Relay::to_fd(loop_, std::move(source), STDERR_FILENO, limit_, done);
}

void CompileStep::has_ended() {
  has_ended_ = true;
  ended_ns_ = monotonic_ns();
  // What a compiler leaves behind is nothing that the program may be held up by.
  static_cast<void>(supervisor_.signal(0, SIGKILL));
  finish_if_drained();
}

void CompileStep::finish_if_drained() {
  if (!has_ended_ || (out_ && out_->running()) || (err_ && err_->running())) return;
  if (done_) std::exchange(done_, {})();
}

void CompileStep::stop() {
  done_ = {};
  if (out_) out_->stop();
  if (err_) err_->stop();
}

CompileStep::End CompileStep::take_end() {
  if (ended_ns_ == 0) ended_ns_ = monotonic_ns();
  end_.wall_s = static_cast<double>(ended_ns_ - began_ns_) * kSecondsPerNs;
  for (const auto* stream : {&out_, &err_}) {
    if (!*stream) continue;
    end_.output.data += (*stream)->take_memory();
    end_.output.bytes += (*stream)->bytes();
    end_.output.truncated = end_.output.truncated || (*stream)->truncated();
    if ((*stream)->error().has_value() && !end_.lost.has_value()) end_.lost = (*stream)->error();
  }
  return std::move(end_);
}

std::optional<int> exit_status(const CompileStep::End& end) {
  supervise::EndFacts facts;
  facts.wait_status = end.wait_status;
  facts.exec_error = end.exec_error;
  facts.exec_errno = end.exec_errno;
  if (!end.wait_status.has_value() && !end.exec_error.has_value()) return std::nullopt;
  return supervise::exit_status(supervise::classify(facts));
}

}  // namespace sbx::run
