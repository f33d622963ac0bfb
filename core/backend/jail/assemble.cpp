// Assemble: see assemble.h.
#include "core/backend/jail/assemble.h"

#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include "core/backend/jail/layered_plan.h"
#include "core/base/text.h"

namespace sbx::jail {

namespace {

/// The image and what is staged come behind all other sources.
void point_to_descriptors(JailPlan& plan) {
  auto next = static_cast<int32_t>(plan.sources.size());
  if (plan.image.has_value()) {
    for (confine::Step& step : plan.steps) {
      if (auto* scratch = std::get_if<confine::Scratch>(&step)) scratch->source_fd = next;
      if (auto* space = std::get_if<confine::ScratchSpace>(&step)) space->source_fd = next;
    }
    ++next;
  }
  for (confine::Step& step : plan.steps) {
    auto* stage = std::get_if<confine::Stage>(&step);
    if (stage == nullptr || !plan.basics.has_id_range()) continue;
    for (confine::StagedDir& dir : stage->dirs) {
      dir.source_fd = next++;
    }
  }
}

/// The scratch space itself, when changes of the root are kept in it; its places come later.
std::optional<confine::ScratchSpace> scratch_below_root(const JailPlan& plan,
                                                        const std::vector<confine::Step>& built) {
  if (plan.root_upper >= 0) return std::nullopt;
  for (const confine::Step& step : built) {
    if (const auto* scratch = std::get_if<confine::Scratch>(&step)) {
      return confine::ScratchSpace{scratch->size, scratch->inodes, -1};
    }
  }
  return std::nullopt;
}

}  // namespace

void assemble(JailPlan& plan, std::vector<confine::Step> built, size_t base_size) {
  confine::Stage stage;
  for (const StagedSource& source : plan.staged) {
    stage.dirs.push_back({source.path, source.beneath, -1});
  }
  if (!plan.root.has_value()) {
    const auto base_end = built.begin() + static_cast<std::ptrdiff_t>(base_size);
    plan.steps.assign(std::make_move_iterator(base_end), std::make_move_iterator(built.end()));
    if (!stage.dirs.empty()) {  // behind the scratch space, which is the first of these steps
      plan.steps.insert(plan.steps.begin() + 1, std::move(stage));
    }
    point_to_descriptors(plan);
    return;
  }
  const auto space = scratch_below_root(plan, built);
  confine::Overlay root{"/", {}, plan.root_upper, {}};
  root.part = kRootPart;
  for (uint32_t i = 0; i < plan.root->lowers.size(); ++i) {
    root.lowers.push_back({i, plan.staged[i].is_mount ? "" : text::cat("fs/", kRootPart)});
  }
  LayeredRequest request;
  request.base_size = plan.is_image ? base_size : SIZE_MAX;
  request.job_dirs = plan.job_dirs;
  request.job_owner = plan.job_owner;
  LayeredSteps layered = layer_steps(std::move(built), request);
  plan.base_objects = std::move(layered.objects);
  plan.steps.emplace_back(std::move(stage));
  if (space.has_value()) plan.steps.emplace_back(*space);
  plan.steps.emplace_back(std::move(root));
  std::move(layered.steps.begin(), layered.steps.end(), std::back_inserter(plan.steps));
  point_to_descriptors(plan);
}

}  // namespace sbx::jail
