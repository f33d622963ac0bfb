// Jail codec: what PID 1 needs to know, as the bytes that Setup carries.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/agent/rules.h"
#include "core/base/result.h"
#include "core/confine/mount_op.h"

namespace sbx::jail {

/// Descriptors come with the message in the order join, group, held, sources.
struct InitPlan {
  agent::PayloadRules rules;
  bool is_lasting = false;
  uint32_t join_fds = 0;
  uint32_t group_fds = 0;  ///< 0 or 1: the v2 group that programs are cloned into
  uint32_t held_fds = 0;
  uint32_t source_fds = 0;
  std::vector<confine::Step> steps;
};

std::string encode_steps(std::span<const confine::Step> steps);
/// kProtocol when the bytes are not exactly a list of steps.
Result<std::vector<confine::Step>> decode_steps(std::string_view bytes);

/// `steps` instead of those in `plan`: they are large and need no copy.
std::string encode_init_plan(const InitPlan& plan, std::span<const confine::Step> steps);
/// kProtocol when the bytes are not exactly one plan.
Result<InitPlan> decode_init_plan(std::string_view bytes);

}  // namespace sbx::jail
