// Report: see report.h.
#include "core/kernel/report.h"

#include "core/base/clock.h"
#include "core/base/text.h"

#include <nlohmann/json.hpp>

namespace sbx::kernel {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 1;

std::string dump_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json summary(const Kernel& kernel) {
  const Record& record = kernel.record;
  Json features = Json(nullptr);
  if (record.features.is_known) {
    features = Json::object();
    for (const auto& [key, is_there] : feature_list(record.features)) {
      features[std::string(key)] = is_there;
    }
  }
  return {{"schema", kSchema},
          {"name", record.name},
          {"release", record.release},
          {"source", record.source},
          {"installed", format_rfc3339(record.created_ns)},
          {"size_bytes", record.vmlinux_bytes + record.modules_bytes},
          {"modules", record.modules},
          {"features", features},
          {"is_system", kernel.is_system},
          {"path", kernel.vmlinux},
          {"id", record.id}};
}

}  // namespace

std::string listing_json(const Kernel& kernel) {
  return dump_line(summary(kernel));
}

std::string installed_json(const Kernel& kernel,
                           bool is_new,
                           const std::vector<std::string>& warnings) {
  Json json = summary(kernel);
  json["is_new"] = is_new;
  json["warnings"] = warnings;
  return dump_line(json);
}

std::string removed_json(const std::string& name) {
  return dump_line(Json{{"schema", kSchema}, {"name", name}, {"removed", true}});
}

std::string features_text(const Features& features) {
  if (!features.is_known) return "not known";
  std::string out;
  for (const auto& [key, is_there] : feature_list(features)) {
    if (is_there) out += text::cat(out.empty() ? "" : " ", key);
  }
  return out.empty() ? "none" : out;
}

}  // namespace sbx::kernel
