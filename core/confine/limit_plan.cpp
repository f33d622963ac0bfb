// Limit plan: see limit_plan.h.
#include "core/confine/limit_plan.h"

#include "core/base/text.h"

namespace sbx::confine {
namespace {

constexpr std::int64_t kMillisPerSecond = 1000;

Error refuse(std::string_view limit, const ControllerPlace& place) {
  return Error(Errc::kUnsupported,
               text::cat("the ", limit, " limit cannot be enforced here: ", place.cause))
      .with_hint(text::cat(place.fix, "; or set limits.best_effort to true"));
}

ControllerPlace uncounted_swap() {
  return {.version = CgroupVersion::kNone,
          .dir = {},
          .cause = "swap is on, and this kernel does not count it for cgroups",
          .fix = "boot with swapaccount=1, or turn swap off: swapoff -a"};
}

std::string mechanism(const ControllerPlace& place, const char* v1, const char* v2) {
  return place.version == CgroupVersion::kV1 ? text::cat("cgroup v1 ", v1)
                                             : text::cat("cgroup v2 ", v2);
}

Status plan_memory(const LimitWishes& wishes, const CgroupLayout& layout, LimitPlan& plan) {
  const ControllerPlace& place = layout.memory;
  if (!wishes.memory.value) return {};
  const Bytes limit = *wishes.memory.value;
  const bool is_leaky = layout.swap == SwapState::kUncounted;
  if (place.usable() && is_leaky && wishes.memory.is_explicit && !wishes.best_effort) {
    return refuse("memory", uncounted_swap());
  }
  if (place.usable()) {
    plan.cgroup.memory = limit;
    plan.expected.push_back({.limit = "memory",
                             .value = std::to_string(limit.v),
                             .mechanism = mechanism(place, "memory.limit_in_bytes", "memory.max"),
                             .approximate = is_leaky});
    if (is_leaky) {
      const ControllerPlace hole = uncounted_swap();
      plan.warnings.push_back(
          text::cat("the memory limit does not hold for swap: ", hole.cause, " (", hole.fix, ")"));
    }
    return {};
  }
  if (wishes.memory.is_explicit && !wishes.best_effort) return refuse("memory", place);
  plan.rlimits.data = limit;
  plan.expected.push_back({.limit = "memory",
                           .value = std::to_string(limit.v),
                           .mechanism = "RLIMIT_DATA of each process",
                           .approximate = true});
  plan.warnings.push_back(
      text::cat("the memory limit holds for each process apart, not for all "
                "together: ",
                place.cause,
                " (",
                place.fix,
                ")"));
  return {};
}

Status plan_pids(const LimitWishes& wishes, const CgroupLayout& layout, LimitPlan& plan) {
  const ControllerPlace& place = layout.pids;
  if (!wishes.pids.value) return {};
  const std::uint64_t limit = *wishes.pids.value;
  if (place.usable()) {
    plan.cgroup.pids = limit;
    plan.expected.push_back({.limit = "pids",
                             .value = std::to_string(limit),
                             .mechanism = mechanism(place, "pids.max", "pids.max")});
    return {};
  }
  // Counted per user namespace it is a limit of this sandbox and nothing else; before, of all that
  // the user runs.
  const bool exact = wishes.nproc_is_per_userns;
  if (!exact && wishes.pids.is_explicit && !wishes.best_effort) return refuse("pids", place);
  if (!exact) {
    plan.warnings.push_back(
        text::cat("there is no limit on processes: ", place.cause, " (", place.fix, ")"));
    return {};
  }
  plan.rlimits.processes = limit + wishes.own_processes;
  plan.expected.push_back({.limit = "pids",
                           .value = std::to_string(limit),
                           .mechanism = "RLIMIT_NPROC in the sandbox's own user namespace"});
  return {};
}

Status plan_cpu(const LimitWishes& wishes, const CgroupLayout& layout, LimitPlan& plan) {
  const ControllerPlace& place = layout.cpu;
  if (!wishes.cpu_millis.value) return {};
  if (place.usable()) {
    plan.cgroup.cpu_millis = wishes.cpu_millis.value;
    plan.expected.push_back({.limit = "cpus",
                             .value = cpus_text(*wishes.cpu_millis.value),
                             .mechanism = mechanism(place, "cpu.cfs_quota_us", "cpu.max")});
    return {};
  }
  if (wishes.cpu_millis.is_explicit && !wishes.best_effort) return refuse("cpus", place);
  plan.warnings.push_back(
      text::cat("there is no limit on CPU use: ", place.cause, " (", place.fix, ")"));
  return {};
}

Status plan_cpu_time(const LimitWishes& wishes, const CgroupLayout& layout, LimitPlan& plan) {
  const ControllerPlace& place = layout.accounting;
  if (!wishes.cpu_time.value) return {};
  const Millis limit = *wishes.cpu_time.value;
  if (place.usable()) {
    plan.cgroup.accounting = true;
    plan.cpu_time = limit;
    plan.expected.push_back(
        {.limit = "cpu_time",
         .value = text::cat(limit.v, "ms"),
         .mechanism = text::cat(mechanism(place, "cpuacct.usage", "cpu.stat"),
                                " watched by sbx, SIGXCPU, after 2 s SIGKILL to all")});
    return {};
  }
  if (wishes.cpu_time.is_explicit && !wishes.best_effort) return refuse("cpu_time", place);
  const std::int64_t seconds = (limit.v + kMillisPerSecond - 1) / kMillisPerSecond;
  plan.rlimits.cpu_seconds = static_cast<std::uint64_t>(seconds);
  plan.expected.push_back({.limit = "cpu_time",
                           .value = text::cat(seconds, "000ms"),
                           .mechanism = "RLIMIT_CPU of each process",
                           .approximate = true});
  plan.warnings.push_back(
      text::cat("the cpu_time limit holds for each process apart, not for all together: ",
                place.cause,
                " (",
                place.fix,
                ")"));
  return {};
}

/// One sentence: who cannot delegate one controller mostly lacks them all, for the same cause.
void merge_warnings(LimitPlan& plan) {
  if (plan.warnings.size() < 2) return;
  std::string all = plan.warnings.front();
  for (std::size_t i = 1; i < plan.warnings.size(); ++i) {
    // The cause and the fix were said already; what is off comes before the colon.
    all += text::cat("; ", plan.warnings[i].substr(0, plan.warnings[i].find(": ")));
  }
  plan.warnings = {std::move(all)};
}

}  // namespace

Result<LimitPlan> plan_limits(const LimitWishes& wishes, const CgroupLayout& layout) {
  LimitPlan plan;
  plan.rlimits.open_files = wishes.open_files;
  SBX_TRY(plan_memory(wishes, layout, plan));
  SBX_TRY(plan_pids(wishes, layout, plan));
  SBX_TRY(plan_cpu(wishes, layout, plan));
  SBX_TRY(plan_cpu_time(wishes, layout, plan));
  plan.expected.push_back({.limit = "open_files",
                           .value = std::to_string(wishes.open_files),
                           .mechanism = "RLIMIT_NOFILE"});
  merge_warnings(plan);
  return plan;
}

}  // namespace sbx::confine
