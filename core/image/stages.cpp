// Stages: see stages.h.
#include "core/image/stages.h"

#include <fcntl.h>

#include <algorithm>

#include "core/base/sys.h"
#include "core/workspace/beneath.h"

namespace sbx::image {

namespace {

constexpr mode_t kDirMode = 0755;
constexpr int kDirFlags = O_RDONLY | O_DIRECTORY;

Result<UniqueFd> make_dir(int dirfd, const std::string& name) {
  SBX_TRY(sys::mkdirat(dirfd, name, kDirMode));
  SBX_ASSIGN(UniqueFd dir, workspace::open_entry(dirfd, name, kDirFlags));
  SBX_TRY(sys::fchmod(dir.get(), kDirMode));
  return dir;
}

}  // namespace

Result<Stages::Begun> Stages::begin() {
  Begun begun;
  begun.stage = std::to_string(count_++);
  SBX_ASSIGN(const UniqueFd layer, make_dir(dir_, begun.stage));
  SBX_ASSIGN(const UniqueFd content, make_dir(layer.get(), "fs"));
  SBX_ASSIGN(begun.root, make_dir(content.get(), "root"));
  begun.limits = {left_.bytes.v, left_.entries, budget_.depth};
  return begun;
}

void Stages::use(const LayerReport& report) {
  left_.bytes.v -= std::min(left_.bytes.v, report.bytes);
  left_.entries -= std::min(left_.entries, report.entries);
}

}  // namespace sbx::image
