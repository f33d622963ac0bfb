// Copy JSON: the result of a copy as one JSON object.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "core/session/copy.h"

#include <nlohmann/json.hpp>

namespace sbx::session {

namespace {

using Json = nlohmann::ordered_json;

/// Indexed by NoteKind.
constexpr std::array<const char*, archive::kNoteKinds> kNames{"special_file",
                                                              "unreadable",
                                                              "changed",
                                                              "xattr",
                                                              "acl",
                                                              "file_capabilities",
                                                              "setuid",
                                                              "kernel_file_system",
                                                              "too_deep",
                                                              "hard_link"};

}  // namespace

std::string copy_json(const CopyResult& result) {
  Json json;
  json["schema"] = 1;
  json["entries"] = std::max(result.from.entries, result.to.entries);
  json["bytes"] = std::max(result.from.bytes, result.to.bytes);
  json["skipped"] = result.from.skipped;
  Json notes = Json::array();
  for (std::size_t kind = 0; kind < archive::kNoteKinds; ++kind) {
    const archive::Note& from = result.from.notes[kind];
    const archive::Note& to = result.to.notes[kind];
    if (from.count + to.count == 0) continue;
    Json note;
    note["kind"] = kNames[kind];
    note["count"] = from.count + to.count;
    note["missing"] = archive::is_missing(static_cast<archive::NoteKind>(kind));
    note["paths"] = from.paths;
    for (const std::string& path : to.paths) {
      note["paths"].push_back(path);
    }
    notes.push_back(std::move(note));
  }
  json["notes"] = std::move(notes);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sbx::session
