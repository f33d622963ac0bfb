// Record: the JSON that lies in the state directory: records of runs and the text of locks.
#include "core/run/record.h"

#include <utility>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/run/lock.h"
#include "core/run/state_json.h"

#include <nlohmann/json.hpp>

namespace sbx::run {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = kStateFormat;

std::string utf8(const std::string& bytes) {
  return text::is_utf8(bytes) ? bytes : text::escape(bytes);
}

Json out_json(const std::optional<OutPlace>& out) {
  if (!out.has_value()) return nullptr;
  Json object{{"kind", name(out->kind)}, {"path", utf8(out->path)}};
  if (out->kind == OutPlace::Kind::kShared) return object;
  object["inode"] = out->inode;
  if (out->kind == OutPlace::Kind::kDirectory) {
    object["manifest_sha256"] = out->digest;
  } else {
    object["bytes"] = out->bytes;
    object["mtime_ns"] = out->mtime_ns;
  }
  return object;
}

std::optional<OutPlace> read_out(const Json& object) {
  OutPlace out;
  std::string kind;
  Reader<Json> reader(object);
  reader.text("kind", kind);
  reader.text("path", out.path);
  if (kind == name(OutPlace::Kind::kDirectory)) {
    out.kind = OutPlace::Kind::kDirectory;
    reader.number("inode", out.inode);
    reader.text("manifest_sha256", out.digest);
  } else if (kind == name(OutPlace::Kind::kArchive)) {
    out.kind = OutPlace::Kind::kArchive;
    reader.number("inode", out.inode);
    reader.number("bytes", out.bytes);
    reader.number("mtime_ns", out.mtime_ns);
  }
  if (!reader.ok()) return std::nullopt;
  return out;
}

Json command_json(const std::vector<std::string>& command) {
  constexpr std::size_t kMost = std::size_t{16} << 10U;
  Json words = Json::array();
  std::size_t room = kMost;
  for (const std::string& word : command) {
    std::string shown = utf8(word);
    if (shown.size() > room) {
      shown.resize(text::utf8_valid_prefix(std::string_view(shown).substr(0, room)));
      words.push_back(shown + "...");
      break;
    }
    room -= shown.size();
    words.push_back(std::move(shown));
  }
  return words;
}

Json time_json(std::int64_t ns) {
  return ns == 0 ? Json(nullptr) : Json(format_rfc3339(ns));
}

Json common_json(const RunRecord& record) {
  Json object;
  object["id"] = record.id;
  object["state"] = is_crashed(record) ? std::string("crashed") : std::string(name(record.state));
  object["lock"] = record.lock.empty() ? Json(nullptr) : Json(record.lock);
  object["command"] = command_json(record.command);
  object["cwd"] = utf8(record.cwd);
  object["started"] = time_json(record.started_ns);
  object["ended"] = time_json(record.ended_ns);
  return object;
}

Json result_of(const RunRecord& record) {
  Json result = record.result.empty() ? Json(nullptr) : Json::parse(record.result, nullptr, false);
  return result.is_object() ? result : Json(nullptr);
}

void read_result(const Json* result, RunRecord& record) {
  if (result == nullptr || !result->is_object()) return;
  record.result = dump_line(*result);
  Reader<Json> reader(*result);
  reader.text("cause", record.cause);
  reader.number("exit_code", record.exit_code);
  if (const Json* error = reader.find("error"); error != nullptr) {
    Reader<Json>(*error).text("message", record.message);
  }
  if (const Json* usage = reader.find("usage"); usage != nullptr) {
    Reader<Json>(*usage).number("wall_s", record.wall_s);
  }
}

Error broken() {
  return Error(Errc::kProtocol, "not a record of a run");
}

}  // namespace

std::string_view name(OutPlace::Kind kind) {
  switch (kind) {
    case OutPlace::Kind::kDirectory:
      return "directory";
    case OutPlace::Kind::kArchive:
      return "archive";
    case OutPlace::Kind::kShared:
      return "shared";
  }
  return "?";
}

std::string_view name(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return "running";
    case RunState::kFinished:
      return "finished";
    case RunState::kSkipped:
      return "skipped";
  }
  return "?";
}

bool is_crashed(const RunRecord& record) {
  return record.state == RunState::kRunning &&
         confine::life_of(record.process) == confine::Life::kGone;
}

