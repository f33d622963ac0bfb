// Execution: see execution.h.
#include "core/session/execution.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace sbx::session {

namespace {

constexpr Millis kGrace{2000};
constexpr Bytes kNothing{0};

}  // namespace

Execution::Execution(ExecContext context, std::uint32_t id, ExecRequest request)
    : context_(std::move(context)), request_(std::move(request)) {
  record_.id = id;
  record_.argv = request_.spec.argv;
  request_.spec.tag = id;
  record_.service = request_.service;
  record_.is_detached = request_.is_detached;
  record_.has_terminal = request_.spec.tty.has_value();
  record_.started_ns = realtime_ns();
}

Execution::~Execution() = default;

Status Execution::start(std::function<void(UniqueFd)> on_stdin) {
  on_stdin_ = std::move(on_stdin);
  oom_kills_before_ = oom_kills();
  supervise::ExecHandler handler;
  handler.on_streams = [this](backend::ExecStreams streams) { on_streams(std::move(streams)); };
  handler.on_exit = [this](int status) {
    facts_.wait_status = status;
    main_ended();
  };
  handler.on_failed = [this](int error, Error message) {
    facts_.exec_errno = error;
    if (error == 0) {
      facts_.sandbox_error = std::move(message);
    } else {
      facts_.exec_error = std::move(message);
    }
    main_ended();
  };
  SBX_ASSIGN(agent_id_,
             context_.supervisor.exec(
                 request_.spec,
                 request_.want_stdin ? supervise::Stdin::kWanted : supervise::Stdin::kNone,
                 std::move(handler)));
  if (request_.timeout.has_value()) {
    left_ms_ = request_.timeout->v;
    arm_timeout();
  }
  keep_exec_record(context_.execs_dir, record_);
  return {};
}

/// Processes of the session that its memory limit has ended so far.
std::uint64_t Execution::oom_kills() const {
  const auto kills = context_.supervisor.oom_kills();
  return kills.ok() ? kills.value() : 0;
}

void Execution::arm_timeout() {
  if (!left_ms_.has_value()) return;
  ends_at_ms_ = monotonic_now().v + *left_ms_;
  timeout_ = context_.loop.add_timer(Millis{*left_ms_}, [this] { on_timeout(); });
}

void Execution::pause() {
  if (!timeout_.active()) return;
  left_ms_ = std::max<std::int64_t>(0, ends_at_ms_ - monotonic_now().v);
  timeout_.remove();
}

void Execution::resume() {
  if (!is_main_over_ && !facts_.timed_out && !timeout_.active()) arm_timeout();
}

std::unique_ptr<supervise::Relay> Execution::relay(UniqueFd source,
                                                   const UniqueFd& sink,
                                                   bool is_err) {
  const auto done = [this, is_err] { delivered(is_err); };
  auto made = sink.valid()
                  ? supervise::Relay::to_fd(
                        context_.loop, std::move(source), sink.get(), request_.output_limit, done)
                  : supervise::Relay::to_memory(context_.loop, std::move(source), kNothing, done);
  const Stream stream = is_err ? Stream::kErr : Stream::kOut;
  made->set_tap([this, stream](std::span<const char> data) { keep(stream, data); });
  return made;
}

void Execution::on_streams(backend::ExecStreams streams) {
  if (streams.out.valid()) out_ = relay(std::move(streams.out), request_.out, false);
  if (streams.err.valid()) err_ = relay(std::move(streams.err), request_.err, true);
  if (request_.want_stdin && streams.in.valid() && on_stdin_) on_stdin_(std::move(streams.in));
}

/// Into the log. A disk that is full takes nothing from the program.
void Execution::keep(Stream stream, std::span<const char> data) {
  if (!log_.has_value()) {
    auto log = ExecLog::create(context_.execs_dir, record_.id);
    if (!log.ok()) return;
    log_.emplace(std::move(log).value());
  }
  const Status kept = log_->append(stream, {data.data(), data.size()}, realtime_ns());
  if (!kept.ok()) {
    log::write(Level::kWarn,
               text::cat("log of program ", record_.id, ": ", kept.error().message()));
  }
}

