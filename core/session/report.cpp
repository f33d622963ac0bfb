// Report: see report.h.
#include "core/session/report.h"

#include <string_view>
#include <utility>

#include "core/base/clock.h"
#include "core/base/exit_code.h"
#include "core/base/text.h"
#include "core/image/record.h"
#include "core/run/state_json.h"

#include <nlohmann/json.hpp>

namespace sbx::session {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr double kMsPerNs = 1e-6;

Json time_json(std::int64_t realtime) {
  return realtime == 0 ? Json(nullptr) : Json(format_rfc3339(realtime));
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json error_json(const Error& error) {
  return {{"code", name(error.code())}, {"message", error.message()}, {"fix", error.hint()}};
}

Json checkpoint_object(const Checkpoint& checkpoint) {
  return {{"tag", checkpoint.tag},
          {"created", time_json(checkpoint.created_ns)},
          {"automatic", checkpoint.is_automatic},
          {"way", checkpoint.way},
          {"pause_ms", static_cast<double>(checkpoint.pause_ns) * kMsPerNs},
          {"layers", checkpoint.layers.size()},
          {"memory", false}};
}

Json exec_object(const std::string& session, const ExecRecord& record) {
  Json argv = Json::array();
  for (const std::string& word : record.argv) {
    argv.push_back(text::is_utf8(word) ? word : text::escape(word));
  }
  const bool has_ended = record.state == ExecState::kEnded;
  return {{"schema", kSchema},
          {"session", session},
          {"exec", record.id},
          {"state",
           has_ended                          ? "ended"
           : record.state == ExecState::kLost ? "lost"
                                              : "running"},
          {"argv", argv},
          {"service", text_or_null(record.service)},
          {"detached", record.is_detached},
          {"started", time_json(record.started_ns)},
          {"ended", time_json(record.ended_ns)},
          {"cause", text_or_null(record.cause)},
          {"exit_status", has_ended ? Json(record.exit_status) : Json(nullptr)},
          {"exit_code", record.exit_code ? Json(*record.exit_code) : Json(nullptr)},
          {"signal", text_or_null(record.signal)},
          {"error",
           record.error.empty() ? Json(nullptr) : error_json(Error(Errc::kSystem, record.error))},
          {"stdout_bytes", record.out_bytes},
          {"stderr_bytes", record.err_bytes},
          {"truncated", record.truncated}};
}

/// What the session is made of; null for the host's programs.
Json image_json(const Record& record) {
  if (!record.image.has_value()) return nullptr;
  const auto image = image::parse_record(record.image->record);
  if (!image.ok()) return nullptr;
  return {{"name", image.value().name}, {"id", image.value().id}};
}

}  // namespace

std::string listing_json(const Listing& listing) {
  const Record& record = listing.record;
  Json labels = Json::object();
  for (const auto& [key, value] : record.labels) {
    labels[key] = value;
  }
  Json checkpoints = Json::array();
  for (const Checkpoint& checkpoint : record.checkpoints) {
    checkpoints.push_back(checkpoint_object(checkpoint));
  }
  Json json{{"schema", kSchema},
            {"name", record.name},
            {"id", record.id},
            {"state", name(listing.state)},
            {"profile", record.profile},
            {"image", image_json(record)},
            {"isolation", record.isolation},
            {"isolation_reason", record.isolation_reason},
            {"labels", labels},
            {"created", time_json(record.created_ns)},
            {"started", time_json(listing.run.started_ns)},
            {"ended", listing.is_alive() ? Json(nullptr) : time_json(listing.run.ended_ns)},
            {"end_reason", listing.is_alive() ? Json(nullptr) : text_or_null(listing.run.reason)},
            {"last_used", listing.life ? time_json(listing.life->used_ns) : Json(nullptr)},
            {"supervisor_pid", listing.life ? Json(listing.life->supervisor.pid) : Json(nullptr)},
            {"forked_from", text_or_null(record.forked_from)},
            {"layers", record.lowers.size()},
            {"checkpoints", checkpoints},
            {"problem", text_or_null(listing.problem)}};
  return run::dump_line(json);
}

std::string exec_json(const std::string& session, const ExecRecord& record) {
  return run::dump_line(exec_object(session, record));
}

std::string exec_json(const std::string& session, const ExecResult& result) {
  Json json = exec_object(session, result.record);
  std::string_view out = result.out;
  std::string_view err = result.err;
  // A character that the limit cut in two makes no text binary.
  if (result.record.truncated || result.out_truncated) {
    out = out.substr(0, text::utf8_valid_prefix(out));
  }
  if (result.record.truncated || result.err_truncated) {
    err = err.substr(0, text::utf8_valid_prefix(err));
  }
  const bool is_text = text::is_utf8(out) && text::is_utf8(err);
  json["stdout"] = is_text ? std::string(out) : text::base64(result.out);
  json["stderr"] = is_text ? std::string(err) : text::base64(result.err);
  json["truncated"] = result.record.truncated || result.out_truncated || result.err_truncated;
  json["encoding"] = is_text ? "utf-8" : "base64";
  return run::dump_line(json);
}

std::string refused_json(const std::string& session, const Error& error) {
  const bool is_usage = error.code() == Errc::kUsage || error.code() == Errc::kNotFound;
  const Json json{{"schema", kSchema},
                  {"session", session},
                  {"exec", nullptr},
                  {"cause", is_usage ? "usage" : "sandbox_error"},
                  {"exit_status", is_usage ? kExitUsage : kExitSandbox},
                  {"exit_code", nullptr},
                  {"signal", nullptr},
                  {"error", error_json(error)}};
  return run::dump_line(json);
}

std::string checkpoint_json(const std::string& session, const Checkpoint& checkpoint) {
  Json json{{"schema", kSchema}, {"session", session}};
  json.update(checkpoint_object(checkpoint));
  return run::dump_line(json);
}

}  // namespace sbx::session
