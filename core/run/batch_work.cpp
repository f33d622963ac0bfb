// Batch work: see batch_work.h.
#include "core/run/batch_work.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "core/base/exit_code.h"
#include "core/base/sys.h"
#include "core/run/batch_list.h"
#include "core/run/run.h"

namespace sbx::run {

namespace {

/// The program's input becomes our stdin, where the job takes it from.
Status put_input(const std::string& text) {
  SBX_ASSIGN(const UniqueFd file, sys::memfd_create("stdin"));
  SBX_TRY(sys::write_all(file.get(), text));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return sys_error("rewind the job's stdin");
  return sys::dup_onto(file.get(), STDIN_FILENO, false);
}

Status drop_input() {
  SBX_ASSIGN(const UniqueFd null, sys::open("/dev/null", O_RDONLY));
  return sys::dup_onto(null.get(), STDIN_FILENO, false);
}

Report broken(const Error& error) {
  Report report;
  const bool is_usage = error.code() == Errc::kUsage;
  report.outcome.cause = is_usage ? supervise::Cause::kUsage : supervise::Cause::kSandboxError;
  report.exit_status = is_usage ? kExitUsage : kExitSandbox;
  report.failure = Failure{
      .code = std::string(name(error.code())), .message = error.message(), .fix = error.hint()};
  return report;
}

Report run_job(const BatchRequest& request, const WorkOrder& order, std::string& warnings) {
  auto job = ready_job(request, {order.line, order.text});
  if (!job.ok()) return broken(job.error());
  Options& options = job.value().options;
  options.warn = [&warnings](std::string_view sentence) {
    warnings += sentence;
    warnings += '\n';
  };
  const bool has_input = job.value().input.has_value();
  if (has_input) {
    if (const Status put = put_input(*job.value().input); !put.ok()) return broken(put.error());
  }
  Report report = execute(options);
  if (has_input) {
    if (const Status dropped = drop_input(); !dropped.ok()) return broken(dropped.error());
  }
  return report;
}

}  // namespace

Work batch_work(const BatchRequest& request) {
  return [&request](const WorkOrder& order) {
    WorkDone done;
    const Report report = run_job(request, order, done.warnings);
    done.cause = report.outcome.cause;
    done.exit_status = report.exit_status;
    done.report = to_json(report);
    return done;
  };
}

}  // namespace sbx::run
