// Language: see language.h.
#include "core/run/language.h"

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "core/base/text.h"

namespace sbx::run {

namespace {

using supervise::Cause;

std::string how_it_ended(const supervise::Outcome& outcome) {
  if (outcome.signal == 0) return text::cat("ended with exit status ", outcome.exit_code);
  return text::cat("was ended by SIG", supervise::signal_name(outcome.signal));
}

}  // namespace

void judge_missing_tool(const JobRequest& request,
                        bool is_profile_command,
                        const profile::Profile& profile,
                        JobEnd& end) {
  const bool is_missing = end.facts.exec_errno == ENOENT || end.facts.exec_errno == ENOTDIR;
  if (!is_missing || end.facts.sandbox_error.has_value()) return;
  const bool is_compiler = end.compile.has_value() && end.compile->exec_errno != 0;
  if (!is_compiler && !is_profile_command) return;
  const std::string& tool = is_compiler ? request.compile->argv[0] : request.exec.argv[0];
  if (!profile.image.empty()) {
    const std::string named = tool.find('/') == std::string::npos ? tool : text::escape(tool);
    std::string message = text::cat(
        "image ", profile.image, " has no ", named, ", which profile ", profile.name, " needs");
    end.facts.exec_error =
        Error(Errc::kNotFound, std::move(message))
            .with_hint(text::cat("install it in the image, take one that has it, or name another "
                                 "command with --set language.interpreter=CMD"));
    end.tool_is_missing = true;
    return;
  }
  std::string fix;
  if (tool == profile.language.path.path) {
    fix = "a file that it needs is not shown; show it as well: -v DIR:DIR";
  } else if (tool.find('/') != std::string::npos) {
    fix = text::cat("if this host has it, show it: --set language.path=", tool);
  } else if (!profile.language.package.empty()) {
    fix = text::cat("apt-get install ", profile.language.package);
  }
  end.facts.sandbox_error = Error(Errc::kUnsupported,
                                  text::cat("profile ",
                                            profile.name,
                                            " needs ",
                                            tool,
                                            ", which is not there inside: ",
                                            end.facts.exec_error->message()))
                                .with_hint(std::move(fix));
  end.tool_is_missing = true;
}

void add_compile(const JobRequest& request, JobEnd& end, Report& report) {
  if (end.tool_is_missing && report.failure.has_value()) report.failure->code = "tool_missing";
  if (!end.compile.has_value()) return;
  Compile compile;
  compile.command = request.compile->argv[0];
  compile.exit_status = exit_status(*end.compile);
  compile.output = std::move(end.compile->output);
  compile.wall_s = end.compile->wall_s;
  report.compile = std::move(compile);
  if (!report.compile->has_failed() || end.compile->exec_error.has_value()) return;
  const Cause cause = report.outcome.cause;
  if (cause == Cause::kTimeout && report.failure.has_value()) {
    report.failure->message += " while compiling";
  }
  if (cause != Cause::kExited && cause != Cause::kSignal && cause != Cause::kOom) return;
  Failure failure{.code = "compile_failed", .message = {}, .fix = {}};
  failure.message =
      text::cat("compiling failed: ", report.compile->command, ' ', how_it_ended(report.outcome));
  if (report.failure.has_value()) {  // a limit
    failure.message += text::cat("; ", report.failure->message);
    failure.fix = report.failure->fix;
  }
  report.failure = std::move(failure);
}

}  // namespace sbx::run
