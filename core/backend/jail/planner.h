// Planner: the making of one jail's plan, in parts: jail_plan.cpp (order, inputs, mounts),
// plan_limits.cpp and plan_layers.cpp. Private to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/backend/jail/jail_plan.h"
#include "core/backend/jail/tree_builder.h"
#include "core/confine/disk_plan.h"

namespace sbx::jail {

/// Makes the plan of one request.
class Planner {
 public:
  Planner(const backend::LaunchRequest& request, const JailFacts& facts)
      : request_(request),
        profile_(*request.profile),
        facts_(facts),
        job_owner_(owner_of(request, facts.basics)),
        builder_(job_owner_) {}

  Result<JailPlan> make();

 private:
  void decide_base();
  bool is_changing_root() const;
  void add_scratch();
  Status add_source(confine::Bind bind, bool is_input);
  Status add_inputs();
  Status add_mounts();
  Status add_devices();
  void add_workdir();
  Status add_cgroup_view();
  void freeze_proc();
  Status check_root() const;
  Status add_overlay(const profile::Mount& mount, const std::string& target, bool is_dir);
  Status add_layers();
  void stage_layer(const std::string& path);
  bool is_disk_wished() const;
  Status decide_limits();
  Status decide_disk();
  Status decide_rules();
  Status add_root();
  void add_volumes();
  bool is_image() const { return request_.image.has_value(); }
  /// The inside id that owns what the job owns, as steps have it.
  static int32_t owner_of(const backend::LaunchRequest& request, const JailBasics& basics);

  const backend::LaunchRequest& request_;
  const profile::Profile& profile_;
  const JailFacts& facts_;
  int32_t job_owner_;
  TreeBuilder builder_;
  size_t base_size_ = 0;
  confine::DiskPlan disk_;
  JailPlan plan_;
};

}  // namespace sbx::jail
