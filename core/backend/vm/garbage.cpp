// Garbage: see garbage.h.
#include "core/backend/vm/garbage.h"

#include <utility>

#include "core/backend/vm/live_dir.h"
#include "core/backend/vm/templates.h"
#include "core/base/fs.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

constexpr Millis kUnusedFor{std::int64_t{7} * 24 * 3600 * 1000};

}  // namespace

std::vector<Stale> stale_files(const std::string& state_dir) {
  std::vector<Stale> all;
  for (std::string& name : stale_live_dirs(state_dir)) {
    all.push_back({text::cat("vm/live/", name), "its machine is gone", 0});
  }
  for (StaleTemplate& each : stale_templates(state_dir, kUnusedFor)) {
    all.push_back(
        {text::cat("vm/templates/", each.name),
         each.is_partial ? "whoever made it is gone" : "nobody started from it for a week",
         each.bytes});
  }
  return all;
}

Status remove_stale(const std::string& state_dir, const Stale& stale) {
  const std::string name = stale.path.substr(stale.path.rfind('/') + 1);
  if (stale.path.starts_with("vm/live/")) return remove_live_dir(state_dir, name);
  return remove_template(state_dir, name);
}

}  // namespace sbx::vm
