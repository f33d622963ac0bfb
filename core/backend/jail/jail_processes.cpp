// Jail processes: see jail_processes.h.
#include "core/backend/jail/jail_processes.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/confine/proc_table.h"

namespace sbx::jail {

namespace {

constexpr uint32_t kNobody = 65534;
constexpr uint64_t kNsPerSecond = 1'000'000'000;

uint64_t ticks_to_ns(uint64_t ticks) {
  static const auto kTicks = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  return ticks / kTicks * kNsPerSecond + ticks % kTicks * kNsPerSecond / kTicks;
}

uint64_t pages_to_bytes(uint64_t pages) {
  static const auto kPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return pages * kPage;
}

/// NULs between arguments become spaces, those at the end go.
std::string command_text(std::string raw) {
  while (!raw.empty() && raw.back() == '\0') {
    raw.pop_back();
  }
  std::replace(raw.begin(), raw.end(), '\0', ' ');
  return raw;
}

uint32_t inside_id(std::span<const IdView> ids, uint32_t id) {
  for (const IdView& map : ids) {
    if (id >= map.outside && id - map.outside < map.count) return id - map.outside + map.inside;
  }
  return kNobody;
}

/// Turns numbers of this process's namespace into numbers inside.
class Numbers {
 public:
  Numbers(int proc, size_t depth) : proc_(proc), depth_(depth) {}

  void put(pid_t outside, pid_t inside) { known_[outside] = inside; }
  /// 0 when there is none, or none inside.
  pid_t inside(pid_t outside) {
    if (outside <= 0) return 0;
    const auto found = known_.find(outside);
    if (found != known_.end()) return found->second;
    const auto status = confine::read_proc_status(proc_, outside);
    const pid_t pid = status && status->pids.size() > depth_ ? status->pids[depth_] : 0;
    known_[outside] = pid;
    return pid;
  }

 private:
  int proc_;
  size_t depth_;
  std::map<pid_t, pid_t> known_;
};

struct Row {
  backend::ProcessInfo info;
  pid_t parent = 0;  // as this process sees it
};

std::optional<Row> read_row(
    int proc, pid_t pid, size_t depth, std::span<const IdView> ids, bool is_frozen) {
  const auto stat = confine::read_proc_stat(proc, pid);
  const auto status = confine::read_proc_status(proc, pid);
  if (!stat || !status || status->pids.size() <= depth) return std::nullopt;
  Row row;
  row.parent = stat->parent;
  row.info.pid = status->pids[depth];
  row.info.host_pid = pid;
  if (status->sessions.size() > depth) row.info.session = status->sessions[depth];
  row.info.uid = inside_id(ids, status->uid);
  row.info.state = stat->state;
  row.info.memory = pages_to_bytes(stat->rss);
  row.info.cpu_ns = ticks_to_ns(stat->cpu_time);
  row.info.started_ns = ticks_to_ns(stat->start_time);
  row.info.name = stat->name;
  // Reading arguments waits for the lock of the process's memory, which one that hangs in the
  // kernel may hold for ever.
  if (stat->state != 'D' || is_frozen) {
    row.info.command = command_text(confine::read_proc_command(proc, pid, backend::kMaxCommand));
  }
  return row;
}

/// "read_bytes: 123" lines.
std::optional<uint64_t> find_value(std::string_view text, std::string_view key) {
  for (const std::string_view line : text::split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    const auto value = parse_count(text::trim(line.substr(key.size())));
    if (value.ok()) return value.value();
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<backend::ProcessInfo>> read_processes(pid_t init,
                                                         std::span<const pid_t> pids,
                                                         std::span<const IdView> ids,
                                                         bool is_frozen) {
  SBX_ASSIGN(const UniqueFd proc, confine::open_proc());
  const auto first = confine::read_proc_status(proc.get(), init);
  std::vector<backend::ProcessInfo> out;
  if (!first) return out;  // it has ended, and everything with it
  const size_t depth = first->pids.size() - 1;
  Numbers numbers(proc.get(), depth);
  numbers.put(init, first->pids[depth]);
  std::vector<Row> rows;
  for (const pid_t pid : pids) {
    if (pid == init || rows.size() >= backend::kMaxProcesses) continue;
    auto row = read_row(proc.get(), pid, depth, ids, is_frozen);
    // Each program begins a session of its own; what is in PID 1's is a worker of the agent.
    if (!row || row->info.session == 0) continue;
    numbers.put(pid, row->info.pid);
    rows.push_back(*std::move(row));
  }
  for (Row& row : rows) {
    row.info.parent = numbers.inside(row.parent);
    out.push_back(std::move(row.info));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return out;
}

void sum_processes(std::span<const pid_t> pids, backend::LiveUsage& out) {
  const auto proc = confine::open_proc();
  if (!proc.ok()) return;
  out.is_summed = true;
  out.cpu_ns = 0;
  out.memory = 0;
  for (const pid_t pid : pids) {
    const auto stat = confine::read_proc_stat(proc.value().get(), pid);
    if (!stat) continue;
    *out.cpu_ns += ticks_to_ns(stat->cpu_time);
    *out.memory += pages_to_bytes(stat->rss);
  }
}

void sum_io(std::span<const pid_t> pids, backend::LiveUsage& out) {
  const auto proc = confine::open_proc();
  if (!proc.ok()) return;
  out.is_io_summed = true;
  out.read_bytes = 0;
  out.write_bytes = 0;
  for (const pid_t pid : pids) {
    const auto text = fs::read_file_at(proc.value().get(), text::cat(pid, "/io"), Bytes{4096});
    if (!text.ok()) continue;
    *out.read_bytes += find_value(text.value(), "read_bytes:").value_or(0);
    *out.write_bytes += find_value(text.value(), "write_bytes:").value_or(0);
  }
}

}  // namespace sbx::jail