std::string status_word(const RunRecord& record) {
  if (record.state == RunState::kSkipped) return "skipped";
  if (record.state == RunState::kRunning) return is_crashed(record) ? "crashed" : "running";
  if (record.cause == "exited" && record.exit_code == 0) return "ok";
  if (record.cause == "exited") return text::cat("exit ", record.exit_code);
  return record.cause;
}

std::string record_text(const RunRecord& record) {
  Json object = common_json(record);
  Json all{{"format", kFormat}};
  all.update(object);
  all["state"] = name(record.state);
  all["series"] = utf8(record.series);
  all["started_ns"] = record.started_ns;
  all["ended_ns"] = record.ended_ns;
  all["process"] = identity_json<Json>(record.process);
  all["out"] = out_json(record.out);
  all["result"] = result_of(record);
  return dump_line(all) + "\n";
}

Result<RunRecord> parse_record(std::string_view text) {
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) return broken();
  Reader<Json> reader(object);
  int format = 0;
  reader.number("format", format);
  if (format > kFormat) {
    return Error(Errc::kUnsupported,
                 text::cat("the record has format ", format, ", newer than this sbx knows"))
        .with_hint("read it with the sbx that wrote it");
  }
  RunRecord record;
  std::string state;
  reader.text("id", record.id);
  reader.text("state", state);
  reader.text("series", record.series);
  reader.text("cwd", record.cwd);
  reader.number("started_ns", record.started_ns);
  reader.number("ended_ns", record.ended_ns);
  if (!reader.ok() || format != kFormat) return broken();
  if (const Json* lock = reader.find("lock"); lock != nullptr && lock->is_string()) {
    record.lock = lock->get<std::string>();
  }
  if (const Json* words = reader.find("command"); words != nullptr && words->is_array()) {
    for (const Json& word : *words) {
      if (word.is_string()) record.command.push_back(word.get<std::string>());
    }
  }
  if (state == name(RunState::kFinished)) {
    record.state = RunState::kFinished;
  } else if (state == name(RunState::kSkipped)) {
    record.state = RunState::kSkipped;
  } else if (state != name(RunState::kRunning)) {
    return broken();
  }
  const auto process = read_identity(reader.find("process"));
  if (!process.has_value()) return broken();
  record.process = *process;
  if (const Json* out = reader.find("out"); out != nullptr) record.out = read_out(*out);
  read_result(reader.find("result"), record);
  return record;
}

std::string record_json(const RunRecord& record, Detail detail) {
  Json object{{"schema", 1}};
  object.update(common_json(record));
  const bool has_ended = !record.result.empty();
  object["cause"] = has_ended ? Json(record.cause) : Json(nullptr);
  object["exit_code"] = has_ended ? Json(record.exit_code) : Json(nullptr);
  object["message"] = record.message.empty() ? Json(nullptr) : Json(record.message);
  object["wall_s"] = has_ended ? Json(record.wall_s) : Json(nullptr);
  object["out"] = record.out.has_value() ? Json(utf8(record.out->path)) : Json(nullptr);
  if (detail == Detail::kWhole) object["result"] = result_of(record);
  return dump_line(object);
}

// --- the text of a lock ---

std::string lock_text(const Holder* holder) {
  Json object{{"format", kFormat}, {"held", holder != nullptr}};
  if (holder != nullptr) {
    object["since"] = format_rfc3339(holder->since_ns);
    object["since_ns"] = holder->since_ns;
    object["run"] = holder->run;
    object["process"] = identity_json<Json>(holder->process);
    if (holder->init.has_value()) object["init"] = identity_json<Json>(*holder->init);
  }
  std::string out = dump_line(object);
  out.resize(kLockTextSize - 1, ' ');
  return out + '\n';
}

std::optional<Holder> parse_lock(std::string_view text) {
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  Reader<Json> reader(object);
  const auto process = read_identity(reader.find("process"));
  if (!process.has_value()) return std::nullopt;
  Holder holder;
  holder.process = *process;
  holder.init = read_identity(reader.find("init"));
  reader.text("run", holder.run);
  reader.number("since_ns", holder.since_ns);
  if (!reader.ok()) return std::nullopt;
  return holder;
}

}  // namespace sbx::run
