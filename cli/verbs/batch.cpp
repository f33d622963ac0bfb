// Verb batch: many runs out of a list of jobs.
#include "core/run/batch.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_options.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 2> kUsage = {
    "sbx batch [FLAG...] JOBS.jsonl",
    "sbx batch [FLAG...] - < JOBS.jsonl",
};

constexpr std::string_view kDetails =
    "JOBS.jsonl has one JSON object per line. Its fields are named as the flags of sbx run: "
    "\"profile\", \"in\", \"out\", \"env\", \"memory\", \"timeout\", \"set\", \"require\" and so "
    "on; \"code\", \"file\" (with \"args\") or \"command\" (an array) is what to run, \"stdin\" "
    "the "
    "text of its input, \"id\" its name. Flags given here hold for every job that does not say "
    "otherwise.\n\n"
    "One line for each job, in order of completion: the object of sbx run --json with \"job\" and "
    "\"line\". A failing job stops no other. Memory limits of running jobs together stay below "
    "what is free when the batch starts; a job above that, or without a limit, runs alone.\n\n"
    "With --results, a batch that was interrupted or killed goes on with --resume: jobs that have "
    "a result are not run again. Ctrl-C starts no more jobs and ends those that run.\n\n"
    "Exit status: 0 all jobs ok, 1 some job failed, 2 mistake in the command or the list, 125 no "
    "job had a working sandbox or results cannot be written, 130/143 interrupted.";

constexpr std::string_view kBatch = "The batch";
constexpr std::string_view kJobs = "For every job";
constexpr std::string_view kLimits = "Limits of every job (unlimited lifts one)";

constexpr std::array<std::string_view, 3> kIsolations = {"jail", "vm", "auto"};
constexpr std::array<std::string_view, 2> kAccels = {"kvm", "tcg"};
constexpr std::array<std::string_view, 6> kLevels = {
    "trace", "debug", "info", "warn", "error", "off"};

