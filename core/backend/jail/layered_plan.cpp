// Layered plan: see layered_plan.h.
#include "core/backend/jail/layered_plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "core/backend/jail/tree_builder.h"
#include "core/base/sha256.h"
#include "core/base/text.h"

namespace sbx::jail {

namespace {

constexpr size_t kPartDigits = 12;
constexpr Bytes kDevSize{uint64_t{256} << 10};
constexpr std::string_view kDev = "/dev";

/// Calls `use` with each path that `step` mounts something on.
template <typename Use>
void for_each_target(const confine::Step& step, Use use) {
  if (const auto* bind = std::get_if<confine::Bind>(&step)) use(bind->path);
  if (const auto* proc = std::get_if<confine::Proc>(&step)) use(proc->path);
  if (const auto* pts = std::get_if<confine::DevPts>(&step)) use(pts->path);
  if (const auto* group = std::get_if<confine::ShowCgroup>(&step)) use(group->path);
  if (const auto* overlay = std::get_if<confine::Overlay>(&step)) use(overlay->path);
  if (const auto* scratch = std::get_if<confine::Scratch>(&step)) {
    for (const confine::ScratchDir& dir : scratch->dirs) {
      use(dir.path);
    }
  }
}

class Layering {
 public:
  Layering(const std::vector<confine::Step>& steps, const LayeredRequest& request)
      : request_(request), fresh_{std::string(kDev)} {
    for (const confine::Step& step : steps) {
      for_each_target(step, [this](const std::string& path) {
        for (size_t slash = path.find('/', 1); slash != std::string::npos;
             slash = path.find('/', slash + 1)) {
          needed_.insert(path.substr(0, slash));
        }
        needed_.insert(path);
      });
    }
    needed_.insert(request.job_dirs.begin(), request.job_dirs.end());
    out_.steps.emplace_back(confine::Place{.path = "/", .target = {}});
  }

  void add(confine::Step step) {
    ++seen_;
    if (std::holds_alternative<confine::NewRoot>(step)) return;
    if (const auto* scratch = std::get_if<confine::Scratch>(&step)) {
      for (const confine::ScratchDir& dir : scratch->dirs) {
        fresh_.push_back(dir.path);
      }
    }
    if (std::holds_alternative<confine::EnterRoot>(step)) {
      out_.steps.emplace_back(confine::Seal{std::string(kDev)});
    }
    if (auto* dir = std::get_if<confine::MakeDir>(&step)) return add_dir(std::move(*dir));
    if (auto* file = std::get_if<confine::MakeFile>(&step)) return add_file(std::move(*file));
    if (auto* link = std::get_if<confine::MakeLink>(&step)) return add_link(std::move(*link));
    out_.steps.push_back(std::move(step));
  }

  LayeredSteps take() { return std::move(out_); }

 private:
  /// What nothing works without: targets and the way to them, and all that is directly in the root.
  bool is_needed(const std::string& path) const {
    return path.rfind('/') == 0 || needed_.contains(path) || is_jobs(path);
  }

  bool is_jobs(const std::string& path) const {
    const std::vector<std::string>& dirs = request_.job_dirs;
    return std::any_of(dirs.begin(), dirs.end(), [&path](const std::string& dir) {
      return path == dir || is_below(path, dir);
    });
  }

  /// Nobody could write to it before: it is on a file system that is made at this start.
  bool is_fresh(const std::string& path) const {
    return std::any_of(fresh_.begin(), fresh_.end(), [&path](const std::string& dir) {
      return is_below(path, dir);
    });
  }

  /// What the base makes is the same in many sandboxes.
  template <typename Object>
  void keep(Object object) {
    if (seen_ <= request_.base_size) out_.objects.emplace_back(std::move(object));
  }

  void add_dir(confine::MakeDir dir) {
    if (is_fresh(dir.path)) {
      out_.steps.emplace_back(std::move(dir));
      return;
    }
    if (is_jobs(dir.path)) dir.owner = request_.job_owner;
    if (is_needed(dir.path)) {
      confine::Place place;
      place.path = dir.path;
      place.mode = dir.mode;
      if (is_jobs(dir.path)) place.least = 0700;  // what others may there is the job's to say
      place.owner = dir.owner;
      out_.steps.emplace_back(std::move(place));
    }
    if (dir.path == kDev) out_.steps.emplace_back(confine::Tmpfs{dir.path, kDevSize});
    keep(std::move(dir));
  }

  void add_file(confine::MakeFile file) {
    if (is_fresh(file.path)) {
      out_.steps.emplace_back(std::move(file));
      return;
    }
    if (needed_.contains(file.path)) {
      confine::Place place;
      place.path = file.path;
      place.kind = confine::PlaceKind::kFile;
      place.mode = file.mode;
      out_.steps.emplace_back(std::move(place));
    }
    keep(std::move(file));
  }

  void add_link(confine::MakeLink link) {
    if (is_fresh(link.path)) {
      out_.steps.emplace_back(std::move(link));
      return;
    }
    if (is_needed(link.path)) {
      confine::Place place;
      place.path = link.path;
      place.kind = confine::PlaceKind::kLink;
      place.target = link.target;
      out_.steps.emplace_back(std::move(place));
    }
    keep(std::move(link));
  }

  const LayeredRequest& request_;
  std::vector<std::string> fresh_;
  size_t seen_ = 0;  // steps up to now
  std::set<std::string, std::less<>> needed_;
  LayeredSteps out_;
};

}  // namespace

std::string overlay_part(std::string_view target) {
  Sha256 digest;
  digest.update(target);
  return text::cat("m-", digest.hex().substr(0, kPartDigits));
}

LayeredSteps layer_steps(std::vector<confine::Step> steps, const LayeredRequest& request) {
  Layering layering(steps, request);
  for (confine::Step& step : steps) {
    layering.add(std::move(step));
  }
  return layering.take();
}

}  // namespace sbx::jail
