// Verb run: one program, once, in a sandbox that is gone afterwards.
#include "core/run/run.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "cli/cron_options.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 5> kUsage = {
    "sbx run [FLAG...] FILE [ARG...]",
    "sbx run [FLAG...] -c CODE [-- ARG...]",
    "sbx run [FLAG...] - [ARG...] < CODE",
    "sbx run [FLAG...] -- CMD [ARG...]",
    "sbx run [FLAG...] --image NAME [-- ARG...]",
};

constexpr std::string_view kDetails =
    "The program sees the host's /usr read-only (or, with --image, the files of an image), an "
    "empty working directory /work, and nothing of "
    "your files but what -i and -v give it. It has no network. When it ends, everything it "
    "made is thrown away, except what -o brings out.\n\n"
    "The profile comes from -p, else $SBX_PROFILE, else the file's extension or #! line; -c "
    "without any means python. Flags stand before FILE: every word behind it is the script's (a "
    "-- directly behind FILE is dropped). Words behind -- are passed on byte for byte.\n\n"
    "A flag wins over the SBX_* variable, which wins over the profile. The exit status is the "
    "program's own; 124 time limit, 125 no sandbox, 126/127 not executable or not found, 128+N "
    "ended by signal N, 2 mistake in the command or profile.";

constexpr std::string_view kWhat = "What to run";
constexpr std::string_view kFiles = "Files in and out";
constexpr std::string_view kProgram = "The program's surroundings";
constexpr std::string_view kLimits = "Limits (the profile's when not given; unlimited lifts one)";
constexpr std::string_view kCron = "Unattended (cron); any of these makes it quiet unless it fails";
constexpr std::string_view kResult = "Result";

constexpr std::array<std::string_view, 3> kIsolations = {"jail", "vm", "auto"};
constexpr std::array<std::string_view, 2> kAccels = {"kvm", "tcg"};
constexpr std::array<std::string_view, 3> kOverlaps = {"skip", "wait", "kill"};
constexpr std::array<std::string_view, 6> kLevels = {
    "trace", "debug", "info", "warn", "error", "off"};

