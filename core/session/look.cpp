// Look: see look.h.
#include "core/session/look.h"

#include <fcntl.h>

#include <array>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/session/peer.h"
#include "core/workspace/layer_store.h"

namespace sbx::session {

namespace {

/// What all command lines of one answer may take together, far below kLongestFrame.
constexpr std::size_t kMostText = std::size_t{4} << 20;
constexpr std::size_t kNumbers = 9;

/// Nine numbers with blanks between, the state letter, NUL, the name, NUL, the command line.
std::string process_text(const backend::ProcessInfo& process, std::size_t most) {
  return text::cat(process.pid,
                   " ",
                   process.host_pid,
                   " ",
                   process.parent,
                   " ",
                   process.session,
                   " ",
                   process.uid,
                   " ",
                   process.exec_id.value_or(0),
                   " ",
                   process.memory,
                   " ",
                   process.cpu_ns,
                   " ",
                   process.started_ns,
                   " ",
                   process.state,
                   std::string_view("\0", 1),
                   process.name,
                   std::string_view("\0", 1),
                   std::string_view(process.command).substr(0, most));
}

Result<backend::ProcessInfo> parse_process(std::string_view text) {
  const Error malformed(Errc::kProtocol, "the supervisor's list of processes is malformed");
  const std::size_t first = text.find('\0');
  const std::size_t second = first == std::string_view::npos ? first : text.find('\0', first + 1);
  if (second == std::string_view::npos) return malformed;
  const auto words = text::split(text.substr(0, first), ' ');
  if (words.size() != kNumbers + 1 || words.back().size() != 1) return malformed;
  std::array<std::uint64_t, kNumbers> numbers{};
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const char* const end = words[i].data() + words[i].size();
    const auto [stop, error] = std::from_chars(words[i].data(), end, numbers[i]);
    if (error != std::errc() || stop != end) return malformed;
  }
  backend::ProcessInfo out;
  out.pid = static_cast<std::int32_t>(numbers[0]);
  out.host_pid = static_cast<std::int32_t>(numbers[1]);
  out.parent = static_cast<std::int32_t>(numbers[2]);
  out.session = static_cast<std::int32_t>(numbers[3]);
  out.uid = static_cast<std::uint32_t>(numbers[4]);
  if (numbers[5] != 0) out.exec_id = static_cast<std::uint32_t>(numbers[5]);
  out.memory = numbers[6];
  out.cpu_ns = numbers[7];
  out.started_ns = numbers[8];
  out.state = words.back().front();
  out.name = text.substr(first + 1, second - first - 1);
  out.command = text.substr(second + 1);
  return out;
}

void set(Fields& fields, std::string_view key, const std::optional<std::uint64_t>& value) {
  if (value.has_value()) fields.set(key, static_cast<std::int64_t>(*value));
}

std::optional<std::uint64_t> get(const Fields& fields, std::string_view key) {
  if (!fields.has(key)) return std::nullopt;
  return static_cast<std::uint64_t>(fields.number(key));
}

/// Blocks of the disk of a virtual machine.
Result<FilesUse> disk_file_use(const Store& store, const Record& record) {
  constexpr std::uint64_t kBlock = 512;  // of st_blocks
  FilesUse out;
  SBX_ASSIGN(const UniqueFd dir, store.open_dir(record.name));
  const auto file = sys::fstatat(dir.get(), record.disk->file, AT_SYMLINK_NOFOLLOW);
  if (!file.ok() && file.error().code() == Errc::kNotFound) return out;
  if (!file.ok()) return file.error();
  out.bytes.v = static_cast<std::uint64_t>(file.value().st_blocks) * kBlock;
  return out;
}

/// A virtual machine may hang, which its supervisor does not end by itself.
Fields unknown_fields(Peer& peer, const Error& error) {
  if (error.code() != Errc::kTimeout) return error_fields(error);
  return error_fields(
      Error(error).with_hint(text::cat("sbx session stop ", peer.daemon().record().name)));
}

}  // namespace

Fields processes_frame(std::span<const backend::ProcessInfo> processes) {
  const std::size_t most = processes.empty() ? 0 : kMostText / processes.size();
  Fields::List list;
  list.reserve(processes.size());
  for (const backend::ProcessInfo& process : processes) {
    list.push_back(process_text(process, most));
  }
  Fields fields("processes");
  fields.set("list", std::move(list));
  return fields;
}

Result<std::vector<backend::ProcessInfo>> parse_processes(const Fields& fields) {
  std::vector<backend::ProcessInfo> out;
  for (const std::string& text : fields.list("list")) {
    SBX_ASSIGN(backend::ProcessInfo process, parse_process(text));
    out.push_back(std::move(process));
  }
  return out;
}

Fields usage_frame(const backend::LiveUsage& usage) {
  Fields fields("usage");
  set(fields, "cpu_ns", usage.cpu_ns);
  set(fields, "memory", usage.memory);
  set(fields, "memory_peak", usage.memory_peak);
  set(fields, "processes", usage.processes);
  set(fields, "read_bytes", usage.read_bytes);
  set(fields, "write_bytes", usage.write_bytes);
  fields.set("is_summed", usage.is_summed);
  fields.set("is_io_summed", usage.is_io_summed);
  return fields;
}

backend::LiveUsage parse_usage(const Fields& fields) {
  backend::LiveUsage out;
  out.cpu_ns = get(fields, "cpu_ns");
  out.memory = get(fields, "memory");
  out.memory_peak = get(fields, "memory_peak");
  out.processes = get(fields, "processes");
  out.read_bytes = get(fields, "read_bytes");
  out.write_bytes = get(fields, "write_bytes");
  out.is_summed = fields.flag("is_summed");
  out.is_io_summed = fields.flag("is_io_summed");
  return out;
}

void tell_processes(Peer& peer, Frame& /*frame*/) {
  const auto all = peer.daemon().supervisor().processes();
  peer.answer(all.ok() ? processes_frame(all.value()) : unknown_fields(peer, all.error()));
}

void tell_usage(Peer& peer, Frame& /*frame*/) {
  const auto usage = peer.daemon().supervisor().usage();
  peer.answer(usage.ok() ? usage_frame(usage.value()) : unknown_fields(peer, usage.error()));
}

Result<std::vector<backend::ProcessInfo>> ask_processes(Client& client) {
  SBX_ASSIGN(const Frame answer, client.call(Fields("processes")));
  return parse_processes(answer.fields);
}

Result<backend::LiveUsage> ask_usage(Client& client) {
  SBX_ASSIGN(const Frame answer, client.call(Fields("usage")));
  return parse_usage(answer.fields);
}

Result<FilesUse> disk_use(const Store& store, const Record& record) {
  if (record.disk.has_value()) return disk_file_use(store, record);
  if (record.disk.has_value()) return disk_file_use(store, record);
  const std::size_t own = base_index(record.lowers) + 1;  // image and base others share
  std::set<std::string> ids;
  for (std::size_t i = own; i < record.lowers.size(); ++i) {
    ids.insert(record.lowers[i]);
  }
  if (!record.upper.empty()) ids.insert(record.upper);
  FilesUse out;
  out.files = 0;
  for (const std::string& id : ids) {
    SBX_ASSIGN(const workspace::DiskUse one, workspace::disk_use(store.layers(), id));
    out.bytes.v += one.bytes.v;
    *out.files += one.files;
  }
  return out;
}

}  // namespace sbx::session
