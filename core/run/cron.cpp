// Cron: the order of lock, record, attempts and keeping.
//
// Theory of operation
// 1. The deadline counts from here on the monotonic clock: a change of the wall clock, or of
//    daylight saving time, moves nothing but names and records.
// 2. The lock is taken, or the run does not take place (skipped, deadline, interrupted).
// 3. The record says "running" on disk before anything starts. Whoever finds it with its process
//    gone knows that the run was killed.
// 4. Attempts follow, each in a sandbox of its own, as long as the cause may pass by itself.
// 5. The record gets its end, --keep lets old runs go, the lock is given up: in this order, so that
//    the next run of the lock finds all of it done.
// Each wait (lock, job, pause between attempts) listens to signals that ask us to end; they are
// held back while step 5 is done.
#include "core/run/cron.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/base/clock.h"
#include "core/base/loop.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/failure.h"
#include "core/run/history.h"
#include "core/run/keep.h"
#include "core/run/out_place.h"
#include "core/run/run.h"
#include "core/run/scratch.h"
#include "core/run/signals.h"

namespace sbx::run {

namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;

/// Blocks the ending signals that are not ignored, as long as it lives. One that came too late to
/// end anything is dropped: the run is over, and its result is still to be told.
class HeldSignals {
 public:
  HeldSignals() {
    ::sigemptyset(&held_);
    for (const int signo : kEndingSignals) {
      if (!is_ignored(signo)) ::sigaddset(&held_, signo);
    }
    ::sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() {
    const timespec now{};
    while (::sigtimedwait(&held_, nullptr, &now) > 0) {
    }
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t held_{};
  sigset_t before_{};
};

std::vector<std::string> command_of(const Program& program) {
  std::vector<std::string> words;
  switch (program.kind) {
    case ProgramKind::kFile:
      words.push_back(program.text);
      break;
    case ProgramKind::kStdin:
      words.emplace_back("-");
      break;
    case ProgramKind::kCode:
      words = {"-c", program.text};
      break;
    case ProgramKind::kCommand:
    case ProgramKind::kNone:
      break;
  }
  words.insert(words.end(), program.args.begin(), program.args.end());
  return words;
}

std::string describe(const std::string& lock, const std::optional<Holder>& holder) {
  std::string out = text::cat("lock ", lock, " is held");
  if (!holder.has_value()) return out;
  out += text::cat(" by process ", holder->process.pid);
  if (!holder->run.empty()) out += text::cat(" (run ", holder->run, ")");
  return out + text::cat(" since ", format_rfc3339(holder->since_ns));
}

class CronRun {
 public:
  CronRun(Options options, const CronOptions& cron)
      : options_(std::move(options)), cron_(cron), begun_ns_(monotonic_ns()) {
    is_recorded_ = cron.record || cron.keep.has_value();
    if (cron.deadline.has_value()) {
      options_.deadline = Deadline{begun_ns_ + cron.deadline->v * kNsPerMs, *cron.deadline};
    }
    options_.id = new_run_id();
  }

  Report run() {
    std::optional<HeldSignals> held;
    if (!may_block_on_script()) held.emplace();
    if (is_recorded_) {
      if (Status prepared = prepare_record(); !prepared.ok()) {
        return done(refused(options_, prepared.error()));
      }
    }
    if (!cron_.lock.empty()) {
      if (std::optional<Report> ended = take_lock()) return done(std::move(*ended));
    }
    if (is_recorded_) {
      if (Status begun = history_->write(record_); !begun.ok()) {
        return done(refused(options_, begun.error()));
      }
      is_on_record_ = true;
    }
    return done(attempts());
  }

 private:
  /// Whether reading the script may wait for somebody: then Ctrl-C has to end us as ever.
  bool may_block_on_script() const {
    const Program& program = options_.program;
    if (program.kind == ProgramKind::kStdin) return true;
    if (program.kind != ProgramKind::kFile) return false;
    const auto st = sys::fstatat(AT_FDCWD, program.text, 0);
    return !st.ok() || !S_ISREG(st.value().st_mode);
  }

  Status prepare_record() {
    SBX_ASSIGN(History history, History::open(options_.state_dir));
    history_.emplace(std::move(history));
    SBX_ASSIGN(record_.sequence, history_->next_sequence());
    SBX_ASSIGN(record_.process, confine::identity_of(::getpid()));
    record_.id = options_.id;
    record_.lock = cron_.lock;
    record_.series = series_of(options_, cron_);
    record_.command = command_of(options_.program);
    record_.cwd = absolute_path(".");
    record_.started_ns = realtime_ns();
    options_.hooks.on_place = [this](const OutPlace& place) -> Status {
      record_.out = place;
      // Of what is not known by its name on disk nothing can be taken back later.
      if (!text::is_utf8(place.path)) record_.out->kind = OutPlace::Kind::kShared;
      return history_->write(record_);
    };
    return {};
  }

  /// A report when the run does not take place.
  std::optional<Report> take_lock() {
    auto lock = RunLock::open(options_.state_dir, cron_.lock);
    if (!lock.ok()) return refused(options_, lock.error());
    lock_.emplace(std::move(lock).value());
    LockRequest request;
    request.overlap = cron_.overlap;
    if (options_.deadline.has_value()) request.deadline_ns = options_.deadline->at_ns;
    request.run = options_.id;
    // A sandbox that waits would hold memory and control groups for nothing.
    request.before_waiting = [this] { options_.head.reset(); };
    const auto end = lock_->take(request);
    if (!end.ok()) return refused(options_, end.error());
    if (end.value() != LockEnd::kTaken) return not_started(end.value());
    options_.hooks.on_sandbox = [this](int init) { return lock_->note_sandbox(init); };
    return std::nullopt;
  }

  Report not_started(LockEnd end) {
    const std::string reason = describe(cron_.lock, lock_->holder());
    Report report;
    report.id = options_.id;
    report.profile = options_.profile.value_or("");
    switch (end) {
      case LockEnd::kDeadline:
        report.outcome.cause = supervise::Cause::kTimeout;
        report.failure = deadline_failure(*options_.deadline, text::cat(" while ", reason));
        break;
      case LockEnd::kInterrupted:
        report.outcome.cause = supervise::Cause::kInterrupted;
        report.outcome.signal = lock_->interrupted_by();
        break;
      default:
        report.outcome.cause = supervise::Cause::kSkipped;
        report.skip_reason = reason;
        record_.state = RunState::kSkipped;
        break;
    }
    settle_outcome(report);
    report.phases.setup_s = static_cast<double>(monotonic_ns() - begun_ns_) * 1e-9;
    is_on_record_ = is_recorded_;
    return report;
  }

  Report attempts() {
    Options once = options_;
    options_.head.reset();
    for (std::uint64_t number = 1;; ++number) {
      Report report = attempt(once);
      once.head.reset();
      if (cron_.retry > 0) report.attempts = static_cast<unsigned>(number);
      if (!report.retryable || number > cron_.retry) return report;
      const Millis pause = backoff(number + 1);
      const bool is_late =
          once.deadline.has_value() && monotonic_ns() + pause.v * kNsPerMs >= once.deadline->at_ns;
      if (is_late) return report;
      if (const int signo = wait(pause); signo != 0) {
        report.outcome.cause = supervise::Cause::kInterrupted;
        report.outcome.signal = signo;
        settle_outcome(report);
        return report;
      }
    }
  }

  /// The signal that cut the wait short, else 0.
  static int wait(Millis pause) {
    Loop loop;
    int caught = 0;
    std::vector<Watch> watches;
    for (const int signo : kEndingSignals) {
      if (is_ignored(signo)) continue;
      auto watch = loop.add_signal(signo, [&](const signalfd_siginfo& info) {
        caught = static_cast<int>(info.ssi_signo);
        loop.stop();
      });
      if (watch.ok()) watches.push_back(std::move(watch).value());
    }
    watches.push_back(loop.add_timer(pause, [&] { loop.stop(); }));
    static_cast<void>(loop.run());
    return caught;
  }

  Report done(Report report) {
    const HeldSignals held;
    if (is_on_record_) {
      if (record_.state == RunState::kRunning) record_.state = RunState::kFinished;
      record_.ended_ns = realtime_ns();
      record_.result = to_record_json(report);
      const Status written = history_->write(record_);
      report.is_recorded = written.ok();
      if (!written.ok()) warn(text::cat("the record has no end: ", written.error().message()));
      if (cron_.keep.has_value()) let_go(*cron_.keep);
    }
    if (lock_.has_value()) {
      // Who read our name in the lock may ask us to end when we have ended.
      ::signal(SIGTERM, SIG_IGN);
      lock_.reset();
    }
    write_status(options_, report);
    return report;
  }

  void let_go(std::uint64_t keep) {
    const auto all = history_->list();
    if (!all.ok()) return warn(all.error().message());
    std::vector<RunRecord> records;
    for (const HistoryEntry& entry : all.value()) {
      if (!entry.problem.empty()) continue;
      records.push_back(entry.record);
      // Another run's directory, made before or after, must not be taken for this one's.
      std::optional<OutPlace>& out = records.back().out;
      if (out.has_value() && !is_there(*out)) out.reset();
    }
    const KeepPlan plan = plan_keep(records, record_.series, keep);
    const auto names = [](const std::vector<std::string>& ids, const RunRecord& record) {
      return std::find(ids.begin(), ids.end(), record.id) != ids.end();
    };
    for (const RunRecord& record : records) {
      bool may_forget = true;
      if (names(plan.places, record)) {
        const Removal end = remove_place(*record.out, options_.state_dir);
        may_forget = end.end != Removal::End::kFailed;
        if (!end.why.empty()) {
          warn(text::cat("--keep: ", record.out->path, " stays: ", end.why));
        }
      }
      if (!may_forget || !names(plan.records, record)) continue;
      if (const Status removed = history_->remove(record); !removed.ok()) {
        warn(text::cat("--keep: ", removed.error().message()));
      }
    }
  }

  void warn(std::string_view sentence) const {
    if (options_.warn) options_.warn(sentence);
  }

  Options options_;
  const CronOptions& cron_;
  std::int64_t begun_ns_;
  bool is_recorded_ = false;   // asked for
  bool is_on_record_ = false;  // its end is to be written
  std::optional<History> history_;
  RunRecord record_;
  std::optional<RunLock> lock_;
};

}  // namespace

Millis backoff(std::uint64_t number) {
  constexpr std::int64_t kFirst = 1000;
  constexpr std::int64_t kMost = 60'000;
  std::int64_t wait = kFirst;
  for (std::uint64_t i = 2; i < number && wait < kMost; ++i) {
    wait *= 2;
  }
  return Millis{std::min(wait, kMost)};
}

std::string series_of(const Options& options, const CronOptions& cron) {
  if (!cron.lock.empty()) return text::cat("lock:", cron.lock);
  if (!options.out.has_value()) return {};
  const std::string& out = options.out_pattern.empty() ? *options.out : options.out_pattern;
  return text::cat("out:", absolute_path(out));
}

Report execute_cron(Options options, const CronOptions& cron) {
  return CronRun(std::move(options), cron).run();
}

std::string failure_line(const Options& options, const CronOptions& cron, const Report& report) {
  const std::vector<std::string> command = command_of(options.program);
  const bool is_code = options.program.kind == ProgramKind::kCode;
  std::string line = command.empty() || is_code ? std::string("code of -c") : command[0];
  if (options.program.kind == ProgramKind::kStdin) line = "code from stdin";
  line += ": ";
  using supervise::Cause;
  if (report.failure.has_value()) {
    line += report.failure->message;
  } else if (report.outcome.cause == Cause::kExited) {
    line += text::cat("exit status ", report.exit_status);
  } else if (report.outcome.signal != 0) {
    line += text::cat(report.outcome.cause == Cause::kInterrupted ? "interrupted" : "ended",
                      " by SIG",
                      supervise::signal_name(report.outcome.signal));
  } else {
    line += supervise::name(report.outcome.cause);
  }
  if (report.has_usage) {
    line += text::cat(", after ",
                      to_string(Millis{static_cast<std::int64_t>(report.phases.run_s * 1000)}));
  }
  if (report.attempts > 1) line += text::cat(", in ", report.attempts, " attempts");
  std::string more;
  if (report.failure.has_value()) more = report.failure->fix;
  if (!cron.lock.empty()) more += text::cat(more.empty() ? "" : "; ", "lock ", cron.lock);
  if (report.is_recorded) {
    more += text::cat(more.empty() ? "" : "; ", "sbx runs show ", report.id);
  }
  if (!more.empty()) line += text::cat(" (", more, ")");
  return line;
}

}  // namespace sbx::run
