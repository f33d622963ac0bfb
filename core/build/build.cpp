// Build: see build.h.
#include "core/build/build.h"

#include <unistd.h>

#include <utility>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/build/content.h"
#include "core/build/step_run.h"
#include "core/image/store.h"
#include "core/session/layers.h"

namespace sbx::build {

namespace {

constexpr std::size_t kKeyDigits = 32;

class Builder {
 public:
  Builder(const BuildRequest& request, session::Store sessions, image::Store images)
      : request_(request), sessions_(std::move(sessions)), images_(std::move(images)) {}

  Result<Built> run() {
    SBX_ASSIGN(const UniqueFd dir, fs::open_dir(request_.recipe_dir));
    SBX_TRY(begin());
    Built built;
    const std::vector<Step>& steps = request_.recipe.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      SBX_TRY(extend_key(steps[i], dir.get()));
      const auto kept = images_.find(state_name());
      const bool is_cached = request_.is_using_cache && kept.ok();
      if (request_.on_step) {
        request_.on_step({i + 1, steps.size(), steps[i].to_text(), is_cached});
      }
      if (is_cached) {
        state_ = kept.value();
        ++built.cached_steps;
      } else {
        SBX_ASSIGN(built.failed, carry_out(steps[i]));
        if (built.failed.has_value()) return built;
      }
      SBX_TRY(keep_state(state_name()));  // also a used one: it is new again
    }
    state_.source = request_.source;
    SBX_TRY(keep_state(request_.name));
    built.image = state_;
    return built;
  }

 private:
  Status begin() {
    if (request_.recipe.from == kScratch) {
      state_.architecture = image::host_architecture();
    } else {
      auto base = images_.find(request_.recipe.from);
      if (!base.ok()) return std::move(base).error().with_code(Errc::kUsage);
      state_ = std::move(base).value();
    }
    state_.id = image::identity(state_);
    add_to_key(state_.id);
    add_to_key(request_.recipe.profile);
    for (const std::string& mount : request_.recipe.mounts) {
      add_to_key(mount);
    }
    SBX_TRY(end_key());
    return keep_state(state_name());
  }

  void add_to_key(std::string_view field) {
    digest_.update(text::cat(field.size(), ":"));
    digest_.update(field);
  }

  Status end_key() {
    key_ = digest_.hex();
    return {};
  }

  Status extend_key(const Step& step, int dir) {
    add_to_key(key_);
    add_to_key(name(step.kind));
    for (const std::string& word : step.words) {
      add_to_key(word);
    }
    for (const auto& [key, value] : step.pairs) {
      add_to_key(key);
      add_to_key(value);
    }
    if (step.kind == StepKind::kCopy) {
      add_to_key(step.to);
      auto content = content_digest(dir, step.from);
      if (!content.ok()) {
        return std::move(content)
            .error()
            .with_code(Errc::kUsage)
            .prefixed(text::cat("line ", step.line, ": copy"));
      }
      add_to_key(content.value());
    }
    return end_key();
  }

  std::string state_name() const {
    return text::cat(image::kCachePrefix, key_.substr(0, kKeyDigits));
  }

  Status keep_state(const std::string& name) {
    SBX_ASSIGN(const workspace::LayersLock held, session::hold_layers(sessions_));
    state_.name = name;
    state_.created_ns = realtime_ns();
    state_.id = image::identity(state_);
    return images_.put(state_, held);
  }

  /// Makes state_ what it is after `step`; what failed of it, if anything.
  Result<std::optional<FailedStep>> carry_out(const Step& step) {
    image::Config config = state_.config;
    apply(step, config);
    if (step.kind != StepKind::kRun && step.kind != StepKind::kCopy) {
      state_.config = std::move(config);
      return std::optional<FailedStep>();
    }
    StepRun run(request_, sessions_, images_, state_);
    SBX_ASSIGN(std::optional<FailedStep> failed, run.carry_out(step));
    if (failed.has_value()) return failed;
    SBX_ASSIGN(state_, run.commit(state_name()));
    return failed;
  }

  const BuildRequest& request_;
  session::Store sessions_;
  image::Store images_;
  Sha256 digest_;
  std::string key_;
  image::Record state_;
};

}  // namespace

Result<Built> build(const BuildRequest& request) {
  SBX_TRY(image::check_name(request.name));
  SBX_ASSIGN(session::Store sessions, session::Store::open(request.state_dir));
  SBX_ASSIGN(image::Store images, image::Store::open(request.state_dir));
  return Builder(request, std::move(sessions), std::move(images)).run();
}

}  // namespace sbx::build