constexpr std::array kFlags = {
    Flag{'j', "jobs", "N", "Jobs at a time (default: one for each CPU we may use)", kBatch},
    Flag{'\0',
         "results",
         "FILE",
         "Write results to this new file instead of stdout",
         kBatch,
         Repeat::kLast,
         Complete::kFile},
    Flag{'\0', "resume", "", "Go on: run only jobs without a result in --results FILE", kBatch},
    Flag{'\0', "fail-fast", "", "Start no more jobs once one failed", kBatch},
    Flag{'\0',
         "memory-total",
         "SIZE",
         "Memory of all running jobs together (default: what is free, less a reserve)",
         kBatch},
    Flag{'q', "quiet", "", "No progress, no warnings, only errors", kBatch},
    Flag{'\0',
         "log-level",
         "LEVEL",
         "trace, debug, info, warn, error or off (default warn)",
         kBatch,
         Repeat::kLast,
         Complete::kChoice,
         kLevels},

    Flag{'p',
         "profile",
         "NAME",
         "Profile, by name or path of a .yaml file",
         kJobs,
         Repeat::kLast,
         Complete::kProfile},
    Flag{'\0',
         "image",
         "NAME",
         "Take the files of this image as the root instead of the host's; see sbx image ls",
         kJobs},
    Flag{'\0',
         "entrypoint",
         "WORD",
         "In front of the command instead of the image's entry point; '' for nothing",
         kJobs},
    Flag{'\0',
         "isolation",
         "KIND",
         "jail, vm or auto (default jail)",
         kJobs,
         Repeat::kLast,
         Complete::kChoice,
         kIsolations},
    Flag{'\0',
         "accel",
         "HOW",
         "What runs a virtual machine: kvm (the default), or tcg, which needs nothing and is slow",
         kJobs,
         Repeat::kLast,
         Complete::kChoice,
         kAccels},
    Flag{'\0', "set", "KEY=VALUE", "Set any key of the profile; repeatable", kJobs, Repeat::kAll},
    Flag{'\0',
         "allow-outside",
         "",
         "Let a project's own profile reach outside its directory",
         kJobs},
    Flag{'i',
         "in",
         "HOST[=NAME]",
         "Show a file or directory read-only as /work/NAME; repeatable",
         kJobs,
         Repeat::kAll,
         Complete::kFile},
    Flag{'o',
         "out",
         "DIR",
         "Bring out what appears in /work, into DIR/ID for each job without an \"out\"",
         kJobs,
         Repeat::kLast,
         Complete::kDirectory},
    Flag{'\0',
         "require",
         "GLOB",
         "Fail a job that leaves no matching file; repeatable",
         kJobs,
         Repeat::kAll},
    Flag{'v',
         "mount",
         "SRC:DST[:ro|rw|overlay]",
         "Show a host file or directory at DST, read-only unless :rw; with :overlay it can be "
         "changed and the host's stays as it is; repeatable",
         kJobs,
         Repeat::kAll,
         Complete::kFile},
    Flag{'P',
         "package",
         "SPEC",
         "Add a package: numpy==1.26.4 with a Python profile, left-pad@1.3.0 with a Node.js one, "
         "pip:SPEC or npm:SPEC with any; repeatable",
         kJobs,
         Repeat::kAll},
    Flag{'e',
         "env",
         "NAME[=VALUE]",
         "Set a variable; without =VALUE pass on ours; repeatable",
         kJobs,
         Repeat::kAll},
    Flag{'w', "workdir", "DIR", "Start in this directory (default /work)", kJobs},

    Flag{'m', "memory", "SIZE", "Memory of all processes of a job together: 512M, 2G", kLimits},
    Flag{'\0', "pids", "N", "Processes and threads", kLimits},
    Flag{'\0', "disk", "SIZE", "All files it writes, in /work, /tmp, /dev/shm and home", kLimits},
    Flag{'\0', "inodes", "N", "Files and directories it makes there", kLimits},
    Flag{'\0', "cpus", "N", "Processor time per second of time: 1.5 is one and a half", kLimits},
    Flag{'\0', "timeout", "TIME", "End it after this time: 500ms, 30s, 5m, 2h", kLimits},
    Flag{'\0', "cpu-time", "TIME", "Processor time of all its processes together", kLimits},
    Flag{'\0', "output-limit", "SIZE", "Output kept, for stdout and stderr each", kLimits},
    Flag{'\0', "open-files", "N", "Open files of each process", kLimits},
};

constexpr std::array kExamples = {
    Example{"sbx batch jobs.jsonl -j 4 > results.jsonl", "all jobs, four at a time"},
    Example{"sbx batch jobs.jsonl --results results.jsonl --resume",
            "start, or go on after an interruption"},
    Example{"jq -c '{file:., timeout:\"10s\"}' names.json | sbx batch - -m 256M",
            "jobs from a pipe, a limit for all"},
    Example{"sbx batch jobs.jsonl | jq -r 'select(.exit_code != 0) | .job'", "which jobs failed"},
};

constexpr std::uint64_t kMostSlots = 1024;

Error usage(std::string message, std::string hint = {}) {
  return Error(Errc::kUsage, std::move(message)).with_hint(std::move(hint));
}

unsigned usable_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1U, static_cast<unsigned>(CPU_COUNT(&set)));
}

Result<unsigned> slots_of(const Invocation& given) {
  const std::string* value = given.last("jobs");
  if (value == nullptr) return usable_cpus();
  auto number = parse_count(*value);
  if (!number.ok()) return std::move(number).error().prefixed("-j");
  if (number.value() < 1 || number.value() > kMostSlots) {
    return usage(text::cat("-j: ", *value, " is not from 1 to ", kMostSlots));
  }
  return static_cast<unsigned>(number.value());
}

Result<UniqueFd> open_list(const std::string& name) {
  if (name == "-") return sys::dup(STDIN_FILENO);
  auto list = sys::open(name, O_RDONLY | O_NOCTTY);
  if (!list.ok()) return std::move(list).error().with_code(Errc::kUsage);
  SBX_ASSIGN(const struct stat info, sys::fstat(list.value().get()));
  if (S_ISDIR(info.st_mode)) return usage(text::cat(text::escape(name), " is a directory"));
  return list;
}

