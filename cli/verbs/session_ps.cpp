// Verb session ps: what runs in a session.
#include <algorithm>
#include <array>
#include <ctime>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/session.h"
#include "cli/session_numbers.h"
#include "cli/verbs.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/session/look.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx session ps NAME [--json]"};
constexpr std::string_view kDetails =
    "Lists every process of the session, by its number inside, with the exec that it came from. It "
    "is read from the host, so it works on a paused session and on one that hangs. In a session "
    "that is stopped nothing runs: the list is empty.";
constexpr std::array kFlags = {Flag{.name = "json", .help = "Print one JSON object a line"}};
constexpr std::array kExamples = {
    Example{"sbx session ps web", "what runs, what it uses"},
    Example{"sbx session ps web --json | jq -r 'select(.exec == 3) | .pid'", "of one exec"},
};

using Row = std::array<std::string, 8>;

std::int64_t boot_ns() {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  timespec now{};
  (void)::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::int64_t{now.tv_sec} * kNsPerSecond + now.tv_nsec;
}

std::string command_of(const backend::ProcessInfo& process) {
  if (process.command.empty()) return text::cat("[", text::escape(process.name), "]");
  return text::escape(process.command);
}

Row row_of(const backend::ProcessInfo& process) {
  return {std::to_string(process.pid),
          std::to_string(process.parent),
          process.exec_id.has_value() ? std::to_string(*process.exec_id) : "-",
          std::to_string(process.uid),
          std::string(1, process.state),
          seconds_text(process.cpu_ns),
          bytes_text(process.memory),
          command_of(process)};
}

std::string json_of(const backend::ProcessInfo& process, std::int64_t boot_at_ns) {
  const auto started = static_cast<std::int64_t>(process.started_ns) + boot_at_ns;
  return text::cat(R"({"schema":1,"pid":)",
                   process.pid,
                   R"(,"host_pid":)",
                   process.host_pid != 0 ? std::to_string(process.host_pid) : "null",
                   R"(,"parent":)",
                   process.parent,
                   R"(,"exec":)",
                   process.exec_id.has_value() ? std::to_string(*process.exec_id) : "null",
                   R"(,"uid":)",
                   process.uid,
                   R"(,"state":)",
                   json_string(std::string(1, process.state)),
                   R"(,"cpu_s":)",
                   seconds_number(process.cpu_ns),
                   R"(,"memory_bytes":)",
                   process.memory,
                   R"(,"started":)",
                   json_string(format_rfc3339(started)),
                   R"(,"name":)",
                   json_string(process.name),
                   R"(,"command":)",
                   json_string(process.command),
                   "}\n");
}

Result<std::vector<backend::ProcessInfo>> look(const std::string& name) {
  SBX_ASSIGN(const session::Store store, open_sessions());
  SBX_ASSIGN(const session::Listing now, store.look(name));
  if (!now.is_alive()) return std::vector<backend::ProcessInfo>();
  SBX_ASSIGN(session::Client client, session::Client::connect(store, now.record));
  return session::ask_processes(client);
}

int ps(const Invocation& given) {
  const auto all = look(given.words()[0]);
  if (!all.ok()) return failed(all.error());
  if (!given.has("json")) {
    std::vector<Row> rows{{"PID", "PARENT", "EXEC", "USER", "STATE", "CPU", "MEMORY", "COMMAND"}};
    for (const backend::ProcessInfo& process : all.value()) {
      rows.push_back(row_of(process));
    }
    return printed(print(table_text(std::span<const Row>(rows))));
  }
  const std::int64_t boot_at_ns = realtime_ns() - boot_ns();
  std::string lines;
  for (const backend::ProcessInfo& process : all.value()) {
    lines += json_of(process, boot_at_ns);
  }
  return printed(print(lines));
}

}  // namespace

constexpr Verb kSessionPsVerb = {
    .name = "session ps",
    .summary = "List what runs in a session",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = kOneSession,
    .examples = kExamples,
    .run = ps,
};

}  // namespace sbx::cli
