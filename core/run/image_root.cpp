// Image root: see image_root.h.
#include "core/run/image_root.h"

#include <utility>

#include "core/base/text.h"
#include "core/confine/idmap.h"

namespace sbx::run {

Result<UsedImage> use_image(const std::string& state_dir, std::string_view name) {
  if (state_dir.empty()) {
    return Error(Errc::kNotFound, "there is no state directory, and so no image")
        .with_hint("set SBX_STATE_DIR to a directory that you may write");
  }
  UsedImage used;
  SBX_ASSIGN(used.opened, image::open_image(state_dir, name));
  SBX_ASSIGN(const image::Store store, image::Store::open(state_dir));
  std::vector<std::string> ids;
  for (const image::LayerRef& layer : used.opened.record.layers) {
    ids.push_back(layer.id);
  }
  auto user = image::find_user(store.layers(), ids, used.config().user);
  if (!user.ok()) {
    return std::move(user)
        .error()
        .with_code(Errc::kUsage)
        .prefixed(text::cat("image ", text::escape(name)));
  }
  used.user = std::move(user).value();
  constexpr std::uint32_t kCount = confine::IdRange::kCount;
  if (used.user.uid >= kCount || used.user.gid >= kCount) {
    return Error(Errc::kUnsupported,
                 text::cat("image ",
                           text::escape(name),
                           ": its user is ",
                           used.user.uid,
                           ":",
                           used.user.gid,
                           ", and ids inside are below ",
                           kCount));
  }
  std::erase_if(used.user.groups, [](std::uint32_t group) { return group >= kCount; });
  return used;
}

backend::ImageRoot root_of(const UsedImage& image) {
  backend::ImageRoot root;
  constexpr std::string_view kPart = "/fs/root";
  for (std::string_view dir : image.opened.layer_dirs) {
    if (dir.ends_with(kPart)) dir.remove_suffix(kPart.size());
    root.layers.emplace_back(dir);
  }
  root.record = image.opened.record;
  root.user = {image.user.uid, image.user.gid};
  root.groups = image.user.groups;
  root.volumes = image.config().volumes;
  return root;
}

void apply_workdir(const UsedImage& image, profile::Profile& profile) {
  const std::string& own = image.config().workdir;
  if (own.starts_with('/') && !profile.is_explicit("workdir")) profile.workdir = own;
}

Result<std::vector<std::string>> image_command(
    const UsedImage& image,
    const std::optional<std::vector<std::string>>& entrypoint,
    const std::vector<std::string>& words) {
  std::vector<std::string> argv = entrypoint.value_or(image.config().entrypoint);
  const bool is_own = !entrypoint.has_value();
  const std::vector<std::string>& rest = words.empty() && is_own ? image.config().cmd : words;
  argv.insert(argv.end(), rest.begin(), rest.end());
  if (!argv.empty() && !argv.front().empty()) return argv;
  return Error(Errc::kUsage,
               text::cat(
                   "image ", text::escape(image.opened.record.name), " does not say what to run"))
      .with_hint(text::cat(
          "name a command: sbx run --image ", text::escape(image.opened.record.name), " -- CMD"));
}

}  // namespace sbx::run
