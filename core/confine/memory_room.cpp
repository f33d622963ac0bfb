// Memory room: see memory_room.h.
#include "core/confine/memory_room.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/confine/host_text.h"

namespace sbx::confine {
namespace {

constexpr Bytes kSmallFile{std::uint64_t{1} << 20U};
constexpr Bytes kMountinfo{std::uint64_t{64} << 20U};

/// Names of the same things in the two versions.
struct Names {
  std::string_view limit;
  std::string_view usage;
  std::string_view reclaimable;  // in memory.stat; with all groups below
};
constexpr Names kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Names kV2{"memory.max", "memory.current", "inactive_file"};

std::optional<std::uint64_t> number_in(const std::string& path) {
  const auto text = fs::read_file(path, kSmallFile);
  if (!text.ok()) return std::nullopt;
  const auto number = parse_count(text::trim(text.value()));  // "max" is none
  return number.ok() ? std::optional(number.value()) : std::nullopt;
}

/// What one group has left; nullopt when it has no limit.
std::optional<std::uint64_t> left_in(const std::string& group, const Names& names) {
  const auto limit = number_in(text::cat(group, "/", names.limit));
  const auto usage = number_in(text::cat(group, "/", names.usage));
  if (!limit || !usage) return std::nullopt;
  const auto stat = fs::read_file(text::cat(group, "/memory.stat"), kSmallFile);
  const auto cache = stat.ok() ? find_counter(stat.value(), names.reclaimable) : std::nullopt;
  const std::uint64_t held = *usage - std::min(*usage, cache.value_or(0));
  return *limit > held ? *limit - held : 0;
}

bool has_memory(std::string_view controllers) {
  const auto all = text::split(controllers, ',');
  return std::find(all.begin(), all.end(), "memory") != all.end();
}

/// Our group of that hierarchy; empty when there is none.
std::string own_group(const std::vector<CgroupLine>& lines, bool is_v2) {
  for (const CgroupLine& line : lines) {
    if (is_v2 ? line.hierarchy == 0 : line.hierarchy != 0 && has_memory(line.controllers)) {
      return line.path;
    }
  }
  return {};
}

/// Our group and those above it, as far as `mount` shows them.
std::uint64_t least_of(const std::string& top, std::string below, const Names& names) {
  std::uint64_t least = UINT64_MAX;
  while (true) {
    if (const auto left = left_in(text::cat(top, below), names)) least = std::min(least, *left);
    if (below.empty()) return least;
    below.resize(below.rfind('/'));
  }
}

}  // namespace

Result<Bytes> memory_room(const std::string& root) {
  SBX_ASSIGN(const std::string meminfo,
             fs::read_file(text::cat(root, "/proc/meminfo"), kSmallFile));
  std::uint64_t least = UINT64_MAX;
  for (const std::string_view line : text::split(meminfo, '\n')) {
    constexpr std::string_view kKey = "MemAvailable:";
    constexpr std::string_view kUnit = " kB";
    if (!line.starts_with(kKey) || !line.ends_with(kUnit)) continue;
    const auto number =
        text::trim(line.substr(kKey.size(), line.size() - kKey.size() - kUnit.size()));
    if (const auto kib = parse_count(number); kib.ok()) least = kib.value() << 10U;
  }
  if (least == UINT64_MAX) {
    return Error(Errc::kUnsupported, "read /proc/meminfo: no MemAvailable in it");
  }
  const auto mounts = fs::read_file(text::cat(root, "/proc/self/mountinfo"), kMountinfo);
  const auto groups = fs::read_file(text::cat(root, "/proc/self/cgroup"), kSmallFile);
  if (!mounts.ok() || !groups.ok()) return Bytes{least};
  const std::vector<CgroupLine> own = parse_proc_cgroup(groups.value());
  for (const MountLine& mount : parse_mountinfo(mounts.value())) {
    const bool is_v2 = mount.type == "cgroup2";
    if (!is_v2 && (mount.type != "cgroup" || !has_memory(mount.super_options))) continue;
    std::string group = own_group(own, is_v2);
    if (mount.root != "/") {
      // A part of the hierarchy is shown: our group, when it is in that part.
      if (!group.starts_with(mount.root)) continue;
      group.erase(0, mount.root.size());
    }
    if (group == "/" || group.starts_with("/..")) group.clear();
    if (!group.empty() && group.front() != '/') continue;
    least = std::min(least, least_of(text::cat(root, mount.mount_point), group, is_v2 ? kV2 : kV1));
  }
  return Bytes{least};
}

}  // namespace sbx::confine