Status Execution::signal(int signo) {
  if (is_main_over_) return {};
  return context_.supervisor.signal(agent_id_, signo);
}

Status Execution::resize(backend::TermSize size) {
  if (is_main_over_) return {};
  return context_.supervisor.resize(agent_id_, size);
}

void Execution::on_timeout() {
  facts_.timed_out = true;
  ask_to_end(SIGTERM);
}

void Execution::ask_to_end(int signo) {
  static_cast<void>(signal(signo));
  if (grace_.active()) return;
  grace_ = context_.loop.add_timer(kGrace, [this] { static_cast<void>(signal(SIGKILL)); });
}

void Execution::interrupted(int signo) {
  if (is_main_over_) return;
  if (facts_.interrupted_by != 0) {  // the second one means: now
    static_cast<void>(signal(SIGKILL));
    return;
  }
  facts_.interrupted_by = signo;
  ask_to_end(signo);
}

void Execution::hang_up() {
  if (request_.is_detached) return;
  for (const auto* relay : {&out_, &err_}) {
    if (*relay) (*relay)->drop_sink();
  }
  request_.out.reset();
  request_.err.reset();
  if (!is_main_over_) return ask_to_end(SIGHUP);
  is_out_due_ = is_err_due_ = false;
  if (!has_ended()) finish();
}

void Execution::sandbox_ended(const Error& error) {
  if (is_main_over_) return;
  facts_.sandbox_error = error;
  main_ended();
}

/// What the pipes hold now is still the program's own.
void Execution::main_ended() {
  if (is_main_over_) return;
  is_main_over_ = true;
  timeout_.remove();
  grace_.remove();
  is_out_due_ = out_ && out_->running();
  is_err_due_ = err_ && err_->running();
  if (is_out_due_) out_->release_sink_when_drained([this] { delivered(false); });
  if (is_err_due_) err_->release_sink_when_drained([this] { delivered(true); });
  if (!is_out_due_ && !is_err_due_) finish();
}

/// A stream has given what was due, or has ended.
void Execution::delivered(bool is_err) {
  (is_err ? is_err_due_ : is_out_due_) = false;
  if (is_main_over_ && !has_ended() && !is_out_due_ && !is_err_due_) {
    finish();
  } else {
    look_if_gone();
  }
}

/// Output that the client's descriptor refused (a full disk) is lost, and not by the program.
void Execution::lost_output(const std::unique_ptr<supervise::Relay>& relay, std::string_view name) {
  if (!relay || !relay->error().has_value() || facts_.sandbox_error.has_value()) return;
  facts_.sandbox_error = Error(*relay->error()).prefixed(name);
}

void Execution::finish() {
  request_.out.reset();
  request_.err.reset();
  lost_output(out_, "standard output");
  lost_output(err_, "standard error");
  // Programs that run side by side cannot be told apart here: each is told of the limit.
  facts_.oom_kills = std::max(oom_kills(), oom_kills_before_) - oom_kills_before_;
  outcome_ = supervise::classify(facts_);
  record_.state = ExecState::kEnded;
  record_.ended_ns = realtime_ns();
  record_.cause = supervise::name(outcome_.cause);
  record_.exit_status = supervise::exit_status(outcome_);
  if (outcome_.cause == supervise::Cause::kExited) record_.exit_code = outcome_.exit_code;
  if (outcome_.signal != 0) record_.signal = supervise::signal_name(outcome_.signal);
  if (outcome_.error.has_value()) record_.error = outcome_.error->message();
  if (out_) record_.out_bytes = out_->bytes();
  if (err_) record_.err_bytes = err_->bytes();
  record_.truncated = (out_ && out_->truncated()) || (err_ && err_->truncated());
  context_.on_end(record_.id);
  keep_exec_record(context_.execs_dir, record_);
  look_if_gone();
}

void Execution::look_if_gone() {
  const bool is_held = (out_ && out_->running()) || (err_ && err_->running());
  if (!has_ended() || is_held || gone_.active()) return;
  if (log_.has_value()) (void)log_->end(realtime_ns());
  gone_ = context_.loop.add_timer(Millis{0}, [this] { context_.on_gone(record_.id); });
}

}  // namespace sbx::session
