// Layer import: see layer_import.h.
#include "core/image/layer_import.h"

#include <utility>

namespace sbx::image {

namespace {

Status read_members(LayerWriter& writer,
                    const archive::NextBlock& input,
                    const std::function<void()>& on_entry) {
  SBX_ASSIGN(archive::ArchiveReader reader, archive::ArchiveReader::open(input));
  const LayerWriter::Content content = [&reader] { return reader.data(); };
  archive::Member member;
  while (true) {
    SBX_ASSIGN(const bool has_member, reader.next(member));
    if (!has_member) break;
    SBX_TRY(writer.add(member, content));
    on_entry();
  }
  SBX_TRY(writer.finish());
  // What comes behind the end mark belongs to the stream's digest.
  while (true) {
    SBX_ASSIGN(const std::span<const std::byte> rest, input());
    if (rest.empty()) return {};
  }
}

}  // namespace

LayerReport import_layer(UniqueFd root,
                         const LayerLimits& limits,
                         const archive::NextBlock& input,
                         const std::function<void()>& on_entry) {
  LayerWriter writer(std::move(root), limits);
  LayerReport report;
  report.status = read_members(writer, input, on_entry);
  report.bytes = writer.bytes();
  report.entries = writer.entries();
  report.left_out = writer.left_out();
  if (!report.status.ok()) return report;
  report.implied.assign(writer.implied().begin(), writer.implied().end());
  report.links.assign(writer.links().begin(), writer.links().end());
  return report;
}

}  // namespace sbx::image
