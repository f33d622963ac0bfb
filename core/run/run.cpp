// Run: the steps of a one-shot job, in order, and what they add up to.
//
// Theory of operation
// 1. prepare(): everything that can be wrong with the request is found here, before any program is
//    started (Options::head may hold a sandbox without one): script, profile,
//    inputs, output place, plan.
// 2. Job::run(): the sandbox lives and ends in it.
// 3. collect(): with nothing alive any more, /work is looked through; demands are checked, files
//    copied out. A signal to us stops this, too.
// 4. conclude(): one outcome out of all facts, its failure text, the status line.
#include "core/run/run.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/artifacts.h"
#include "core/run/failure.h"
#include "core/run/image_root.h"
#include "core/run/inputs.h"
#include "core/run/job.h"
#include "core/run/language.h"
#include "core/run/program.h"
#include "core/run/python_hook.h"
#include "core/run/scratch.h"
#include "core/supervise/terminal.h"

namespace sbx::run {

namespace {

constexpr double kSecondsPerNs = 1e-9;
constexpr std::string_view kWork = "/work/";

/// A request that was found to be sound.
struct Prepared {
  profile::Profile profile;
  std::optional<UsedImage> image;
  Inputs inputs;
  JobRequest job;
  bool is_profile_command = false;  // see Placed
  std::optional<ArtifactSink> sink;
  std::vector<std::string> require;
  backend::Choice choice;
  std::unique_ptr<backend::Plan> plan;
  std::string id;
  AddedPackages packages;