constexpr std::array kFlags = {
    Flag{'p',
         "profile",
         "NAME",
         "Profile, by name or path of a .yaml file",
         kWhat,
         Repeat::kLast,
         Complete::kProfile},
    Flag{'c',
         "code",
         "CODE",
         "Run this text (as python unless -p says otherwise)",
         kWhat,
         Repeat::kOnce},
    Flag{'\0',
         "image",
         "NAME",
         "Take the files of this image as the root instead of the host's; see sbx image ls",
         kWhat},
    Flag{'\0',
         "entrypoint",
         "WORD",
         "In front of the command instead of the image's entry point; '' for nothing",
         kWhat},
    Flag{'\0',
         "isolation",
         "KIND",
         "jail, vm or auto (default jail)",
         kWhat,
         Repeat::kLast,
         Complete::kChoice,
         kIsolations},
    Flag{'\0',
         "accel",
         "HOW",
         "What runs a virtual machine: kvm (the default), or tcg, which needs nothing and is slow",
         kWhat,
         Repeat::kLast,
         Complete::kChoice,
         kAccels},
    Flag{'\0',
         "set",
         "KEY=VALUE",
         "Set any key of the profile; a flag of its own wins over it; repeatable",
         kWhat,
         Repeat::kAll},
    Flag{'\0',
         "allow-outside",
         "",
         "Let a project's own profile reach outside its directory (mounts, variables)",
         kWhat},

    Flag{'i',
         "in",
         "HOST[=NAME]",
         "Show a file or directory read-only as /work/NAME (default: its own name); repeatable",
         kFiles,
         Repeat::kAll,
         Complete::kFile},
    Flag{'o',
         "out",
         "DIR|FILE",
         "Bring out what appears in /work, into a directory (with manifest.json) or as .tar, "
         ".tar.gz, .tgz, .tar.zst or .zip; %Y-%m-%d and the like are filled in",
         kFiles,
         Repeat::kLast,
         Complete::kFile},
    Flag{'\0',
         "require",
         "GLOB",
         "Fail unless the program leaves a matching file; repeatable",
         kFiles,
         Repeat::kAll},
    Flag{'v',
         "mount",
         "SRC:DST[:ro|rw|overlay]",
         "Show a host file or directory at DST, read-only unless :rw; with :overlay it can be "
         "changed and the host's stays as it is; for names with colons "
         "src=SRC,dst=DST,mode=ro; repeatable",
         kFiles,
         Repeat::kAll,
         Complete::kFile},
    Flag{'P',
         "package",
         "SPEC",
         "Add a package: numpy==1.26.4 with a Python profile, left-pad@1.3.0 with a Node.js one, "
         "pip:SPEC or npm:SPEC with any; repeatable",
         kFiles,
         Repeat::kAll},

    Flag{'e',
         "env",
         "NAME[=VALUE]",
         "Set a variable; without =VALUE pass on ours; repeatable",
         kProgram,
         Repeat::kAll},
    Flag{'w', "workdir", "DIR", "Start in this directory (default /work)", kProgram},
    Flag{'t', "tty", "", "Give the program a terminal, and our input to it", kProgram},
    Flag{'\0', "stdin", "", "Hand our stdin to the program (default: it reads nothing)", kProgram},

    Flag{'m', "memory", "SIZE", "Memory of all processes together: 512M, 2G", kLimits},
    Flag{'\0', "pids", "N", "Processes and threads", kLimits},
    Flag{'\0', "disk", "SIZE", "All files it writes, in /work, /tmp, /dev/shm and home", kLimits},
    Flag{'\0', "inodes", "N", "Files and directories it makes there", kLimits},
    Flag{'\0',
         "cpus",
         "N",
         "Processor time per second of time: 1.5 is one and a half CPUs",
         kLimits},
    Flag{'\0', "timeout", "TIME", "End it after this time: 500ms, 30s, 5m, 2h", kLimits},
    Flag{'\0', "cpu-time", "TIME", "Processor time of all processes together: 10s, 5m", kLimits},
    Flag{'\0', "output-limit", "SIZE", "Output passed on, for stdout and stderr each", kLimits},
    Flag{'\0', "open-files", "N", "Open files of each process", kLimits},

    Flag{'\0', "lock", "NAME", "Run only one of this name at a time (of this user)", kCron},
    Flag{'\0',
         "on-overlap",
         "RULE",
         "When the lock is held: skip (default; status 0), wait, or kill the one that holds it",
         kCron,
         Repeat::kLast,
         Complete::kChoice,
         kOverlaps},
    Flag{'\0',
         "deadline",
         "TIME",
         "End all of it after this time: waiting, every attempt, collecting files",
         kCron},
    Flag{'\0', "retry", "N", "Try up to N times more when the cause may pass by itself", kCron},
    Flag{'\0', "record", "", "Keep a record of the run, for sbx runs", kCron},
    Flag{'\0',
         "keep",
         "N",
         "Keep the records of the N newest runs of this lock (or -o), and what -o made for the N "
         "newest; remove older ones (implies --record)",
         kCron},

    Flag{'\0', "json", "", "Print one JSON object with output, cause, usage, artifacts", kResult},
    Flag{'\0', "status-fd", "N", "Write the cause as one JSON line to this descriptor", kResult},
    Flag{'q', "quiet", "", "No warnings, only errors", kResult},
    Flag{'\0',
         "log-level",
         "LEVEL",
         "trace, debug, info, warn, error or off (default warn)",
         kResult,
         Repeat::kLast,
         Complete::kChoice,
         kLevels},
    Flag{'\0', "dry-run", "", "Print what would be done, and do nothing", kResult},
};

constexpr std::array kExamples = {
    Example{"sbx run -c 'print(6*7)'", "a line of Python"},
    Example{"sbx run -i data.csv -o out report.py --year 2024",
            "a script of yours with one input; its charts land in out/"},
    Example{"sbx run -p bash -m 256M --timeout 10s -- ls -l /", "a command, with limits"},
    Example{"curl -s https://example.org/job.py | sbx run -p python - --fast",
            "code from a pipe, with an argument"},
    Example{"sbx run --json -c 'print(1)' | jq -r .cause", "for programs: how it ended"},
    Example{"sbx run --lock daily --deadline 1h --keep 30 -o 'reports/%Y-%m-%d' report.py",
            "for cron: one at a time, the last 30 kept (in a crontab write \\%)"},
    Example{"sbx run -P numpy==1.26.4 --set packages.source=wheels plot.py",
            "with a package out of a directory of wheels"},
    Example{"sbx run -p node --dry-run app.js", "what would be done"},
};

