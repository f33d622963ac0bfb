// Verb session stats: what a session uses, once or again and again.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <string>

#include "cli/output.h"
#include "cli/session.h"
#include "cli/session_numbers.h"
#include "cli/verbs.h"
#include "core/base/clock.h"
#include "core/base/loop.h"
#include "core/base/text.h"
#include "core/session/look.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx session stats NAME [--watch] [--json]"};
constexpr std::string_view kDetails =
    "Shows CPU time, memory now and at most, the number of processes, bytes read from and written "
    "to disks, and what the session's files take on the disk. Where no cgroup counts for the "
    "session, CPU time and memory are sums over the processes that live now; it says so. A paused "
    "session is shown as well; of a stopped one there is the disk alone.";
constexpr std::array kFlags = {
    Flag{.letter = 'w', .name = "watch", .help = "Again every second, until the session ends"},
    Flag{.name = "json", .help = "Print one JSON object, with --watch one a line"},
};
constexpr std::array kExamples = {
    Example{"sbx session stats web", "what it uses now"},
    Example{"sbx session stats web --watch --json", "for a program that looks on"},
};

constexpr Millis kInterval{1000};
/// A walk over all files is not done again before this many times what it took.
constexpr std::int64_t kDiskRest = 20;

struct Sample {
  std::string name;
  session::SessionState state = session::SessionState::kStopped;
  bool is_alive = false;
  std::int64_t at_ns = 0;  // CLOCK_MONOTONIC
  backend::LiveUsage usage;
  std::optional<session::FilesUse> disk;
  std::string disk_problem;
};

std::string or_unknown(const std::optional<std::uint64_t>& bytes) {
  return bytes.has_value() ? bytes_text(*bytes) : "unknown";
}

/// Share of one processor since the sample before, in per cent; nullopt for the first.
std::optional<std::uint64_t> cpu_percent(const Sample& now, const Sample* before) {
  if (before == nullptr || !now.usage.cpu_ns || !before->usage.cpu_ns) return std::nullopt;
  const std::int64_t passed = now.at_ns - before->at_ns;
  if (passed <= 0 || *now.usage.cpu_ns < *before->usage.cpu_ns) return std::nullopt;
  return (*now.usage.cpu_ns - *before->usage.cpu_ns) * 100 / static_cast<std::uint64_t>(passed);
}

std::string as_text(const Sample& now, const Sample* before) {
  std::string out;
  const auto line = [&out](std::string_view key, const std::string& value) {
    constexpr std::size_t kWidth = 11;
    out += key;
    out.append(kWidth - key.size(), ' ');
    out += value + "\n";
  };
  line("session", now.name);
  line("state", std::string(session::name(now.state)));
  if (now.is_alive) {
    const backend::LiveUsage& usage = now.usage;
    const std::string_view summed = usage.is_summed ? " (of the processes that live now)" : "";
    std::string cpu = usage.cpu_ns.has_value() ? seconds_text(*usage.cpu_ns) + "s" : "unknown";
    if (const auto percent = cpu_percent(now, before)) cpu += text::cat(", now ", *percent, "%");
    line("cpu", text::cat(cpu, summed));
    std::string memory = or_unknown(usage.memory);
    if (usage.memory_peak.has_value()) {
      memory += text::cat(", at most ", bytes_text(*usage.memory_peak));
    }
    line("memory", text::cat(memory, summed));
    line("processes", usage.processes.has_value() ? std::to_string(*usage.processes) : "unknown");
    line("disk io",
         text::cat(or_unknown(usage.read_bytes),
                   " read, ",
                   or_unknown(usage.write_bytes),
                   " written",
                   usage.is_io_summed ? " (by the processes that live now)" : ""));
  }
  if (now.disk.has_value()) {
    line("files",
         text::cat(bytes_text(now.disk->bytes.v),
                   " on the disk",
                   now.disk->files.has_value() ? text::cat(", ", *now.disk->files, " files") : ""));
  } else {
    line("files", text::cat("unknown: ", text::escape(now.disk_problem)));
  }
  return out;
}

std::string number(const std::optional<std::uint64_t>& value) {
  return value.has_value() ? std::to_string(*value) : "null";
}