  bool wants_artifacts(const Options& options) const {
    return options.capture || sink.has_value() || !require.empty();
  }
};

void warn(const Options& options, std::string_view sentence) {
  if (options.warn) options.warn(sentence);
}

/// Whoever is told "no such file" about the command line made a mistake in it: exit status 2.
Error as_usage(Error error) {
  const bool is_theirs = error.code() == Errc::kNotFound || error.code() == Errc::kDenied ||
                         error.code() == Errc::kExists || error.code() == Errc::kLimit;
  return is_theirs ? std::move(error).with_code(Errc::kUsage) : error;
}

#define SBX_TRY_AS_USAGE(expr)                                                                \
  do {                                                                                        \
    if (auto sbx_try_ = (expr); !sbx_try_.ok()) return as_usage(std::move(sbx_try_).error()); \
  } while (false)

Result<profile::Profile> read_profile(const Options& options, Script& script) {
  if (options.ready.has_value()) {
    SBX_ASSIGN(script, read_script(options, {}));
    return *options.ready;
  }
  profile::LoadRequest request;
  request.name_or_path = options.profile;
  request.overrides = options.overrides;
  request.env = options.env;
  request.state_dir = options.state_dir;
  request.private_dirs = options.private_dirs;
  request.allow_outside = options.allow_outside;
  SBX_ASSIGN(script, read_script(options, request));
  if (!script.fallback.empty()) request.fallback = script.fallback;
  return profile::load(request);
}

/// Opens the image that the profile names; its settings, and what it runs.
Status add_image(const Options& options, Prepared& prepared, Placed& placed) {
  const std::string& name = prepared.profile.image;
  if (name.empty()) {
    if (!options.entrypoint.has_value()) return {};
    return Error(Errc::kUsage, "--entrypoint without an image")
        .with_hint("sbx run --image NAME --entrypoint WORD -- ARG...");
  }
  auto used = use_image(options.state_dir, name);
  if (!used.ok()) return as_usage(std::move(used).error());
  prepared.image.emplace(std::move(used).value());
  apply_workdir(*prepared.image, prepared.profile);
  const bool is_code =
      options.program.kind != ProgramKind::kCommand && options.program.kind != ProgramKind::kNone;
  if (is_code) return {};
  SBX_ASSIGN(placed.argv, image_command(*prepared.image, options.entrypoint, placed.argv));
  return {};
}

Result<Placed> load_profile(const Options& options, Prepared& prepared) {
  Script script;
  auto loaded = read_profile(options, script);
  if (!loaded.ok()) return as_usage(std::move(loaded).error());
  prepared.profile = std::move(loaded).value();
  prepared.inputs = Inputs(options.private_dirs);
  auto placed = place_program(options.program, script, prepared.profile, prepared.inputs);
  if (!placed.ok()) return as_usage(std::move(placed).error());
  SBX_TRY(add_image(options, prepared, placed.value()));
  return placed;
}

/// Every sandbox has them, so that they all can begin alike: the plot back end, which the profile
/// points python to, and with a file the place where Python packages are mounted.
std::vector<backend::InputFile> own_files() {
  return {
      {std::string(kPythonHookPath), std::string(python_hook())},
      {text::cat(kPipPackagesPath, "/README"), "Here are the packages that are added with -P.\n"}};
}

std::vector<std::string> environment_of(const Options& options, const Prepared& prepared) {
  if (!prepared.image.has_value()) {
    return make_environment(prepared.profile, options.env, options.tty);
  }
  const ImageEnvironment image{prepared.image->config().env, prepared.image->user.home};
  return make_environment(prepared.profile, options.env, options.tty, &image);
}

JobRequest job_request(const Options& options, const Prepared& prepared, Placed placed) {
  const profile::Profile& profile = prepared.profile;
  JobRequest job;
  job.exec.argv = std::move(placed.argv);
  job.exec.env = environment_of(options, prepared);
  job.exec.cwd = profile.workdir;
  if (!placed.compile.empty()) {
    job.compile = job.exec;
    job.compile->argv = std::move(placed.compile);
    job.on_compiler_text = [&options, compiler = job.compile->argv[0]] {
      if (!options.capture) warn(options, text::cat("the lines above are from ", compiler));
    };
  }
  job.exec.is_last = true;
  if (options.tty) {
    std::optional<backend::TermSize> size;
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      if (!size.has_value()) size = supervise::terminal_size(fd);
    }
    job.exec.tty = size.value_or(backend::TermSize{});
  }
  job.want_stdin = options.want_stdin || options.tty;
  job.capture = options.capture;
  job.output = profile.limits.output;
  job.timeout = profile.limits.timeout;
  if (options.deadline.has_value()) job.deadline_ns = options.deadline->at_ns;
  job.on_sandbox = options.hooks.on_sandbox;
  return job;
}

Status add_packages(const Options& options, PackagesMode mode, Prepared& prepared) {
  if (!prepared.profile.packages.any() && options.packages.empty()) return {};
  if (!options.add_packages) {
    return Error(Errc::kUnsupported, "packages cannot be added here");
  }
  SBX_ASSIGN(prepared.packages, options.add_packages(prepared.profile, options.packages, mode));
  return {};
}

Result<Prepared> prepare(const Options& options, PackagesMode packages) {
  Prepared prepared;
  SBX_ASSIGN(Placed placed, load_profile(options, prepared));
  prepared.is_profile_command = placed.is_profile_command;
  SBX_ASSIGN(prepared.choice, backend::choose(prepared.profile, options.state_dir));
  for (const std::string& spec : options.inputs) {
    SBX_TRY_AS_USAGE(prepared.inputs.add(spec));
  }
  prepared.require = prepared.profile.require;
  prepared.require.insert(prepared.require.end(), options.require.begin(), options.require.end());
  if (options.out.has_value()) {
    auto sink = ArtifactSink::open(*options.out);
    if (!sink.ok()) return as_usage(std::move(sink).error());
    prepared.sink.emplace(std::move(sink).value());
    prepared.sink->set_publishing({.state_dir = options.state_dir,
                                   .is_dated = !options.out_pattern.empty(),
                                   .announce = options.hooks.on_place});
  }
  SBX_TRY(add_packages(options, packages, prepared));
  prepared.job = job_request(options, prepared, std::move(placed));
  SBX_ASSIGN(prepared.id, confine::cgroup_id());
  backend::LaunchRequest launch;
  launch.profile = &prepared.profile;
  launch.id = prepared.id;
  launch.state_dir = options.state_dir;
  launch.inputs = prepared.inputs.mounts();
  launch.files = prepared.inputs.files();
  const std::vector<backend::InputFile> own = own_files();
  launch.files.insert(launch.files.end(), own.begin(), own.end());
  if (prepared.image.has_value()) launch.image = root_of(*prepared.image);
  SBX_ASSIGN(prepared.plan, prepared.choice.backend->plan(launch));
  return prepared;
}

/// Paths below /work that are not the program's: inputs, sbx's own files, the profile's mounts.
std::vector<std::string> no_artifacts(const Prepared& prepared) {
  std::vector<std::string> paths = prepared.inputs.names();
  for (const profile::Mount& mount : prepared.profile.mounts) {
    if (mount.target.starts_with(kWork)) paths.push_back(mount.target.substr(kWork.size()));
  }
  return paths;
}

bool is_past(const std::optional<Deadline>& deadline) {
  return deadline.has_value() && monotonic_ns() >= deadline->at_ns;
}

struct Collected {
  ArtifactList list;
  std::optional<Error> error;
  std::vector<std::string> missing;  // globs without a match
};

Collected collect(const Options& options, const Prepared& prepared, Job& job) {
  Collected collected;
  if (!prepared.wants_artifacts(options)) return collected;
  const Result<int> work = job.open_work();
  if (!work.ok()) {
    if (work.error().code() != Errc::kNotFound) collected.error = work.error();
    return collected;
  }
  const std::vector<std::string> inputs = no_artifacts(prepared);
  ArtifactRequest request;
  request.work_dir = work.value();
  request.inputs = inputs;
  request.should_stop = [&] { return job.pending_signal() != 0 || is_past(options.deadline); };
  auto found = find_artifacts(request);
  if (!found.ok()) {
    collected.error = std::move(found).error();
    return collected;
  }
  collected.list = std::move(found).value();
  Status done;
  if (prepared.sink.has_value()) {
    done = prepared.sink->write(request, collected.list);
  } else if (options.capture) {
    done = hash_artifacts(request, collected.list);
  }
  if (!done.ok()) collected.error = std::move(done).error();
  collected.missing = missing_required(collected.list, prepared.require);
  for (const std::string& warning : collected.list.warnings) {
    warn(options, warning);
  }
  return collected;
}

/// Whether the same run may well succeed a little later.
bool is_retryable(const supervise::Outcome& outcome) {
  constexpr std::array kPassing{EAGAIN, ENOMEM, ENOSPC, EMFILE, ENFILE, EBUSY, EDQUOT};
  return outcome.cause == supervise::Cause::kSandboxError && outcome.error.has_value() &&
         std::find(kPassing.begin(), kPassing.end(), outcome.error->sys_errno()) != kPassing.end();
}

void warn_about_output(const Options& options, const Report& report, std::string_view limit) {
  const auto one = [&](const Output& output, std::string_view stream) {
    if (!output.truncated) return;
    warn(options,
         text::cat(stream,
                   " was cut after ",
                   limit,
                   " of ",
                   output.bytes,
                   " bytes: raise --output-limit (limits.output)"));
  };
  one(report.out, "standard output");
  one(report.err, "standard error");
}

/// Limits that sbx itself holds, after those of the backend.
void add_own_limits(const Options& options,
                    const profile::Limits& limits,
                    std::vector<confine::InForce>& in_force) {
  if (options.deadline.has_value()) {
    in_force.push_back({.limit = "deadline",
                        .value = text::cat(options.deadline->given.v, "ms"),
                        .mechanism = "timer of sbx over waiting, all attempts and collecting"});
  }
  if (limits.timeout.has_value()) {
    in_force.push_back({.limit = "timeout",
                        .value = text::cat(limits.timeout->v, "ms"),
                        .mechanism = "timer of sbx, SIGTERM, after 2 s SIGKILL to all"});
  }
  if (limits.output.has_value()) {
    in_force.push_back({.limit = "output",
                        .value = text::cat(limits.output->v),
                        .mechanism = "counted by sbx for stdout and stderr each"});
  }
}

Report run_prepared(const Options& options, Prepared& prepared) {
  for (const std::string& warning : prepared.plan->warnings()) {
    if (options.warn_of_host) warn(options, warning);
  }
  Job job(prepared.job);
  JobEnd end = job.run(*prepared.plan, options.head);
  const std::int64_t ended_ns = monotonic_ns();
  Collected collected = collect(options, prepared, job);
  const bool was_cut = collected.error.has_value() && collected.error->sys_errno() == EINTR;
  if (const int signo = job.pending_signal(); signo != 0) {
    end.facts.interrupted_by = signo;
  } else if (was_cut && is_past(options.deadline)) {
    end.facts.timed_out = true;
    end.missed_deadline = true;
  } else if (collected.error.has_value() && !end.facts.sandbox_error.has_value()) {
    end.facts.sandbox_error = std::move(collected.error);
  }
  end.facts.has_cpu_rlimit =
      prepared.profile.limits.cpu_time.has_value() && !prepared.plan->cpu_time().has_value();
  end.facts.required_missing = !collected.missing.empty();
  judge_missing_tool(prepared.job, prepared.is_profile_command, prepared.profile, end);

  Report report;
  report.id = options.id.empty() ? prepared.id : options.id;
  report.profile = prepared.profile.name;
  report.isolation = prepared.choice.backend->name;
  report.isolation_reason = prepared.choice.reason;
  if (prepared.image.has_value()) {
    report.image = {prepared.image->opened.record.name, prepared.image->opened.record.id};
  }
  report.outcome = supervise::classify(end.facts);
  settle_outcome(report);
  const auto missed = end.missed_deadline ? options.deadline : std::nullopt;
  report.failure = failure_of(report,
                              {.profile = prepared.profile,
                               .limits = prepared.plan->limits(),
                               .missing = collected.missing,
                               .missed_deadline = missed});
  add_compile(prepared.job, end, report);
  report.out = std::move(end.out);
  report.err = std::move(end.err);
  report.pip_packages = prepared.packages.pip;
  report.npm_packages = prepared.packages.npm;
  report.artifacts = std::move(collected.list.items);
  report.artifacts_complete = collected.list.is_complete;
  report.usage = end.final.usage;
  report.has_usage = true;
  report.phases = end.phases;
  report.phases.collect_s = static_cast<double>(monotonic_ns() - ended_ns) * kSecondsPerNs;
  report.limits = prepared.plan->limits();
  add_own_limits(options, prepared.profile.limits, report.limits);
  if (!report.failure.has_value() && !report.outcome.limit_hit.empty()) {
    warn(options, limit_failure(prepared.profile, report.outcome.limit_hit, report.limits).message);
  }
  warn_about_output(options, report, to_string(prepared.profile.limits.output.value_or(Bytes{0})));
  static_cast<void>(reclaim_scratch(options.state_dir, Reclaim::kRemove));
  return report;
}

std::string quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    const bool is_plain =
        !word.empty() && word.find_first_of(" \t\n'\"\\$`*?[]{}()<>|&;#~!") == std::string::npos;
    line += is_plain ? text::escape(word) : text::cat('\'', text::escape(word), '\'');
  }
  return line;
}

}  // namespace

