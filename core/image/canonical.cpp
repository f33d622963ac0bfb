// Canonical: see canonical.h.
#include "core/image/canonical.h"

#include <fcntl.h>

#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/record.h"
#include "core/workspace/beneath.h"
#include "core/workspace/layer_store.h"

namespace sbx::image {

namespace {

constexpr const char* kFile = "canonical";
constexpr Bytes kMaxFile{128};
constexpr std::string_view kImageLayer = "img-";

}  // namespace

std::optional<LayerTar> canonical_of(int layers, const std::string& id) {
  if (!workspace::is_layer_id(id)) return std::nullopt;
  const auto file = fs::read_file_at(layers, text::cat(id, "/", kFile), kMaxFile);
  if (!file.ok()) return std::nullopt;
  auto tar = parse_layer_tar(text::trim(file.value()));
  return tar.ok() ? std::optional(std::move(tar).value()) : std::nullopt;
}

Status note_canonical(int layer, const LayerTar& tar) {
  return fs::write_atomic(layer, kFile, to_text(tar) + "\n", 0644);
}

Result<std::map<std::string, std::string>> layer_aliases(int layers) {
  // A descriptor of its own: reading moves the position.
  SBX_ASSIGN(const UniqueFd dir, sys::openat(layers, ".", O_RDONLY | O_DIRECTORY));
  SBX_ASSIGN(const std::vector<std::string> names, workspace::read_names(dir.get()));
  std::map<std::string, std::string> aliases;
  for (const std::string& name : names) {
    if (!name.starts_with(kImageLayer)) continue;
    const std::optional<LayerTar> tar = canonical_of(layers, name);
    if (!tar.has_value()) continue;
    std::string other = image_layer_id(text::cat("diff:", tar->diff_id));
    if (other != name) aliases.emplace(std::move(other), name);
  }
  return aliases;
}

}  // namespace sbx::image
