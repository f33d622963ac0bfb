// Report: the result object, and manifest.json with it.
#include "core/run/report.h"

#include <cmath>
#include <utility>

#include "core/base/text.h"
#include "core/run/artifacts.h"

#include <nlohmann/json.hpp>

namespace sbx::run {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kManifestFormat = 1;

/// Times are measured in ns but mean no more than microseconds.
double rounded(double seconds) {
  return std::round(seconds * 1e6) / 1e6;
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

/// A name of any bytes: as it is when it is UTF-8, else escaped, with the bytes beside it.
void put_name(Json& object, const std::string& key, const std::string& bytes) {
  if (text::is_utf8(bytes)) {
    object[key] = bytes;
    return;
  }
  object[key] = text::escape(bytes);
  object[key + "_base64"] = text::base64(bytes);
}

std::string octal(std::uint32_t mode) {
  std::string digits = "0000";
  for (std::size_t i = digits.size(); i > 0; --i, mode >>= 3U) {
    digits[i - 1] = static_cast<char>('0' + (mode & 7U));
  }
  return digits;
}

Json artifact_json(const Artifact& item) {
  Json object;
  put_name(object, "path", item.path);
  if (item.type == ArtifactType::kFile) {
    object["bytes"] = item.bytes;
    if (item.skipped.empty()) {
      object["sha256"] = item.sha256;
      object["mime"] = item.mime;
    }
    if (!item.link.empty()) put_name(object, "hard_link_to", item.link);
  } else {
    object["type"] = name(item.type);
    if (item.type == ArtifactType::kSymlink) put_name(object, "target", item.link);
  }
  if (!item.saved_as.empty()) put_name(object, "saved_as", item.saved_as);
  if (!item.skipped.empty()) object["skipped"] = text::escape(item.skipped);
  return object;
}

std::string dump(const Json& json, int indent) {
  // Everything put in is UTF-8; should that ever fail, a replaced character beats an exception.
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string utf8(const std::string& message) {
  return text::is_utf8(message) ? message : text::escape(message);
}

/// A stream that was cut in the middle of a character is still text.
std::string_view without_cut_character(const Output& output) {
  constexpr std::size_t kLongestCharacter = 4;
  const std::string_view all = output.data;
  if (!output.truncated) return all;
  const std::size_t valid = text::utf8_valid_prefix(all);
  return all.size() - valid < kLongestCharacter ? all.substr(0, valid) : all;
}

void put_output(Json& object, const Report& report) {
  const std::string_view out = without_cut_character(report.out);
  const std::string_view err = without_cut_character(report.err);
  const bool is_text = text::is_utf8(out) && text::is_utf8(err);
  object["stdout"] = is_text ? std::string(out) : text::base64(report.out.data);
  object["stderr"] = is_text ? std::string(err) : text::base64(report.err.data);
  object["stdout_bytes"] = report.out.bytes;
  object["stderr_bytes"] = report.err.bytes;
  object["truncated"] = report.out.truncated || report.err.truncated;
  object["encoding"] = is_text ? "utf-8" : "base64";
}

enum class Extent : std::uint8_t { kStatus, kRecord, kWhole };

Json compile_json(const Compile& compile, Extent extent) {
  Json object{{"command", utf8(compile.command)}, {"exit_code", or_null(compile.exit_status)}};
  if (extent == Extent::kWhole) {
    const std::string_view output = without_cut_character(compile.output);
    const bool is_text = text::is_utf8(output);
    object["output"] = is_text ? std::string(output) : text::base64(compile.output.data);
    object["encoding"] = is_text ? "utf-8" : "base64";
  }
  object["output_bytes"] = compile.output.bytes;
  object["truncated"] = compile.output.truncated;
  object["wall_s"] = rounded(compile.wall_s);
  return object;
}

Json usage_json(const Report& report) {
  const confine::Usage& usage = report.usage;
  Json object;
  object["wall_s"] = rounded(report.phases.run_s);
  object["cpu_s"] = usage.cpu_ns.has_value()
                        ? Json(rounded(static_cast<double>(*usage.cpu_ns) * 1e-9))
                        : Json(nullptr);
  object["max_memory_bytes"] = or_null(usage.max_memory);
  object["read_bytes"] = or_null(usage.read_bytes);
  object["write_bytes"] = or_null(usage.write_bytes);
  return object;
}

Json limits_json(const Report& report) {
  Json object = Json::object();
  for (const confine::InForce& limit : report.limits) {
    Json entry{{"value", utf8(limit.value)}, {"mechanism", utf8(limit.mechanism)}};
    if (limit.approximate) entry["approximate"] = true;
    object[limit.limit] = std::move(entry);
  }
  return object;
}

void put_artifacts(Json& object, const Report& report, Extent extent) {
  constexpr std::size_t kMostInRecord = 1000;
  Json& list = object["artifacts"] = Json::array();
  bool is_complete = report.artifacts_complete;
  for (const Artifact& item : report.artifacts) {
    if (item.type == ArtifactType::kDirectory) continue;
    if (extent == Extent::kRecord && list.size() == kMostInRecord) {
      is_complete = false;
      break;
    }
    list.push_back(artifact_json(item));
  }
  if (!is_complete) object["artifacts_complete"] = false;
}

Json report_json(const Report& report, Extent extent) {
  const supervise::Outcome& outcome = report.outcome;
  Json object;
  object["schema"] = kReportSchema;
  object["id"] = report.id;
  object["profile"] = utf8(report.profile);
  object["isolation"] = report.isolation;
  object["isolation_reason"] = utf8(report.isolation_reason);
  if (report.image.has_value()) {
    object["image"] = {{"name", utf8(report.image->name)}, {"id", report.image->id}};
  }
  object["cause"] = supervise::name(outcome.cause);
  object["exit_code"] = report.exit_status;
  object["signal"] =
      outcome.signal != 0 ? Json(supervise::signal_name(outcome.signal)) : Json(nullptr);
  object["retryable"] = report.retryable;
  if (report.failure.has_value()) {
    object["error"] = {{"code", report.failure->code},
                       {"message", utf8(report.failure->message)},
                       {"fix", utf8(report.failure->fix)}};
  } else {
    object["error"] = nullptr;
  }
  if (!outcome.limit_hit.empty()) object["limit_hit"] = outcome.limit_hit;
  if (!report.skip_reason.empty()) object["skipped"] = utf8(report.skip_reason);
  if (report.attempts != 0) object["attempts"] = report.attempts;
  object["compile"] =
      report.compile.has_value() ? compile_json(*report.compile, extent) : Json(nullptr);
  if (extent == Extent::kWhole) {
    put_output(object, report);
  } else {
    object["stdout_bytes"] = report.out.bytes;
    object["stderr_bytes"] = report.err.bytes;
    object["truncated"] = report.out.truncated || report.err.truncated;
  }
  if (!report.pip_packages.empty() || !report.npm_packages.empty()) {
    object["packages"] = {{"pip", report.pip_packages}, {"npm", report.npm_packages}};
  }
  if (extent != Extent::kStatus) put_artifacts(object, report, extent);
  object["usage"] = report.has_usage ? usage_json(report) : Json(nullptr);
  object["phases"] = {{"setup_s", rounded(report.phases.setup_s)},
                      {"run_s", rounded(report.phases.run_s)},
                      {"collect_s", rounded(report.phases.collect_s)}};
  object["limits_in_force"] = limits_json(report);
  object["denied"] = Json::array();
  for (const Denied& denied : report.denied) {
    object["denied"].push_back({{"what", utf8(denied.what)},
                                {"target", utf8(denied.target)},
                                {"rule", utf8(denied.rule)}});
  }
  return object;
}

}  // namespace

std::string to_json(const Report& report) {
  return dump(report_json(report, Extent::kWhole), -1);
}

std::string to_record_json(const Report& report) {
  return dump(report_json(report, Extent::kRecord), -1);
}

std::string to_status_json(const Report& report) {
  return dump(report_json(report, Extent::kStatus), -1);
}

std::string manifest_json(const ArtifactList& list) {
  Json object;
  object["format"] = kManifestFormat;
  object["complete"] = list.is_complete;
  object["artifacts"] = Json::array();
  for (const Artifact& item : list.items) {
    if (item.type == ArtifactType::kDirectory) continue;
    Json entry = artifact_json(item);
    entry["mode"] = octal(item.mode);
    object["artifacts"].push_back(std::move(entry));
  }
  constexpr int kIndent = 1;
  return dump(object, kIndent) + "\n";
}

}  // namespace sbx::run
