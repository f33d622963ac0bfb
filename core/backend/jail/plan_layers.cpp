// Jail plan, the layers: what overlays are made of, and where their changes go. See jail_plan.h.
#include <algorithm>
#include <vector>

#include "core/backend/jail/layered_plan.h"
#include "core/backend/jail/planner.h"
#include "core/base/text.h"

namespace sbx::jail {

Status Planner::check_root() const {
  if (!request_.root.has_value()) return {};
  if (!request_.inputs.empty()) {
    return Error(Errc::kUsage, "inputs are of no use where /work is kept")
        .with_hint("copy them in with sbx cp, or mount them with -v");
  }
  for (const backend::InputFile& file : request_.files) {
    if (is_below(file.path, "/work")) {
      return Error(Errc::kUsage, text::cat(file.path, " would be made where /work is kept"));
    }
  }
  return {};
}

/// A host directory as the lowest layer, below what every layer of the root has of it.
Status Planner::add_overlay(const profile::Mount& mount, const std::string& target, bool is_dir) {
  if (!is_dir) {
    return Error(Errc::kUsage,
                 text::cat("mount ", mount.source, ": only directories can be mounted overlay"))
        .with_hint("mount the directory that it is in, or use mode ro or rw");
  }
  confine::Overlay overlay;
  overlay.path = target;
  overlay.part = overlay_part(target);
  overlay.lowers.push_back({static_cast<uint32_t>(plan_.staged.size()), {}});
  if (request_.root.has_value()) {
    for (size_t i = 0; i < facts_.layer_parts.size(); ++i) {
      const std::vector<std::string>& parts = facts_.layer_parts[i];
      if (std::find(parts.begin(), parts.end(), overlay.part) == parts.end()) continue;
      overlay.lowers.push_back({static_cast<uint32_t>(i), text::cat("fs/", overlay.part)});
    }
    overlay.upper = static_cast<int32_t>(request_.root->lowers.size());
  } else if (plan_.throwaway_at.has_value()) {
    overlay.upper = static_cast<int32_t>(*plan_.throwaway_at);
  }
  plan_.upper_parts.push_back({overlay.part, mount.source});
  plan_.staged.push_back({mount.source, mount.beneath, false, false});
  builder_.add_overlay(std::move(overlay));
  return {};
}

/// Of a layer of mounts its root alone: what is mounted in a directory does not come with it.
void Planner::stage_layer(const std::string& path) {
  const bool is_mount =
      is_image() && request_.image->are_mounts &&
      std::find(request_.image->layers.begin(), request_.image->layers.end(), path) !=
          request_.image->layers.end();
  plan_.staged.push_back(
      {is_mount ? text::cat(path, "/fs/", kRootPart) : path, {}, true, is_mount});
}

/// Layers are what is staged first. Where nothing is kept changes of overlays are in the scratch
/// space, or where that cannot be in a layer of their own.
Status Planner::add_layers() {
  if (request_.root.has_value()) {
    plan_.root = request_.root;
    plan_.upper_parts.push_back({std::string(kRootPart), {}});
    for (const std::string& lower : request_.root->lowers) {
      stage_layer(lower);
    }
    plan_.root_upper = static_cast<int32_t>(plan_.staged.size());
    plan_.staged.push_back({request_.root->upper, {}, true, false});
    return {};
  }
  if (is_image()) {
    plan_.root.emplace();
    plan_.root->lowers = request_.image->layers;
    for (const std::string& lower : request_.image->layers) {
      stage_layer(lower);
    }
    plan_.base_at = plan_.staged.size();
    plan_.root->lowers.emplace_back();
    plan_.staged.push_back({{}, {}, true, false});
  }
  const std::vector<profile::Mount>& mounts = profile_.mounts;
  const bool has_overlay = std::any_of(mounts.begin(), mounts.end(), [](const profile::Mount& m) {
    return m.mode == profile::MountMode::kOverlay;
  });
  const bool needs_throwaway =
      (has_overlay || is_image()) && !plan_.image.has_value() && !facts_.tmpfs_keeps_attributes;
  if (!needs_throwaway) return {};
  if (is_disk_wished()) {
    return Error(Errc::kUnsupported,
                 text::cat("a limit of the disk cannot be held with ",
                           is_image() ? "an image" : "overlay mounts",
                           ": files in memory keep no attributes of users"))
        .with_hint(
            "use Linux 6.6 or newer, leave the limit out, or add --set limits.best_effort=true");
  }
  plan_.throwaway_at = plan_.staged.size();
  if (is_image()) {
    plan_.root_upper = static_cast<int32_t>(plan_.staged.size());
    plan_.upper_parts.push_back({std::string(kRootPart), {}});
  }
  plan_.staged.push_back({{}, {}, true, false});
  return {};
}

}  // namespace sbx::jail