/// A mistake found before the job's engine had anything to report on.
int refuse(const Error& error, bool json, std::optional<int> status_fd) {
  print_error(error);
  bool is_usage = error.code() == Errc::kUsage;
  run::Report report;
  report.outcome.cause = is_usage ? supervise::Cause::kUsage : supervise::Cause::kSandboxError;
  report.exit_status = is_usage ? kExitUsage : kExitSandbox;
  report.failure = run::Failure{std::string(name(error.code())), error.message(), error.hint()};
  if (status_fd) (void)sys::write_all(*status_fd, run::to_status_json(report) + "\n");
  if (json) (void)print(run::to_json(report) + "\n");
  return report.exit_status;
}

/// The same, when the command line itself could not be read.
int refuse_words(const Error& error, std::span<const std::string> words) {
  return refuse(error, std::ranges::find(words, "--json") != words.end(), {});
}

int show(const run::Report& report, bool json) {
  if (report.failure) {
    Error error(Errc::kSystem, report.failure->message);
    print_error(std::move(error).with_hint(report.failure->fix));
  }
  if (json) {
    if (Status written = print(run::to_json(report) + "\n"); !written.ok()) return printed(written);
  }
  return report.exit_status;
}

/// Unattended: nothing when all is well, else one line, fit for cron's mail.
int show_unattended(const run::Options& options,
                    const run::CronOptions& cron,
                    const run::Report& report,
                    const Invocation& given) {
  if (report.exit_status != 0) {
    print_error(Error(Errc::kSystem, text::escape(run::failure_line(options, cron, report))));
  } else if (!report.skip_reason.empty() && !given.has("quiet") && ::isatty(STDERR_FILENO) == 1) {
    (void)print_notice(text::cat("sbx: skipped: ", text::escape(report.skip_reason), "\n"));
  }
  if (given.has("json")) {
    if (Status written = print(run::to_json(report) + "\n"); !written.ok()) return printed(written);
  }
  return report.exit_status;
}

int show_plan(const run::Options& options) {
  Result<std::string> plan = run::plan_text(options);
  if (plan.ok()) return printed(print(plan.value()));
  return refuse(plan.error(), false, options.status_fd);
}

/// The sandbox comes to be while flags, profile and inputs are read; these words make none.
std::shared_ptr<backend::HeadStart> begin(std::span<const std::string> words) {
  constexpr std::array<std::string_view, 3> kNoJob = {"--dry-run", "--help", "-h"};
  if (std::ranges::find_first_of(words, kNoJob) != words.end()) return nullptr;
  // With an image nothing is as in the others.
  const bool has_image = std::ranges::any_of(
      words, [](const std::string& word) { return word.starts_with("--image"); });
  if (has_image || profile::process_env("SBX_IMAGE").has_value()) return nullptr;
  // Only guesses: with a wrong one the sandbox is begun once more, 1 ms later.
  const bool has_mounts = std::ranges::any_of(words, [](const std::string& word) {
    return word.starts_with("-v") || word.starts_with("--mount");
  });
  // Packages of Python have a place in every root, those of Node.js make one.
  const bool has_packages = std::ranges::any_of(words, [](const std::string& word) {
    return word.starts_with("-P") || word.starts_with("--package");
  });
  const bool is_node = std::ranges::any_of(words, [](const std::string& word) {
    return word == "node" || word.ends_with("js") || word.find("npm:") != std::string::npos;
  });
  return run::begin(has_mounts || (has_packages && is_node));
}

int refuse_given(const Invocation& given, const Error& error) {
  std::optional<int> status_fd;
  if (const std::string* fd = given.last("status-fd")) {
    if (Result<int> number = status_fd_of(*fd); number.ok()) status_fd = number.value();
  }
  return refuse(error, given.has("json"), status_fd);
}

int run_once(const Invocation& given) {
  Result<run::Options> options = options_of(given);
  if (!options.ok()) return refuse_given(given, options.error());
  Result<std::optional<run::CronOptions>> cron = cron_options_of(given, options.value());
  if (!cron.ok()) return refuse_given(given, cron.error());
  if (given.has("dry-run")) return show_plan(options.value());
  options.value().head = given.head();
  if (!cron.value().has_value()) return show(run::execute(options.value()), given.has("json"));
  options.value().warn_of_host = false;
  const run::Report report = run::execute_cron(options.value(), *cron.value());
  return show_unattended(options.value(), *cron.value(), report, given);
}

}  // namespace

constexpr Verb kRunVerb = {
    .name = "run",
    .summary = "Run a program once in a sandbox and throw everything else away",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.max = 1, .complete = Complete::kFile, .name = "FILE", .program = true},
    .examples = kExamples,
    .run = run_once,
    .begin = begin,
    .refuse = refuse_words,
};

}  // namespace sbx::cli
