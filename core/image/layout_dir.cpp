// Layout dir: see layout_dir.h.
#include "core/image/layout_dir.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <set>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/layer_key.h"
#include "core/image/layer_path.h"

namespace sbx::image {

namespace {

/// A regular file; nullopt when there is none.
Result<std::optional<UniqueFd>> open_file(int dirfd, const std::string& path) {
  auto file = fs::open_in(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file.ok() && file.error().code() == Errc::kNotFound) return std::optional<UniqueFd>();
  if (!file.ok()) return std::move(file).error();
  SBX_ASSIGN(const struct stat st, sys::fstat(file.value().get()));
  if (!S_ISREG(st.st_mode)) {
    return Error(Errc::kProtocol, text::cat(shown(path), " is no regular file"));
  }
  return std::optional(std::move(file).value());
}

}  // namespace

Result<std::optional<ImagePlan>> plan_dir(int dirfd, const std::string& tag) {
  const FindText find = [dirfd](const std::string& path) -> Result<std::optional<std::string>> {
    SBX_ASSIGN(const std::optional<UniqueFd> file, open_file(dirfd, path));
    if (!file.has_value()) return std::optional<std::string>();
    auto text = sys::read_all(file->get(), Bytes{kMaxText});
    if (!text.ok()) return std::move(text).error().prefixed(shown(path));
    return std::optional(std::move(text).value());
  };
  bool is_layout = false;
  for (const char* name : {"index.json", "manifest.json"}) {
    const auto file = open_file(dirfd, name);
    is_layout = is_layout || (file.ok() && file.value().has_value());
  }
  if (!is_layout) return std::optional<ImagePlan>();
  SBX_ASSIGN(ImagePlan plan, plan_image(find, tag));
  return std::optional(std::move(plan));
}

Result<std::vector<OpenedBlob>> open_blobs(int dirfd,
                                           const ImagePlan& plan,
                                           const PresentLayers& present) {
  std::vector<OpenedBlob> blobs;
  std::set<std::string> seen;
  std::string chain;
  for (const PlannedLayer& layer : plan.layers) {
    const bool is_there = !present_layer(present, chain, layer.diff_id).empty();
    chain = chain_id(chain, layer.diff_id);
    if (is_there || !seen.insert(layer.path).second) continue;
    SBX_ASSIGN(std::optional<UniqueFd> file, open_file(dirfd, layer.path));
    if (!file.has_value()) {
      return Error(Errc::kNotFound, text::cat("layer ", shown(layer.path), " is missing"));
    }
    blobs.push_back({*std::move(file), layer.path, layer.diff_id});
  }
  return blobs;
}

}  // namespace sbx::image