/// The list must not be what the results go to.
Status check_results(int list, const std::string& path) {
  struct stat results {};
  if (::stat(path.c_str(), &results) != 0) return {};
  SBX_ASSIGN(const struct stat info, sys::fstat(list));
  if (!S_ISREG(results.st_mode) || results.st_dev != info.st_dev || results.st_ino != info.st_ino) {
    return {};
  }
  return usage(text::cat("--results: ", text::escape(path), " is the list of jobs"),
               "name another file");
}

Result<run::BatchRequest> request_of(const Invocation& given) {
  run::BatchRequest request;
  SBX_ASSIGN(request.defaults, common_options_of(given));
  SBX_ASSIGN(request.slots, slots_of(given));
  const auto keys = key_fields();
  request.keys.assign(keys.begin(), keys.end());
  request.list_name = given.words()[0] == "-" ? "stdin" : text::escape(given.words()[0]);
  if (const std::string* file = given.last("results")) request.results = *file;
  request.resume = given.has("resume");
  if (request.resume && !request.results) {
    return usage("--resume needs the file with the results so far", "add --results FILE");
  }
  request.fail_fast = given.has("fail-fast");
  if (const std::string* size = given.last("memory-total")) {
    auto bytes = parse_bytes(*size);
    if (!bytes.ok()) return std::move(bytes).error().prefixed("--memory-total");
    request.memory = bytes.value();
  }
  if (const std::string* dir = given.last("out")) {
    if (Status made = fs::mkdirs(*dir, 0777); !made.ok()) {
      return std::move(made).error().with_code(Errc::kUsage).prefixed("-o");
    }
    request.out = *dir;
  }
  return request;
}

/// Says each sentence once: jobs of a batch are much alike.
class Warnings {
 public:
  explicit Warnings(ProgressBar& bar) : bar_(bar) {}
  void operator()(std::string_view sentence) {
    constexpr std::size_t kMost = 100;
    if (seen_.size() >= kMost || !seen_.emplace(sentence).second) return;
    bar_.clear();
    print_warning(sentence);
    if (seen_.size() == kMost) print_warning("further warnings are not shown");
  }

 private:
  ProgressBar& bar_;
  std::set<std::string, std::less<>> seen_;
};

void say_end(const run::BatchReport& report) {
  const run::BatchCounts& counts = report.end.counts;
  if (counts.failed > 0) {
    print_error(Error(Errc::kSystem,
                      text::cat(counts.failed,
                                " of ",
                                counts.finished(),
                                " jobs failed",
                                report.end.is_stopped ? ", the rest was not started" : "",
                                report.first_failure.empty() ? "" : "; the first: ",
                                report.first_failure)));
  }
  if (report.end.signal != 0) {
    print_error(Error(Errc::kSystem,
                      text::cat("interrupted; ", counts.ok + counts.failed, " jobs are done")));
  }
}

int run_all(const Invocation& given) {
  Result<run::BatchRequest> request = request_of(given);
  if (!request.ok()) return failed(request.error());
  Result<UniqueFd> list = open_list(given.words()[0]);
  if (!list.ok()) return failed(list.error());
  run::BatchRequest& batch = request.value();
  batch.list_fd = list.value().get();
  if (batch.results) {
    Status checked = check_results(batch.list_fd, *batch.results);
    if (!checked.ok()) return failed(checked.error());
  }
  ProgressBar bar(!given.has("quiet"));
  Warnings warnings(bar);
  if (batch.defaults.warn) batch.defaults.warn = [&](std::string_view text) { warnings(text); };
  batch.progress = [&bar](const run::BatchProgress& progress) { bar.show(progress); };
  Result<run::BatchReport> report = run::run_batch(batch);
  bar.clear();
  if (!report.ok()) return failed(report.error());
  say_end(report.value());
  return run::batch_exit_status(report.value().end);
}

}  // namespace

constexpr Verb kBatchVerb = {
    .name = "batch",
    .summary = "Run a list of jobs, several at a time, one result line for each",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1, .complete = Complete::kFile, .name = "JOBS"},
    .examples = kExamples,
    .run = run_all,
};

}  // namespace sbx::cli
