// Layer report: see layer_report.h.
#include "core/image/layer_report.h"

#include "core/image/field_codec.h"
#include "core/image/layer_path.h"

namespace sbx::image {

namespace {

constexpr std::size_t kAnyDepth = 4096;

/// A path as the writer gives it: clean, and not the root.
Result<std::string> read_path(FieldReader& fields) {
  SBX_ASSIGN(const std::string_view path, fields.bytes());
  SBX_ASSIGN(std::string clean, link_target(path, kAnyDepth));
  if (clean != path) return Error(Errc::kProtocol, "malformed path in the report of an import");
  return clean;
}

}  // namespace

std::string encode(const LayerReport& report) {
  FieldWriter out;
  out.add(report.status);
  out.add(report.bytes);
  out.add(report.entries);
  out.add(report.left_out.devices);
  out.add(report.left_out.xattrs);
  out.add(std::uint64_t{report.implied.size()});
  for (const std::string& path : report.implied)
    out.add(std::string_view(path));
  out.add(std::uint64_t{report.links.size()});
  for (const auto& [path, target] : report.links) {
    out.add(std::string_view(path));
    out.add(std::string_view(target));
  }
  return out.text();
}

Result<LayerReport> decode_layer_report(std::string_view text) {
  FieldReader fields(text);
  LayerReport report;
  SBX_TRY(fields.read(report.status));
  SBX_ASSIGN(report.bytes, fields.number());
  SBX_ASSIGN(report.entries, fields.number());
  SBX_ASSIGN(report.left_out.devices, fields.number());
  SBX_ASSIGN(report.left_out.xattrs, fields.number());
  SBX_ASSIGN(std::uint64_t count, fields.count());
  for (; count > 0; --count) {
    SBX_ASSIGN(std::string path, read_path(fields));
    report.implied.push_back(std::move(path));
  }
  SBX_ASSIGN(count, fields.count());
  for (; count > 0; --count) {
    SBX_ASSIGN(std::string path, read_path(fields));
    SBX_ASSIGN(std::string target, read_path(fields));
    report.links.emplace_back(std::move(path), std::move(target));
  }
  SBX_TRY(fields.end());
  return report;
}

}  // namespace sbx::image