std::string as_json(const Sample& now, const Sample* before) {
  const backend::LiveUsage& usage = now.usage;
  std::optional<std::uint64_t> bytes;
  std::optional<std::uint64_t> files;
  if (now.disk.has_value()) {
    bytes = now.disk->bytes.v;
    files = now.disk->files;
  }
  return text::cat(R"({"schema":1,"session":)",
                   json_string(now.name),
                   R"(,"state":)",
                   json_string(session::name(now.state)),
                   R"(,"time":)",
                   json_string(format_rfc3339(realtime_ns())),
                   R"(,"cpu_s":)",
                   usage.cpu_ns.has_value() ? seconds_number(*usage.cpu_ns) : "null",
                   R"(,"cpu_percent":)",
                   number(cpu_percent(now, before)),
                   R"(,"memory_bytes":)",
                   number(usage.memory),
                   R"(,"memory_peak_bytes":)",
                   number(usage.memory_peak),
                   R"(,"processes":)",
                   number(usage.processes),
                   R"(,"read_bytes":)",
                   number(usage.read_bytes),
                   R"(,"write_bytes":)",
                   number(usage.write_bytes),
                   R"(,"is_summed":)",
                   usage.is_summed ? "true" : "false",
                   R"(,"is_io_summed":)",
                   usage.is_io_summed ? "true" : "false",
                   R"(,"disk_bytes":)",
                   number(bytes),
                   R"(,"disk_files":)",
                   number(files),
                   "}\n");
}

/// Takes samples; keeps the figure of the disk while a new walk would cost too much.
class Sampler {
 public:
  Sampler(const session::Store& store, std::string name) : store_(store), name_(std::move(name)) {}

  Result<Sample> take() {
    SBX_ASSIGN(const session::Listing now, store_.look(name_));
    Sample sample;
    sample.name = name_;
    sample.state = now.state;
    sample.is_alive = now.is_alive();
    if (sample.is_alive) SBX_TRY(ask(now, sample));
    sample.at_ns = monotonic_ns();
    measure_disk(now.record);
    sample.disk = disk_;
    sample.disk_problem = disk_problem_;
    return sample;
  }

 private:
  /// A session that ends just now is shown as what it is then.
  Status ask(const session::Listing& now, Sample& sample) {
    auto client = session::Client::connect(store_, now.record);
    auto usage = client.ok() ? session::ask_usage(client.value())
                             : Result<backend::LiveUsage>(std::move(client).error());
    if (usage.ok()) {
      sample.usage = usage.value();
      return {};
    }
    SBX_ASSIGN(const session::Listing later, store_.look(name_));
    if (later.is_alive()) return std::move(usage).error();
    sample.state = later.state;
    sample.is_alive = false;
    return {};
  }

  void measure_disk(const session::Record& record) {
    const std::int64_t start = monotonic_now().v;
    if (start < disk_again_at_) return;
    auto use = session::disk_use(store_, record);
    disk_.reset();
    if (use.ok()) {
      disk_ = use.value();
    } else {
      disk_problem_ = use.error().message();
    }
    const std::int64_t end = monotonic_now().v;
    disk_again_at_ = end + (end - start) * kDiskRest;
  }

  const session::Store& store_;
  std::string name_;
  std::optional<session::FilesUse> disk_;
  std::string disk_problem_;
  std::int64_t disk_again_at_ = 0;
};

/// On a terminal each text takes the place of the one before.
std::string in_place(const std::string& text, const std::string& before) {
  if (before.empty() || ::isatty(STDOUT_FILENO) == 0) return text;
  const auto lines = std::count(before.begin(), before.end(), '\n');
  return text::cat("\x1b[", lines, "A\x1b[J", text);
}

Status watch(Sampler& sampler, bool is_json) {
  Loop loop;
  const auto stop = [&loop](const signalfd_siginfo& /*info*/) { loop.stop(); };
  SBX_ASSIGN(const Watch interrupted, loop.add_signal(SIGINT, stop));
  SBX_ASSIGN(const Watch terminated, loop.add_signal(SIGTERM, stop));
  std::optional<Sample> before;
  std::string shown;
  while (true) {
    SBX_ASSIGN(Sample now, sampler.take());
    const Sample* const last = before.has_value() ? &*before : nullptr;
    const std::string text = is_json ? as_json(now, last) : as_text(now, last);
    SBX_TRY(print(is_json ? text : in_place(text, shown)));
    if (!now.is_alive) return {};
    shown = text;
    before = std::move(now);
    bool is_due = false;
    const Watch timer = loop.add_timer(kInterval, [&] {
      is_due = true;
      loop.stop();
    });
    SBX_TRY(loop.run());
    if (!is_due) return {};
  }
}

int stats(const Invocation& given) {
  const Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  Sampler sampler(store.value(), given.words()[0]);
  const bool is_json = given.has("json");
  if (given.has("watch")) {
    const Status watched = watch(sampler, is_json);
    return watched.ok() ? 0 : failed(watched.error());
  }
  const Result<Sample> sample = sampler.take();
  if (!sample.ok()) return failed(sample.error());
  return printed(
      print(is_json ? as_json(sample.value(), nullptr) : as_text(sample.value(), nullptr)));
}

}  // namespace

constexpr Verb kSessionStatsVerb = {
    .name = "session stats",
    .summary = "Show what a session uses",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = kOneSession,
    .examples = kExamples,
    .run = stats,
};

}  // namespace sbx::cli