void settle_signals() {
  ::signal(SIGPIPE, SIG_IGN);  // relays look at EPIPE instead
  ::signal(SIGXFSZ, SIG_IGN);  // and writers of files at EFBIG
  // Where the caller ignores it, the kernel reaps our children and no wait finds them (waitid(2)).
  ::signal(SIGCHLD, SIG_DFL);
}

std::shared_ptr<backend::HeadStart> begin(bool has_mounts) {
  settle_signals();
  return backend::jail_backend().begin({own_files(), has_mounts});
}

Report attempt(const Options& options) {
  settle_signals();
  auto prepared = prepare(options, PackagesMode::kMake);
  if (!prepared.ok()) return refused(options, prepared.error());
  return run_prepared(options, prepared.value());
}

Result<std::optional<Bytes>> memory_limit(const Options& options) {
  Script script;
  SBX_ASSIGN(const profile::Profile profile, read_profile(options, script));
  return profile.limits.memory;
}

Report execute(const Options& options) {
  Report report = attempt(options);
  write_status(options, report);
  return report;
}

void settle_outcome(Report& report) {
  report.exit_status = supervise::exit_status(report.outcome);
  report.retryable = is_retryable(report.outcome);
}

void write_status(const Options& options, const Report& report) {
  if (!options.status_fd.has_value()) return;
  static_cast<void>(sys::write_all(*options.status_fd, to_status_json(report) + "\n"));
}

