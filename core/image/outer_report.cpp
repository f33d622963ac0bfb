// Outer report: see outer_report.h.
#include "core/image/outer_report.h"

#include <utility>

#include "core/image/field_codec.h"

namespace sbx::image {

namespace {

constexpr std::uint64_t kMostStages = 10'000;

void add(FieldWriter& out, const std::vector<std::string>& texts) {
  out.add(std::uint64_t{texts.size()});
  for (const std::string& text : texts) {
    out.add(std::string_view(text));
  }
}

Status read(FieldReader& fields, std::string& text) {
  SBX_ASSIGN(text, fields.bytes());
  return {};
}

Status read(FieldReader& fields, std::vector<std::string>& texts) {
  SBX_ASSIGN(std::uint64_t count, fields.count());
  for (; count > 0; --count) {
    SBX_TRY(read(fields, texts.emplace_back()));
  }
  return {};
}

/// All texts of a configuration, in order.
template <typename Config, typename Visit>
Status visit_texts(Config& config, Visit visit) {
  SBX_TRY(visit(config.user));
  SBX_TRY(visit(config.workdir));
  SBX_TRY(visit(config.stop_signal));
  SBX_TRY(visit(config.entrypoint));
  SBX_TRY(visit(config.cmd));
  SBX_TRY(visit(config.env));
  SBX_TRY(visit(config.volumes));
  return visit(config.exposed_ports);
}

void add(FieldWriter& out, const ImageConfig& image) {
  out.add(std::string_view(image.os));
  out.add(std::string_view(image.architecture));
  out.add(std::string_view(image.variant));
  add(out, image.diff_ids);
  const auto visit = [&out](const auto& texts) -> Status {
    if constexpr (std::is_same_v<std::decay_t<decltype(texts)>, std::string>) {
      out.add(std::string_view(texts));
    } else {
      add(out, texts);
    }
    return {};
  };
  static_cast<void>(visit_texts(image.config, visit));
  out.add(std::uint64_t{image.config.labels.size()});
  for (const auto& [key, value] : image.config.labels) {
    out.add(std::string_view(key));
    out.add(std::string_view(value));
  }
}

Result<ImageConfig> read_image(FieldReader& fields) {
  ImageConfig image;
  SBX_TRY(read(fields, image.os));
  SBX_TRY(read(fields, image.architecture));
  SBX_TRY(read(fields, image.variant));
  SBX_TRY(read(fields, image.diff_ids));
  for (const std::string& diff_id : image.diff_ids)
    SBX_TRY(check_digest(diff_id));
  SBX_TRY(visit_texts(image.config, [&fields](auto& texts) { return read(fields, texts); }));
  SBX_ASSIGN(std::uint64_t count, fields.count());
  for (; count > 0; --count) {
    std::pair<std::string, std::string> label;
    SBX_TRY(read(fields, label.first));
    SBX_TRY(read(fields, label.second));
    image.config.labels.push_back(std::move(label));
  }
  return image;
}

}  // namespace

std::string encode(const OuterReport& report) {
  FieldWriter out;
  out.add(report.status);
  out.add(std::uint64_t{report.image.has_value() ? 1U : 0U});
  if (report.image.has_value()) add(out, *report.image);
  out.add(std::uint64_t{report.staged.size()});
  for (const StagedLayer& layer : report.staged) {
    out.add(std::string_view(layer.stage));
    out.add(std::string_view(layer.diff_id));
    out.add(std::string_view(encode(layer.report)));
  }
  return out.text();
}

Result<OuterReport> decode_outer_report(std::string_view text) {
  FieldReader fields(text);
  OuterReport report;
  SBX_TRY(fields.read(report.status));
  SBX_ASSIGN(const std::uint64_t has_image, fields.number(1));
  if (has_image == 1) {
    SBX_ASSIGN(report.image, read_image(fields));
  }
  SBX_ASSIGN(std::uint64_t count, fields.number(kMostStages));
  for (; count > 0; --count) {
    StagedLayer layer;
    SBX_TRY(read(fields, layer.stage));
    SBX_TRY(read(fields, layer.diff_id));
    SBX_TRY(check_digest(layer.diff_id));
    SBX_ASSIGN(const std::string_view inner, fields.bytes());
    SBX_ASSIGN(layer.report, decode_layer_report(inner));
    const bool is_number = !layer.stage.empty() && layer.stage.size() < 6 &&
                           layer.stage.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number) return Error(Errc::kProtocol, "malformed name in the report of an import");
    report.staged.push_back(std::move(layer));
  }
  SBX_TRY(fields.end());
  return report;
}

}  // namespace sbx::image
