// Report: see report.h.
#include "core/image/report.h"

#include "core/base/clock.h"

#include <nlohmann/json.hpp>

namespace sbx::image {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json summary(const Record& record, const std::string& problem) {
  return {
      {"schema", kSchema},
      {"name", record.name},
      {"id", text_or_null(record.id)},
      {"created", record.created_ns == 0 ? Json(nullptr) : Json(format_rfc3339(record.created_ns))},
      {"source", text_or_null(record.source)},
      {"os", text_or_null(record.os)},
      {"architecture", text_or_null(record.architecture)},
      {"variant", text_or_null(record.variant)},
      {"size_bytes", size_of(record)},
      {"layers", record.layers.size()},
      {"problem", text_or_null(problem)}};
}

Json config_json(const Config& config) {
  Json labels = Json::object();
  for (const auto& [key, value] : config.labels) {
    labels[key] = value;
  }
  return {{"entrypoint", config.entrypoint},
          {"cmd", config.cmd},
          {"env", config.env},
          {"user", config.user},
          {"workdir", config.workdir},
          {"volumes", config.volumes},
          {"exposed_ports", config.exposed_ports},
          {"labels", labels},
          {"stop_signal", text_or_null(config.stop_signal)}};
}

std::string dump_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::uint64_t size_of(const Record& record) {
  std::uint64_t bytes = 0;
  for (const LayerRef& layer : record.layers) {
    bytes += layer.bytes;
  }
  return bytes;
}

std::string listing_json(const Record& record, const std::string& problem) {
  return dump_line(summary(record, problem));
}

std::string details_json(const Record& record, const Uses& uses) {
  Json json = summary(record, {});
  Json layers = Json::array();
  for (const LayerRef& layer : record.layers) {
    layers.push_back(
        {{"id", layer.id}, {"diff_id", text_or_null(layer.diff_id)}, {"bytes", layer.bytes}});
  }
  json["layers"] = layers;
  json["config"] = config_json(record.config);
  json["sessions"] = uses.sessions;
  json["in_use_by_runs"] = uses.has_runs;
  return dump_line(json);
}

std::string removed_json(const Record& record, const Uses& uses) {
  return dump_line(Json{{"schema", kSchema},
                        {"name", record.name},
                        {"id", text_or_null(record.id)},
                        {"removed", true},
                        {"sessions", uses.sessions},
                        {"in_use_by_runs", uses.has_runs}});
}

}  // namespace sbx::image
