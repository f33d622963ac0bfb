// Jail plan as text, what `--dry-run` prints: see jail_plan.h.
#include <string>

#include "core/backend/jail/base_plan.h"
#include "core/backend/jail/jail_plan.h"
#include "core/backend/jail/tree_builder.h"
#include "core/base/text.h"
#include "core/confine/caps.h"

namespace sbx::jail {

namespace {

constexpr int kCapabilityCount = 64;

std::string header_text(const JailPlan& plan) {
  std::string out = text::cat("jail ", plan.id, "\n");
  switch (plan.basics.ids) {
    case IdScheme::kRange:
      out += text::cat(
          "ids 65536 of a range that belongs to nobody; the job is ", plan.rules.uid, " inside\n");
      break;
    case IdScheme::kSubids:
      out += text::cat("ids 0 inside is ",
                       plan.basics.own_uid,
                       ":",
                       plan.basics.own_gid,
                       ", others are those of /etc/subuid and /etc/subgid; the job is ",
                       plan.rules.uid,
                       " inside\n");
      break;
    case IdScheme::kSingle:
      out += text::cat("ids 1000 inside is ", plan.basics.own_uid, ":", plan.basics.own_gid, "\n");
      break;
  }
  out += plan.init == InitMode::kFork ? "init fork\n" : "init exec from a read-only clone\n";
  for (const confine::InForce& limit : plan.expected) {
    out += text::cat("limit ",
                     limit.limit,
                     " ",
                     limit.value,
                     " by ",
                     limit.mechanism,
                     limit.approximate ? " (approximate)\n" : "\n");
  }
  return out;
}

std::string_view filter_name(const agent::PayloadRules& rules) {
  if (rules.is_nesting) return "nesting";
  return rules.may_set_id_bits ? "image" : "default";
}

std::string rules_text(const agent::PayloadRules& rules) {
  std::string out = text::cat("job uid ",
                              rules.uid,
                              " gid ",
                              rules.gid,
                              "; no_new_privs; ",
                              rules.kept() == 0 ? "no capabilities" : "capabilities",
                              "; seccomp ",
                              filter_name(rules),
                              rules.is_using_landlock ? "; landlock\n" : "\n");
  for (int number = 0; number < kCapabilityCount; ++number) {
    if ((rules.kept() >> number & 1) != 0) {
      out += text::cat("capability ", confine::capability_name(number), "\n");
    }
  }
  return out;
}

}  // namespace

std::string to_text(const JailPlan& plan, const HostTree& tree) {
  std::string out = header_text(plan);
  if (plan.root.has_value()) {
    for (const confine::Step& step : plan.steps) {
      out += text::cat(confine::to_text(step), "\n");
    }
    return out + rules_text(plan.rules);
  }
  TreeBuilder base(confine::kKeepOwner);
  if (const Status added = add_base(base, tree, plan.base); !added.ok()) {
    out += text::cat(added.error().message(), "\n");
  }
  if (!plan.needs_own_root) out += "root as below, its files made once and kept for all jails\n";
  for (const confine::Step& step : base.take()) {
    out += text::cat(confine::to_text(step), "\n");
  }
  for (const confine::Step& step : plan.steps) {
    out += text::cat(confine::to_text(step), "\n");
  }
  return out + rules_text(plan.rules);
}

}  // namespace sbx::jail
