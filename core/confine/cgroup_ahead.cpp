// Cgroup ahead: a v2 group made before its limits are known, so that PID 1 can be cloned into it.
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>

#include "core/base/text.h"
#include "core/confine/cgroup.h"
#include "core/confine/cgroup_file.h"

namespace sbx::confine {

namespace cgf = cgroup_file;

bool is_unified_hierarchy() {
  struct statfs info {};
  return ::statfs("/sys/fs/cgroup", &info) == 0 && info.f_type == CGROUP2_SUPER_MAGIC;
}

Cgroup Cgroup::create_ahead(const CgroupLayout& layout, const std::string& id) {
  const std::array<const ControllerPlace*, 5> places{
      &layout.accounting, &layout.freezer, &layout.memory, &layout.pids, &layout.cpu};
  const ControllerPlace& place = *places.front();
  const bool is_alone = place.version == CgroupVersion::kV2 &&
                        std::all_of(places.begin(), places.end(), [&](const ControllerPlace* p) {
                          return !p->usable() || p->dir == place.dir;
                        });
  Cgroup out;
  if (!is_alone) return out;
  const Want want{true, &place, &Group::accounting};
  if (!out.add_group(want, text::cat("sbx-", id)).ok()) return {};
  Group& group = out.groups_.front();
  group.freezer = true;
  std::vector<std::string_view> controllers;
  if (layout.memory.usable()) controllers.emplace_back("memory");
  if (layout.pids.usable()) controllers.emplace_back("pids");
  if (layout.cpu.usable()) controllers.emplace_back("cpu");
  // While nobody is in it: later every process would have to be moved to the new state, which waits
  // for RCU. What does not work now, limit() tries again and reports.
  (void)turn_on_controllers(group, controllers);
  return out;
}

Status Cgroup::limit(const CgroupLayout& layout, const CgroupRequest& request) {
  Group& group = groups_.front();
  const auto mark = [&](bool is_wanted, const ControllerPlace& place, Role role) -> Status {
    if (!is_wanted) return {};
    if (!place.usable()) return Error(Errc::kUnsupported, place.cause).with_hint(place.fix);
    group.*role = true;
    return {};
  };
  SBX_TRY(mark(request.memory.has_value(), layout.memory, &Group::memory));
  SBX_TRY(mark(request.pids.has_value(), layout.pids, &Group::pids));
  SBX_TRY(mark(request.cpu_millis.has_value(), layout.cpu, &Group::cpu));
  const std::vector<std::string_view> controllers = controllers_of(group);
  const bool is_on = std::all_of(controllers.begin(), controllers.end(), [&](std::string_view c) {
    return cgf::exists(group.dir.get(), text::cat(c, ".max").c_str());
  });
  if (!is_on) SBX_TRY(turn_on_controllers(group, controllers));
  if (request.memory.has_value()) SBX_TRY(check_room(group, *request.memory));
  return set_limits(request, layout.swap);
}

/// A limit below what is in use would end PID 1 at once, without a word.
Status Cgroup::check_room(const Group& group, Bytes limit) {
  SBX_ASSIGN(const std::string text, cgf::read(group.dir.get(), group.path, "memory.current"));
  SBX_ASSIGN(const std::uint64_t used, parse_count(text));
  if (used <= limit.v) return {};
  constexpr std::uint64_t kMiB = 1U << 20U;
  return Error(Errc::kUnsupported,
               text::cat("memory limit: ",
                         to_string(limit),
                         " is less than the sandbox itself needs (",
                         to_string(Bytes{(used + kMiB - 1) / kMiB * kMiB}),
                         ")"))
      .with_hint("raise --memory (limits.memory)");
}

}  // namespace sbx::confine
