// Exec record: see exec_record.h.
#include "core/session/exec_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/state_json.h"
#include "core/workspace/beneath.h"

#include <nlohmann/json.hpp>

namespace sbx::session {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kEnding = ".json";
constexpr mode_t kOwnFile = 0600;
constexpr Bytes kLongest{std::uint64_t{8} << 20U};

std::string file_name(std::uint32_t id) {
  return text::cat(id, kEnding);
}

std::optional<std::uint32_t> id_of(std::string_view name) {
  if (!name.ends_with(kEnding)) return std::nullopt;
  name.remove_suffix(kEnding.size());
  std::uint32_t id = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (error != std::errc() || stop != name.data() + name.size()) return std::nullopt;
  return id;
}

Result<std::vector<std::uint32_t>> ids_in(int dir) {
  SBX_ASSIGN(const UniqueFd again, sys::openat(dir, ".", O_RDONLY | O_DIRECTORY));
  SBX_ASSIGN(const std::vector<std::string> names, workspace::read_names(again.get()));
  std::vector<std::uint32_t> ids;
  for (const std::string& name : names) {
    if (const auto id = id_of(name)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

std::string to_json(const ExecRecord& record) {
  Json argv = Json::array();
  for (const std::string& word : record.argv) {
    argv.push_back(text::is_utf8(word) ? word : text::escape(word));
  }
  const bool has_ended = record.state == ExecState::kEnded;
  const Json json{{"format", run::kStateFormat},
                  {"id", record.id},
                  {"state",
                   has_ended                             ? "ended"
                   : record.state == ExecState::kRunning ? "running"
                                                         : "lost"},
                  {"argv", argv},
                  {"service", record.service},
                  {"detached", record.is_detached},
                  {"tty", record.has_terminal},
                  {"started_ns", record.started_ns},
                  {"ended_ns", record.ended_ns},
                  {"cause", record.cause},
                  {"exit_status", record.exit_status},
                  {"exit_code", record.exit_code ? Json(*record.exit_code) : Json(nullptr)},
                  {"signal", record.signal},
                  {"error", record.error},
                  {"stdout_bytes", record.out_bytes},
                  {"stderr_bytes", record.err_bytes},
                  {"truncated", record.truncated}};
  return run::dump_line(json);
}

Result<ExecRecord> parse_exec_record(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Error(Errc::kProtocol, "the record is no JSON object");
  run::Reader<Json> reader(json);
  ExecRecord record;
  std::string state;
  reader.number("id", record.id);
  reader.text("state", state);
  reader.text("service", record.service);
  reader.number("started_ns", record.started_ns);
  reader.number("ended_ns", record.ended_ns);
  reader.text("cause", record.cause);
  reader.number("exit_status", record.exit_status);
  reader.text("signal", record.signal);
  reader.text("error", record.error);
  reader.number("stdout_bytes", record.out_bytes);
  reader.number("stderr_bytes", record.err_bytes);
  const Json* const argv = reader.find("argv");
  if (!reader.ok() || argv == nullptr || !argv->is_array()) {
    return Error(Errc::kProtocol, "the record lacks a part");
  }
  for (const Json& word : *argv) {
    if (word.is_string()) record.argv.push_back(word.get<std::string>());
  }
  const auto flag = [&](const char* key) {
    const Json* const value = reader.find(key);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  };
  record.is_detached = flag("detached");
  record.has_terminal = flag("tty");
  record.truncated = flag("truncated");
  record.state = state == "ended" ? ExecState::kEnded : ExecState::kRunning;
  if (const Json* const code = reader.find("exit_code"); code != nullptr && code->is_number()) {
    record.exit_code = code->get<int>();
  }
  return record;
}

Result<UniqueFd> open_execs(int session_dir) {
  return sys::openat(session_dir, "execs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

void keep_exec_record(int dir, const ExecRecord& record) {
  const auto fd = sys::openat(dir, file_name(record.id), O_WRONLY | O_CREAT | O_NOFOLLOW, kOwnFile);
  if (!fd.ok()) return;
  const std::string text = to_json(record) + "\n";
  // The end of a program makes its record longer, never shorter.
  const ssize_t written = ::pwrite(fd.value().get(), text.data(), text.size(), 0);
  if (written == static_cast<ssize_t>(text.size())) (void)!::ftruncate(fd.value().get(), written);
}

Result<ExecRecord> read_exec_record(int dir, std::uint32_t id) {
  SBX_ASSIGN(const std::string text, fs::read_file_at(dir, file_name(id), kLongest));
  return parse_exec_record(text);
}

Result<std::vector<ExecRecord>> read_exec_records(int dir) {
  SBX_ASSIGN(const std::vector<std::uint32_t> ids, ids_in(dir));
  std::vector<ExecRecord> all;
  for (const std::uint32_t id : ids) {
    auto record = read_exec_record(dir, id);
    if (record.ok()) all.push_back(std::move(record).value());
  }
  return all;
}

void prune_exec_records(int dir, std::size_t most, const std::vector<std::uint32_t>& running) {
  const auto ids = ids_in(dir);
  if (!ids.ok() || ids.value().size() <= most) return;
  std::size_t to_go = ids.value().size() - most;
  for (const std::uint32_t id : ids.value()) {
    if (to_go == 0) return;
    if (std::find(running.begin(), running.end(), id) != running.end()) continue;
    for (const std::string& name :
         {text::cat(id, ".log"), text::cat(id, ".log.1"), file_name(id)}) {
      static_cast<void>(sys::unlinkat(dir, name));
    }
    --to_go;
  }
}

}  // namespace sbx::session