Report refused(const Options& options, const Error& error) {
  Report report;
  report.id = options.id;
  const bool is_usage = error.code() == Errc::kUsage;
  report.outcome.cause = is_usage ? supervise::Cause::kUsage : supervise::Cause::kSandboxError;
  report.outcome.error = error;
  settle_outcome(report);
  report.profile = options.profile.value_or("");
  report.failure = Failure{
      .code = std::string(name(error.code())), .message = error.message(), .fix = error.hint()};
  return report;
}

Result<std::string> plan_text(const Options& options) {
  SBX_ASSIGN(const Prepared prepared, prepare(options, PackagesMode::kLookOnly));
  std::string all = text::cat("profile ",
                              prepared.profile.name,
                              ", isolation ",
                              prepared.choice.backend->name,
                              " (",
                              prepared.choice.reason,
                              ")\n");
  all += prepared.plan->to_text();
  if (!all.ends_with('\n')) all += '\n';
  const JobRequest& job = prepared.job;
  if (job.compile.has_value()) all += text::cat("compile ", quoted(job.compile->argv), "\n");
  all += text::cat("exec ", quoted(job.exec.argv), "\n  in ", text::escape(job.exec.cwd), "\n");
  for (const std::string& line : job.exec.env) {
    // Values may be secrets: names only.
    all += text::cat("  env ", text::escape(line.substr(0, line.find('='))), "\n");
  }
  all += text::cat("  stdin ",
                   job.want_stdin ? "ours" : "empty",
                   job.exec.tty.has_value() ? ", terminal" : "",
                   "\n");
  std::vector<confine::InForce> limits = prepared.plan->limits();
  add_own_limits(options, prepared.profile.limits, limits);
  for (const confine::InForce& limit : limits) {
    all += text::cat("limit ",
                     limit.limit,
                     " = ",
                     limit.value,
                     " by ",
                     limit.mechanism,
                     limit.approximate ? " (approximate)" : "",
                     "\n");
  }
  for (const std::string& glob : prepared.require) {
    all += text::cat("require ", text::escape(glob), "\n");
  }
  if (prepared.sink.has_value()) {
    all += text::cat("artifacts to ", text::escape(prepared.sink->target()), "\n");
  }
  for (const std::string& warning : prepared.plan->warnings()) {
    all += text::cat("warning: ", text::escape(warning), "\n");
  }
  return all;
}

}  // namespace sbx::run
