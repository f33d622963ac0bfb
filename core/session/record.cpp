// Record: see record.h.
#include "core/session/record.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/run/state_json.h"

#include <nlohmann/json.hpp>

namespace sbx::session {

namespace {

using Json = nlohmann::ordered_json;
using run::dump_line;
using FieldReader = run::Reader<Json>;

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kMostGroups = 65536;  // NGROUPS_MAX

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_name(std::string_view name, std::string_view also) {
  if (name.empty() || name.size() > kLongestName || !is_alnum(name.front())) return false;
  return std::all_of(name.begin(), name.end(), [also](char c) {
    return is_alnum(c) || also.find(c) != std::string_view::npos;
  });
}

Json checkpoint_json(const Checkpoint& checkpoint) {
  Json json{{"tag", checkpoint.tag},
            {"created_ns", checkpoint.created_ns},
            {"layers", checkpoint.layers},
            {"automatic", checkpoint.is_automatic},
            {"way", checkpoint.way},
            {"pause_ns", checkpoint.pause_ns}};
  if (!checkpoint.disk.empty()) json["disk"] = checkpoint.disk;
  return json;
}

/// The name of a disk's file, which is opened in the session's directory.
bool read_disk_file(const Json& value, std::string& into) {
  if (!value.is_string()) return false;
  into = value.get<std::string>();
  return is_disk_file(into);
}

/// A list of texts; nullopt for anything else.
std::optional<std::vector<std::string>> texts_of(const Json* list) {
  if (list == nullptr || !list->is_array()) return std::nullopt;
  std::vector<std::string> texts;
  for (const Json& item : *list) {
    if (!item.is_string()) return std::nullopt;
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

bool read_checkpoint(const Json& json, Checkpoint& into) {
  FieldReader reader(json);
  reader.text("tag", into.tag);
  reader.number("created_ns", into.created_ns);
  reader.text("way", into.way);
  reader.number("pause_ns", into.pause_ns);
  const Json* automatic = reader.find("automatic");
  into.is_automatic = automatic != nullptr && automatic->is_boolean() && automatic->get<bool>();
  const auto layers = texts_of(reader.find("layers"));
  if (!reader.ok() || !layers.has_value()) return false;
  into.layers = *layers;
  const Json* disk = reader.find("disk");
  return disk == nullptr || read_disk_file(*disk, into.disk);
}

bool read_disk(const Json& json, Disk& into) {
  if (!json.is_object()) return false;
  FieldReader reader(json);
  const Json* file = reader.find("file");
  const Json* bytes = reader.find("bytes");
  if (file == nullptr || bytes == nullptr || !bytes->is_number_unsigned()) return false;
  into.size = Bytes{bytes->get<std::uint64_t>()};
  return into.size.v > 0 && read_disk_file(*file, into.file);
}

/// An id: what fits into 32 bits, but for the one that means none (chown(2)).
bool read_id(const Json& value, std::uint32_t& into) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= UINT32_MAX) return false;
  into = value.get<std::uint32_t>();
  return true;
}

bool read_image(const Json& json, RootImage& into) {
  if (!json.is_object()) return false;
  FieldReader reader(json);
  reader.text("record", into.record);
  reader.text("home", into.home);
  const Json* uid = reader.find("uid");
  const Json* gid = reader.find("gid");
  const Json* groups = reader.find("groups");
  if (!reader.ok() || uid == nullptr || gid == nullptr || groups == nullptr) return false;
  if (!groups->is_array() || groups->size() > kMostGroups) return false;
  bool is_whole = read_id(*uid, into.uid) && read_id(*gid, into.gid);
  for (const Json& group : *groups) {
    is_whole = read_id(group, into.groups.emplace_back()) && is_whole;
  }
  return is_whole;
}

Error newer_format() {
  return Error(Errc::kUnsupported, "it was written by a newer sbx")
      .with_hint("use that sbx for this session; this one changes nothing of it");
}

/// The parsed text of a file of ours, its format checked.
Result<Json> parse_ours(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return Error(Errc::kProtocol, "the record is no JSON object");
  const auto format = json.find("format");
  if (format == json.end() || !format->is_number_integer()) {
    return Error(Errc::kProtocol, "the record has no format number");
  }
  if (format->get<std::int64_t>() > kRecordFormat) return newer_format();
  return json;
}

std::string_view word(RunState state) {
  switch (state) {
    case RunState::kNever:
      return "never";
    case RunState::kRunning:
      return "running";
    case RunState::kStopped:
      break;
  }
  return "stopped";
}

}  // namespace

const Checkpoint* Record::find_checkpoint(std::string_view tag) const {
  const auto at = std::find_if(
      checkpoints.begin(), checkpoints.end(), [tag](const Checkpoint& c) { return c.tag == tag; });
  return at == checkpoints.end() ? nullptr : &*at;
}

std::string to_json(const Record& record) {
  Json labels = Json::object();
  for (const auto& [key, value] : record.labels) {
    labels[key] = value;
  }
  Json checkpoints = Json::array();
  for (const Checkpoint& checkpoint : record.checkpoints) {
    checkpoints.push_back(checkpoint_json(checkpoint));
  }
  const bool is_plain = !record.image.has_value() && !record.disk.has_value();
  Json json{{"format", is_plain ? 1 : kRecordFormat},
            {"name", record.name},
            {"id", record.id},
            {"created_ns", record.created_ns},
            {"profile", record.profile},
            {"isolation", record.isolation},
            {"isolation_reason", record.isolation_reason},
            {"labels", labels},
            {"lowers", record.lowers},
            {"upper", record.upper},
            {"checkpoints", checkpoints},
            {"forked_from", record.forked_from},
            {"saved_profile", record.saved_profile}};
  if (record.image.has_value()) {
    json["image"] = {{"record", record.image->record},
                     {"uid", record.image->uid},
                     {"gid", record.image->gid},
                     {"groups", record.image->groups},
                     {"home", record.image->home}};
  }
  if (record.disk.has_value()) {
    json["disk"] = {{"file", record.disk->file}, {"bytes", record.disk->size.v}};
  }
  return dump_line(json) + "\n";
}

Result<Record> parse_record(std::string_view text) {
  SBX_ASSIGN(const Json json, parse_ours(text));
  Record record;
  FieldReader reader(json);
  reader.text("name", record.name);
  reader.text("id", record.id);
  reader.number("created_ns", record.created_ns);
  reader.text("profile", record.profile);
  reader.text("isolation", record.isolation);
  reader.text("isolation_reason", record.isolation_reason);
  reader.text("upper", record.upper);
  reader.text("forked_from", record.forked_from);
  reader.text("saved_profile", record.saved_profile);
  const auto lowers = texts_of(reader.find("lowers"));
  const Json* labels = reader.find("labels");
  const Json* checkpoints = reader.find("checkpoints");
  bool is_whole = reader.ok() && lowers.has_value() && labels != nullptr && labels->is_object() &&
                  checkpoints != nullptr && checkpoints->is_array();
  if (is_whole) {
    record.lowers = *lowers;
    for (const auto& [key, value] : labels->items()) {
      is_whole = is_whole && value.is_string();
      if (value.is_string()) record.labels.emplace_back(key, value.get<std::string>());
    }
    for (const Json& item : *checkpoints) {
      is_whole = read_checkpoint(item, record.checkpoints.emplace_back()) && is_whole;
    }
  }
  if (const Json* image = reader.find("image"); image != nullptr) {
    is_whole = read_image(*image, record.image.emplace()) && is_whole;
  }
  if (const Json* disk = reader.find("disk"); disk != nullptr) {
    is_whole = read_disk(*disk, record.disk.emplace()) && is_whole;
  }
  if (!is_whole) return Error(Errc::kProtocol, "the record lacks a part");
  return record;
}

bool is_disk_file(std::string_view name) {
  return name.starts_with("disk") && is_name(name, "._-");
}

std::size_t base_index(const std::vector<std::string>& layers) {
  const auto at = std::find_if(
      layers.begin(), layers.end(), [](const std::string& id) { return id.starts_with("base-"); });
  return static_cast<std::size_t>(at - layers.begin());
}

std::vector<std::string> layers_of(const Record& record) {
  std::vector<std::string> all = record.lowers;
  if (!record.upper.empty()) all.push_back(record.upper);
  for (const Checkpoint& checkpoint : record.checkpoints) {
    all.insert(all.end(), checkpoint.layers.begin(), checkpoint.layers.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::string to_json(const RunFile& file) {
  const Json json{{"format", 1},
                  {"state", word(file.state)},
                  {"started_ns", file.started_ns},
                  {"ended_ns", file.ended_ns},
                  {"reason", file.reason}};
  return dump_line(json) + "\n";
}

Result<RunFile> parse_run_file(std::string_view text) {
  SBX_ASSIGN(const Json json, parse_ours(text));
  RunFile file;
  std::string state;
  FieldReader reader(json);
  reader.text("state", state);
  reader.number("started_ns", file.started_ns);
  reader.number("ended_ns", file.ended_ns);
  reader.text("reason", file.reason);
  for (const RunState each : {RunState::kNever, RunState::kRunning, RunState::kStopped}) {
    if (state != word(each)) continue;
    file.state = each;
    if (reader.ok()) return file;
  }
  return Error(Errc::kProtocol, "the run record lacks a part");
}

Status check_name(std::string_view name) {
  if (is_name(name, "._-")) return {};
  return Error(Errc::kUsage, text::cat("\"", text::escape(name), "\" is no name for a session"))
      .with_hint(
          "a name begins with a letter or digit and has up to 64 letters, digits, '.', '_' and "
          "'-'");
}

Status check_tag(std::string_view tag) {
  if (is_name(tag, "._-")) return {};
  return Error(Errc::kUsage, text::cat("\"", text::escape(tag), "\" is no tag for a checkpoint"))
      .with_hint(
          "a tag begins with a letter or digit and has up to 64 letters, digits, '.', '_' and "
          "'-'");
}

Result<std::pair<std::string, std::string>> parse_label(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view key = text.substr(0, equals);
  if (equals == std::string_view::npos || !is_name(key, "._-/") ||
      !text::is_utf8(text.substr(equals + 1))) {
    return Error(Errc::kUsage, text::cat("\"", text::escape(text), "\" is no label"))
        .with_hint("KEY=VALUE, for example --label task=42");
  }
  return std::pair(std::string(key), std::string(text.substr(equals + 1)));
}

}  // namespace sbx::session
