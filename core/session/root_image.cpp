// Root image: see root_image.h.
#include "core/session/root_image.h"

#include <utility>
#include <vector>

#include "core/image/record.h"
#include "core/run/image_root.h"

namespace sbx::session {

Status adopt_image(const std::string& state_dir,
                   const RootChange& change,
                   profile::Profile& profile,
                   Record& record) {
  if (profile.image.empty()) return {};
  SBX_ASSIGN(const run::UsedImage used, run::use_image(state_dir, profile.image));
  run::apply_workdir(used, profile);
  RootImage image;
  image::Record own = used.opened.record;
  own.config.volumes.insert(own.config.volumes.end(), change.dirs.begin(), change.dirs.end());
  image.record = image::to_json(own);
  image.uid = used.user.uid;
  image.gid = used.user.gid;
  image.groups = used.user.groups;
  image.home = used.user.home;
  if (change.is_root) {
    image.uid = 0;
    image.gid = 0;
    image.groups.clear();
    image.home = "/root";
  }
  record.image = std::move(image);
  for (const image::LayerRef& layer : used.opened.record.layers) {
    record.lowers.push_back(layer.id);
  }
  return {};
}

Result<backend::ImageRoot> image_root_of(const Record& record, const std::string& layers_dir) {
  SBX_ASSIGN(const image::Record image, image::parse_record(record.image->record));
  backend::ImageRoot root;
  root.record = image;
  for (std::size_t i = 0; i < base_index(record.lowers); ++i) {
    root.layers.push_back(layers_dir + record.lowers[i]);
  }
  root.user = {record.image->uid, record.image->gid};
  root.groups = record.image->groups;
  root.volumes = image.config.volumes;
  return root;
}

Result<run::ImageEnvironment> image_environment_of(const RootImage& image) {
  SBX_ASSIGN(image::Record record, image::parse_record(image.record));
  return run::ImageEnvironment{std::move(record.config.env), image.home};
}

}  // namespace sbx::session
