// VM plan: see vm_plan.h.
#include "core/backend/vm/vm_plan.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/profile/saved.h"

namespace sbx::vm {

namespace {

constexpr std::string_view kEtc = "/etc";

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
/// What kernel, init and page tables of a guest take besides the programs.
constexpr std::uint64_t kGuestShare = 128 * kMiB;
/// Sizes of guests are few, so that templates are.
constexpr std::uint64_t kMemoryStep = 64 * kMiB;
constexpr std::uint64_t kMemoryWithoutLimit = 2 * kGiB;
constexpr std::uint64_t kDiskWithoutLimit = 16 * kGiB;
constexpr std::uint64_t kDiskMargin = 64 * kMiB;
constexpr std::uint64_t kMostTmpfsInputs = 16 * kMiB;
constexpr std::uint32_t kMillisPerCpu = 1000;
constexpr std::uint32_t kMostProcessors = 8;
/// On a session's disk: the layer that all its lives write to.
constexpr std::string_view kSessionLayer = "sessionown";
constexpr std::string_view kGuestGroup = "cgroup v2 of the guest";

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

Bytes guest_memory(const profile::Profile& profile, const VmFacts& facts) {
  std::uint64_t wanted = kMemoryWithoutLimit;
  if (profile.limits.memory.has_value()) {
    wanted = profile.limits.memory->v + profile.limits.memory->v / 32;  // page tables and the like
  } else if (facts.memory_total != 0) {
    wanted = std::min(wanted, facts.memory_total / 2);
  }
  return Bytes{rounded_up(wanted + kGuestShare, kMemoryStep)};
}

std::uint32_t processors(const profile::Profile& profile, const VmFacts& facts, Accel accel) {
  const std::uint32_t most = std::clamp(facts.processors, 1U, kMostProcessors);
  if (profile.limits.cpu_millis.has_value()) {
    return std::clamp((*profile.limits.cpu_millis + kMillisPerCpu - 1) / kMillisPerCpu, 1U, most);
  }
  return accel == Accel::kTcg ? 1 : most;  // emulation has one thread
}

Status check_supported(const backend::LaunchRequest& request, const VmFacts& facts) {
  const kernel::Features& has = facts.kernel.features();
  if (!request.image.has_value() && !has.has_9p) {
    return Error(Errc::kUnsupported,
                 text::cat("guest kernel ",
                           facts.kernel.name(),
                           " has no 9p, which shows the host's programs to the guest"))
        .with_hint("sbx kernel install, which takes one that has it, or use an image");
  }
  for (std::size_t i = 0; i < request.profile->mounts.size(); ++i) {
    const profile::Mount& mount = request.profile->mounts[i];
    if (!facts.mount_is_dir[i]) {
      return Error(
                 Errc::kUnsupported,
                 text::cat("mount ", mount.source, ": a virtual machine is shown directories only"))
          .with_hint("-i copies a file in; or mount the directory that it is in");
    }
    if (mount.mode != profile::MountMode::kReadOnly) {
      return Error(Errc::kUnsupported,
                   text::cat(
                       "mount ", mount.source, ": a virtual machine is shown the host's read-only"))
          .with_hint("mount it :ro, and bring out what changed with -o or session cp");
    }
    if (!has.has_9p) {
      return Error(
                 Errc::kUnsupported,
                 text::cat(
                     "mount ", mount.source, ": guest kernel ", facts.kernel.name(), " has no 9p"))
          .with_hint("sbx kernel install");
    }
  }
  return {};
}

void add_host_root(const VmFacts& facts, VmPlan& plan) {
  for (const jail::HostEntry& entry : facts.tree.top) {
    if (entry.kind == jail::EntryKind::kLink) {
      plan.root.links.push_back({entry.path, entry.text});
      continue;
    }
    const std::string tag = entry.path.substr(1);
    plan.machine.shares.push_back({.path = entry.path, .tag = tag});
    plan.root.shares.push_back({tag, entry.path, true});
  }
  plan.machine.shares.push_back({.path = "/etc", .tag = "etc"});
  const std::string shared = text::cat(control::kSharesDir, "/etc");
  plan.root.shares.push_back({"etc", shared, true});
  // Small files go along: each would be several questions of the guest's.
  for (const jail::HostEntry& entry : facts.tree.etc) {
    if (entry.kind == jail::EntryKind::kLink) {
      plan.root.links.push_back({entry.path, entry.text});
    } else if (entry.is_copied) {
      plan.root.files.push_back({entry.path, entry.text});
    } else {
      plan.root.binds.push_back({text::cat(shared, entry.path.substr(kEtc.size())),
                                 entry.path,
                                 entry.kind == jail::EntryKind::kDir});
    }
  }
}

/// Directories of the host's are shared with the machine; the guest's profile mounts the shares.
void add_mounts(profile::Profile& profile, VmPlan& plan) {
  std::size_t number = 0;
  for (profile::Mount& mount : profile.mounts) {
    const std::string tag = text::cat("m", number++);
    plan.machine.shares.push_back(
        {.from = Share::From::kHost, .path = mount.source, .tag = tag, .beneath = mount.beneath});
    const std::string place = text::cat(control::kSharesDir, "/", tag);
    plan.root.shares.push_back({tag, place, true});
    mount.source = place;
    mount.beneath.clear();
  }
}

void expect(const profile::Profile& profile, VmPlan& plan) {
  const auto add = [&plan](std::string limit, std::string value, std::string_view mechanism) {
    plan.expected.push_back({.limit = std::move(limit),
                             .value = std::move(value),
                             .mechanism = std::string(mechanism)});
  };
  const profile::Limits& limits = profile.limits;
  if (limits.memory) add("memory", text::cat(limits.memory->v), kGuestGroup);
  if (limits.pids) add("pids", text::cat(*limits.pids), kGuestGroup);
  if (limits.cpu_millis) {
    add("cpus", text::cat(*limits.cpu_millis, "m"), kGuestGroup);
  }
  if (limits.cpu_time) {
    add("cpu_time", text::cat(limits.cpu_time->v, "ms"), "counted by cgroup v2 of the guest");
  }
  add("open_files", text::cat(limits.open_files), "RLIMIT_NOFILE");
  if (limits.disk) add("disk", text::cat(limits.disk->v), "disk of the virtual machine");
  add("machine", text::cat(plan.machine.memory.v), "memory of the virtual machine");
}

}  // namespace

Result<VmPlan> make_plan(const backend::LaunchRequest& request, const VmFacts& facts) {
  SBX_TRY(check_supported(request, facts));
  profile::Profile inside = *request.profile;
  VmPlan plan;
  const Accel accel = inside.vm.accel == "tcg" ? Accel::kTcg : Accel::kKvm;
  plan.machine.id = request.id;
  plan.machine.state_dir = request.state_dir;
  plan.machine.accel = accel;
  plan.machine.cpus = processors(inside, facts, accel);
  plan.machine.memory = guest_memory(inside, facts);
  plan.machine.is_lasting = request.is_lasting;
  plan.machine.kernel = facts.kernel.vmlinux;
  plan.machine.initramfs = facts.initramfs;
  // The others (AppArmor, Yama…) have no rules in there, and each file costs their questions: a
  // tenth of a start under emulation.
  plan.machine.append = "lsm=landlock";
  plan.is_warm = inside.vm.is_warm;
  plan.inputs = request.inputs;
  plan.cpu_time = inside.limits.cpu_time;
  expect(inside, plan);

  if (facts.image.has_value()) {
    plan.image = facts.image;
    plan.root.images.push_back({"vda", facts.image->type});
  } else {
    add_host_root(facts, plan);
  }
  add_mounts(inside, plan);

  const bool is_session = request.disk.has_value();
  const bool needs_disk = is_session || facts.image.has_value() || inside.limits.disk.has_value() ||
                          facts.input_bytes > kMostTmpfsInputs;
  if (needs_disk) {
    plan.disk.emplace();
    if (is_session) plan.disk->path = request.disk->path;
    const std::uint64_t files =
        is_session ? 0 : inside.limits.disk.value_or(Bytes{kDiskWithoutLimit}).v;
    plan.disk->size =
        is_session ? request.disk->size
                   : Bytes{rounded_up(files + facts.input_bytes + files / 16 + kDiskMargin, kGiB)};
    plan.root.state_device = plan.image.has_value() ? "vdb" : "vda";
    plan.root.is_state_kept = is_session;
  }

  plan.launch.id = request.id;
  plan.launch.is_lasting = request.is_lasting;
  plan.launch.files = request.files;
  if (is_session) inside.limits.disk.reset();  // its disk is of that size
  plan.launch.profile = profile::save(inside);
  if (request.image.has_value()) {
    plan.launch.image.emplace();
    plan.launch.image->user = request.image->user;
    plan.launch.image->groups = request.image->groups;
    plan.launch.image->volumes = request.image->volumes;
  }
  if (is_session) {
    plan.launch.layers.emplace();
    plan.launch.layers->upper = kSessionLayer;
  }
  return plan;
}

std::string to_text(const VmPlan& plan) {
  const MachineSpec& machine = plan.machine;
  std::string out = text::cat("machine microvm, ",
                              machine.accel == Accel::kKvm ? "kvm" : "tcg (software emulation)",
                              ", ",
                              machine.cpus,
                              machine.cpus == 1 ? " processor, " : " processors, ",
                              machine.memory.v / kMiB,
                              " MiB\n");
  out += text::cat("kernel ", text::escape(machine.kernel), "\n");
  out += text::cat("initramfs ",
                   text::escape(machine.initramfs),
                   "\n",
                   "start ",
                   plan.is_warm ? "from a template" : "cold",
                   "\n");
  if (plan.image.has_value()) {
    out +=
        text::cat("disk ", plan.image->type, " ", text::escape(plan.image->path), " read-only\n");
  }
  if (plan.disk.has_value()) {
    out += text::cat("disk ext4 ",
                     plan.disk->path.empty() ? "thrown away" : text::escape(plan.disk->path),
                     " ",
                     plan.disk->size.v / kMiB,
                     " MiB\n");
  }
  for (const Share& share : machine.shares) {
    out += text::cat("share ",
                     share.from == Share::From::kTree ? "filtered " : "",
                     text::escape(share.path),
                     " as ",
                     share.tag,
                     share.is_read_only ? " read-only\n" : "\n");
  }
  for (const control::RootLink& link : plan.root.links) {
    if (link.path.starts_with(kEtc)) continue;  // the allowed part of it, as in every jail
    out += text::cat("link ", text::escape(link.path), " to ", text::escape(link.target), "\n");
  }
  for (const backend::InputMount& input : plan.inputs) {
    out += text::cat(
        "copy in ", text::escape(input.host_path), " as /work/", text::escape(input.name), "\n");
  }
  return out + "jail in the guest, from the same profile\n";
}

}  // namespace sbx::vm
