// Disk plan: see disk_plan.h.
#include "core/confine/disk_plan.h"

#include <algorithm>

#include "core/base/text.h"

namespace sbx::confine {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint64_t kDefaultSize = 1024 * kMiB;  // without any limit
constexpr std::uint64_t kBytesPerInode = 16384;
constexpr std::uint64_t kLeastInodes = 1024;
/// What a file takes of memory beside its pages: inode and dentry of a tmpfs, measured on 6.1 and
/// 6.18, rounded up.
constexpr std::uint64_t kInodeCost = 1152;

/// What of the memory stays for processes when files fill their disk.
std::uint64_t headroom(std::uint64_t memory) {
  return std::clamp(memory / 8, 2 * kMiB, 512 * kMiB);
}

/// Memory for files and what they take beside their pages.
std::uint64_t room(std::uint64_t memory) {
  return memory - std::min(memory, headroom(memory) / 4);
}

std::uint64_t default_inodes(std::uint64_t size, std::uint64_t memory) {
  std::uint64_t inodes = size / kBytesPerInode;
  if (size <= room(memory)) inodes = std::min(inodes, (room(memory) - size) / kInodeCost);
  return std::max(inodes, kLeastInodes);
}

/// `size` bytes and `inodes` inodes on a tmpfs leave room in `memory`. Overflows count as not.
bool is_fitting(std::uint64_t size, std::uint64_t inodes, std::uint64_t memory) {
  return size <= room(memory) && inodes <= (room(memory) - size) / kInodeCost;
}

void report(DiskPlan& plan, std::string_view mechanism, bool approximate) {
  plan.expected.push_back({.limit = "disk",
                           .value = std::to_string(plan.size.v),
                           .mechanism = text::cat("size of ", mechanism),
                           .approximate = approximate});
  plan.expected.push_back({.limit = "inodes",
                           .value = std::to_string(plan.inodes),
                           .mechanism = text::cat("inodes of ", mechanism),
                           .approximate = approximate});
}

Error refuse(const DiskWishes& wishes, std::uint64_t size, std::uint64_t inodes) {
  const std::string what = wishes.inodes.is_explicit && !wishes.disk.is_explicit
                               ? text::cat("limits.inodes ", inodes)
                               : text::cat("limits.disk ", to_string(Bytes{size}));
  const std::string memory = wishes.memory.has_value()
                                 ? text::cat("limits.memory ", to_string(*wishes.memory))
                                 : text::cat("half of the host's memory");
  return Error(Errc::kUnsupported,
               text::cat(what,
                         " does not fit under ",
                         memory,
                         ", files in memory count as such, and here they cannot be kept on disk: ",
                         wishes.no_images_cause))
      .with_hint(text::cat(wishes.no_images_fix,
                           "; or raise --memory, or lower --disk; or set limits.best_effort"));
}

}  // namespace

Result<DiskPlan> plan_disk(const DiskWishes& wishes) {
  DiskPlan plan;
  const std::uint64_t half = wishes.memory_total.v != 0 ? wishes.memory_total.v / 2 : UINT64_MAX;
  const std::uint64_t memory =
      wishes.memory.has_value()
          ? std::min(wishes.memory->v,
                     wishes.memory_total.v != 0 ? wishes.memory_total.v : UINT64_MAX)
          : half;
  const std::uint64_t most = memory - std::min(memory, headroom(memory));
  const std::uint64_t usual = wishes.memory.has_value() ? most : std::min(kDefaultSize, most);
  const std::uint64_t size = wishes.disk.value.has_value() ? wishes.disk.value->v : usual;
  const std::uint64_t inodes = wishes.inodes.value.value_or(default_inodes(size, memory));
  plan.size.v = size;
  plan.inodes = inodes;
  const bool is_tmpfs_enough =
      is_fitting(size, inodes, memory) || (!wishes.disk.value && !wishes.inodes.value);
  if (is_tmpfs_enough && !(wishes.prefers_image && wishes.has_images)) {
    report(plan, "a tmpfs, which counts as memory", false);
    return plan;
  }
  if (wishes.has_images) {
    plan.place = DiskPlace::kImage;
    report(plan, "an ext4 image in the state directory", false);
    return plan;
  }
  if ((wishes.disk.is_explicit || wishes.inodes.is_explicit) && !wishes.best_effort) {
    return refuse(wishes, size, inodes);
  }
  plan.size.v = std::min(size, most);
  plan.inodes = std::min(inodes, default_inodes(plan.size.v, memory));
  report(plan, "a tmpfs, which counts as memory; less than asked for", true);
  plan.warnings.push_back(text::cat("the disk is only ",
                                    to_string(plan.size),
                                    ": ",
                                    wishes.no_images_cause,
                                    " (",
                                    wishes.no_images_fix,
                                    ")"));
  return plan;
}

}  // namespace sbx::confine
