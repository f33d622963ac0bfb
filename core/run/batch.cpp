// Batch: see batch.h.
//
// Theory of operation
// 1. The list is checked, the results of an earlier run are read. Nothing was started until here.
// 2. Workers are forked as they are needed, at most one for each slot. They have all that jobs
//    share; an order is a line of the list, an answer the report.
// 3. pump() is called after every event: it hands the next job to an idle worker when Admission
//    lets it in and all results so far are written. So a slow reader of the results slows the
//    batch down, and memory holds at most one result for each slot.
// 4. A signal, a mistake in a list that is read from a pipe, or results that cannot be written end
//    the batch: no more jobs are started, running ones are ended or waited for, and the loop stops
//    when none is left.
#include "core/run/batch.h"

#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <list>
#include <utility>

#include "core/base/exit_code.h"
#include "core/base/loop.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/memory_room.h"
#include "core/host/facts.h"
#include "core/host/leftovers.h"
#include "core/run/batch_list.h"
#include "core/run/batch_output.h"
#include "core/run/batch_results.h"
#include "core/run/batch_work.h"
#include "core/run/batch_worker.h"
#include "core/run/report.h"
#include "core/run/run.h"

namespace sbx::run {

namespace {

constexpr Millis kSyncEvery{1000};
constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
/// So many signals mean: whatever it takes.
constexpr int kSignalsToKill = 3;

bool is_ignored(int signo) {
  struct sigaction action {};
  return ::sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// A worker and what it is doing.
struct Slot {
  explicit Slot(BatchWorker forked) : worker(std::move(forked)) {}
  BatchWorker worker;
  Watch watch;
  std::optional<ListedJob> job;
};

class Batch {
 public:
  Batch(const BatchRequest& request, EarlierResults& earlier, BatchOutput& output, Bytes memory)
      : request_(request),
        list_(request, earlier),
        output_(output),
        admission_(memory, request.slots),
        work_(batch_work(request)) {
    report_.end.counts = earlier.counts;
  }

  Result<BatchReport> run();

 private:
  Status watch_signals();
  void on_signal(int signo);
  void end_running(int signo);
  void pump();
  bool have_next();
  void read_list();
  Status start_next();
  Result<Slot*> idle_slot();
  void on_answer(Slot& slot);
  void on_worker_end(Slot& slot);
  void finish_job(Slot& slot, const WorkDone& done);
  void pause_other_big_answers();
  void show_progress() const;
  void fail(Error error);
  void sync_later();
  bool is_over() const;
  Status end_workers();

  const BatchRequest& request_;
  BatchList list_;
  BatchOutput& output_;
  Admission admission_;
  Work work_;
  Loop loop_;
  std::list<Slot> slots_;  // addresses stay: watches hold them
  std::optional<ListedJob> next_;
  std::optional<std::uint64_t> total_;
  Watch list_watch_;
  Watch sync_;
  std::vector<Watch> signals_;
  BatchReport report_;
  std::optional<Error> error_;
  int signals_seen_ = 0;
  bool is_stopping_ = false;
  bool has_paused_ = false;  // answers of some workers, see below
  bool has_list_ended_ = false;
};

Status Batch::watch_signals() {
  for (const int signo : kEndingSignals) {
    if (is_ignored(signo)) continue;
    SBX_ASSIGN(Watch watch, loop_.add_signal(signo, [this](const signalfd_siginfo& info) {
      on_signal(static_cast<int>(info.ssi_signo));
    }));
    signals_.push_back(std::move(watch));
  }
  return {};
}

void Batch::on_signal(int signo) {
  if (report_.end.signal == 0) report_.end.signal = signo;
  is_stopping_ = true;
  ++signals_seen_;
  end_running(signals_seen_ < kSignalsToKill ? signo : SIGKILL);
  if (signals_seen_ > 1) output_.give_up();  // nobody reads it
  pump();
}

void Batch::end_running(int signo) {
  for (Slot& slot : slots_) {
    if (slot.job) (void)slot.worker.signal(signo);
  }
}

void Batch::fail(Error error) {
  if (!error_) error_ = std::move(error);
  is_stopping_ = true;
}

bool Batch::is_over() const {
  const bool is_all = !next_ && has_list_ended_;
  return (is_all || is_stopping_) && admission_.running() == 0 && output_.is_written();
}

/// Hands out what can be handed out, and stops the loop when nothing is left.
void Batch::pump() {
  while (!is_stopping_ && output_.is_written() && have_next() &&
         admission_.may_start(next_->memory)) {
    if (Status started = start_next(); !started.ok()) {
      fail(std::move(started).error());
      end_running(SIGTERM);
    }
  }
  show_progress();
  if (is_over()) loop_.stop();
}

/// Whether next_ is there; reads on where that does not wait.
bool Batch::have_next() {
  while (!next_ && !has_list_ended_) {
    auto job = list_.next();
    if (!job.ok()) {
      fail(std::move(job).error());
      return false;
    }
    next_ = std::move(job).value();
    if (next_) break;
    if (list_.is_done()) {
      has_list_ended_ = true;
      list_watch_.remove();
    } else if (list_.is_stream()) {
      list_watch_.set_events(EPOLLIN);
      return false;
    } else if (Status more = list_.read_more(); !more.ok()) {
      fail(std::move(more).error());
      return false;
    }
  }
  return next_.has_value();
}

void Batch::read_list() {
  list_watch_.set_events(0);
  if (Status more = list_.read_more(); !more.ok()) fail(std::move(more).error());
  pump();
}

Result<Slot*> Batch::idle_slot() {
  for (Slot& slot : slots_) {
    if (!slot.job) return &slot;
  }
  SBX_ASSIGN(BatchWorker worker, BatchWorker::start(work_));
  Slot& slot = slots_.emplace_back(std::move(worker));
  slot.watch = loop_.add_fd(
      slot.worker.fd(), EPOLLIN, [this, &slot](std::uint32_t /*events*/) { on_answer(slot); });
  return &slot;
}

Status Batch::start_next() {
  SBX_ASSIGN(Slot* const slot, idle_slot());
  if (admission_.must_be_alone(next_->memory) && request_.slots > 1 && request_.defaults.warn) {
    request_.defaults.warn(text::cat("a job with ",
                                     next_->memory ? "more memory than " : "no memory limit (",
                                     to_string(admission_.budget()),
                                     next_->memory ? " runs alone" : " for all) runs alone"));
  }
  admission_.started(next_->memory);
  slot->job = std::move(*next_);
  next_.reset();
  const WorkOrder order{slot->job->line.number, std::move(slot->job->line.text)};
  // Should the worker be gone, its answer (none) says so.
  (void)slot->worker.give(order);
  return {};
}

/// Of several big answers one is read at a time, so that not all of them are in memory twice.
void Batch::pause_other_big_answers() {
  const auto is_big = [](const Slot& slot) { return slot.job && slot.worker.is_receiving_much(); };
  if (!has_paused_ && std::count_if(slots_.begin(), slots_.end(), is_big) < 2) return;
  has_paused_ = false;
  const auto big = std::find_if(slots_.begin(), slots_.end(), is_big);
  for (Slot& slot : slots_) {
    const bool has_to_wait = is_big(slot) && &slot != &*big;
    has_paused_ = has_paused_ || has_to_wait;
    slot.watch.set_events(has_to_wait ? 0U : std::uint32_t{EPOLLIN});
  }
}

void Batch::on_answer(Slot& slot) {
  auto done = slot.worker.receive();
  if (!done.ok()) {
    on_worker_end(slot);
  } else if (done.value()) {
    finish_job(slot, *done.value());
  } else {
    pause_other_big_answers();
    return;
  }
  pump();
}

/// A worker that ended by itself crashed, or was killed.
void Batch::on_worker_end(Slot& slot) {
  slot.watch.remove();
  const auto ended = slot.worker.end();
  const int status = ended.ok() ? ended.value() : 0;
  if (slot.job) {
    Report report;
    Error error(Errc::kInternal,
                WIFSIGNALED(status)
                    ? text::cat("the worker process was killed by signal ", WTERMSIG(status))
                    : text::cat("the worker process ended with status ", WEXITSTATUS(status)));
    const bool is_ours = report_.end.signal != 0;
    report.outcome.cause =
        is_ours ? supervise::Cause::kInterrupted : supervise::Cause::kSandboxError;
    report.outcome.signal = report_.end.signal;
    report.exit_status = is_ours ? kExitSignalBase + report_.end.signal : kExitSandbox;
    report.failure = Failure{.code = std::string(name(error.code())),
                             .message = error.message(),
                             .fix = is_ours ? "" : "run the job again; is the host out of memory?"};
    finish_job(slot,
               {.cause = report.outcome.cause,
                .exit_status = report.exit_status,
                .report = to_json(report),
                .warnings = {}});
  }
  slots_.remove_if([&slot](const Slot& one) { return &one == &slot; });
  host::reap_leftovers();
}

void Batch::finish_job(Slot& slot, const WorkDone& done) {
  const ListedJob job = std::move(*slot.job);
  slot.job.reset();
  admission_.ended(job.memory);
  pause_other_big_answers();
  count(report_.end.counts, done.cause, done.exit_status);
  const bool has_failed = done.exit_status != 0;
  if (has_failed && report_.first_failure.empty()) {
    report_.first_failure = text::cat("job \"",
                                      job.id,
                                      "\" (line ",
                                      job.line.number,
                                      "): ",
                                      supervise::name(done.cause),
                                      ", status ",
                                      done.exit_status);
  }
  if (has_failed && request_.fail_fast && !is_stopping_) {
    is_stopping_ = report_.end.is_stopped = true;
  }
  if (request_.defaults.warn) {
    for (const std::string_view sentence : text::split(done.warnings, '\n')) {
      if (!sentence.empty()) request_.defaults.warn(sentence);
    }
  }
  const ResultHead head{.job = job.id,
                        .line = job.line.number,
                        .digest = job.digest,
                        .cause = {},
                        .exit_status = done.exit_status};
  if (Status put = output_.put(result_line(head, done.report)); !put.ok()) {
    fail(std::move(put).error());
    end_running(SIGTERM);
  }
  sync_later();
}

void Batch::sync_later() {
  if (sync_.active() || !output_.needs_sync()) return;
  sync_ = loop_.add_timer(kSyncEvery, [this] {
    if (Status synced = output_.sync(); !synced.ok()) {
      fail(std::move(synced).error());
      end_running(SIGTERM);
    }
  });
}

void Batch::show_progress() const {
  if (!request_.progress) return;
  request_.progress({report_.end.counts, admission_.running(), total_});
}

/// They are idle, so that they end by themselves.
Status Batch::end_workers() {
  for (Slot& slot : slots_) {
    slot.watch.remove();
    SBX_TRY(slot.worker.end());
  }
  slots_.clear();
  return {};
}

Result<BatchReport> Batch::run() {
  SBX_ASSIGN(total_, list_.check());
  SBX_TRY(watch_signals());
  output_.attach(loop_, [this](Status written) {
    if (!written.ok()) {
      fail(std::move(written).error());
      end_running(SIGTERM);
    }
    pump();
  });
  if (list_.is_stream()) {
    list_watch_ =
        loop_.add_fd(request_.list_fd, EPOLLIN, [this](std::uint32_t /*events*/) { read_list(); });
    list_watch_.set_events(0);
  }
  pump();
  while (!is_over()) {
    SBX_TRY(loop_.run());
  }
  SBX_TRY(end_workers());
  if (error_) return *error_;
  if (Status synced = output_.sync(); !synced.ok()) return std::move(synced).error();
  return std::move(report_);
}

/// Without a word of it in the results: nobody could run any job here.
Status check_host() {
  host::Facts host;
  const host::Ability& userns = host.userns();
  if (userns.ok) return {};
  return Error(Errc::kUnsupported, userns.cause).with_hint(userns.fix);
}

}  // namespace

Result<BatchReport> run_batch(const BatchRequest& request) {
  settle_signals();
  SBX_TRY(check_host());
  Bytes memory = request.memory.value_or(Bytes{0});
  if (!request.memory) {
    SBX_ASSIGN(const Bytes room, confine::memory_room());
    memory = memory_budget(room);
  }
  SBX_ASSIGN(BatchOutput output, BatchOutput::open(request));
  EarlierResults earlier;
  if (request.resume) {
    SBX_ASSIGN(earlier, output.recover());
  }
  SBX_TRY(adopt_orphans());
  auto report = [&] {
    Batch batch(request, earlier, output, memory);
    return batch.run();
  }();
  reap_orphans();
  return report;
}

}  // namespace sbx::run
