// VM backend: see vm_backend.h.
#include "core/backend/vm/vm_backend.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "core/archive/pack.h"
#include "core/backend/vm/boot.h"
#include "core/backend/vm/bridge_process.h"
#include "core/backend/vm/data_stream.h"
#include "core/backend/vm/disk_file.h"
#include "core/backend/vm/live_dir.h"
#include "core/backend/vm/vm_plan.h"
#include "core/backend/vm/vm_sandbox.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/store.h"
#include "core/image/vm_file.h"
#include "core/image/worker.h"
#include "core/kernel/initramfs.h"
#include "core/kernel/store.h"

namespace sbx::vm {

namespace {

constexpr Millis kAnswer{30'000};
constexpr Millis kCopyTime{600'000};
constexpr std::size_t kLongestWords = 4096;

Result<VmFacts> look(const backend::LaunchRequest& request) {
  SBX_TRY(check_usable(*request.profile, request.state_dir));
  VmFacts facts;
  SBX_ASSIGN(facts.kernel, kernel::find(request.state_dir, request.profile->vm.kernel));
  SBX_ASSIGN(facts.initramfs, kernel::initramfs(request.state_dir, facts.kernel));
  const long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
  facts.processors = processors > 0 ? static_cast<std::uint32_t>(processors) : 1;
  struct sysinfo info {};
  if (::sysinfo(&info) == 0) facts.memory_total = std::uint64_t{info.totalram} * info.mem_unit;
  if (request.image.has_value()) {
    SBX_ASSIGN(const image::Store store, image::Store::open(request.state_dir));
    image::Opened opened;
    opened.record = request.image->record;
    for (const std::string& layer : request.image->layers) {
      opened.layer_dirs.push_back(layer + "/fs/root");
    }
    const std::string type = facts.kernel.features().has_erofs ? "" : "ext4";
    SBX_ASSIGN(const image::VmFile file, image::vm_file(store, opened, type));
    facts.image.emplace(ImageFile{file.path, file.type, opened.record.id});
  } else {
    SBX_ASSIGN(facts.tree, jail::read_host_tree());
  }
  for (const profile::Mount& mount : request.profile->mounts) {
    const auto source = sys::fstatat(AT_FDCWD, mount.source, 0);
    if (!source.ok()) {
      return Error(Errc::kUsage, text::cat("mount source ", source.error().message()));
    }
    facts.mount_is_dir.push_back(S_ISDIR(source.value().st_mode));
  }
  for (const backend::InputMount& input : request.inputs) {
    const auto source = sys::fstatat(AT_FDCWD, input.host_path, 0);
    if (!source.ok()) return source.error();
    facts.input_bytes += static_cast<std::uint64_t>(source.value().st_size);
  }
  return facts;
}

Status pack_input(const backend::InputMount& input, int out) {
  archive::raise_descriptor_limit();
  archive::PackRequest request;
  request.path = input.host_path;
  request.root_name = input.name;
  request.is_following = input.is_dir;
  archive::TransferReport report;
  return archive::pack(request, out, report);
}

/// Puts one input where the guest's jail finds it.
Status send_input(const backend::InputMount& input, ControlClient& control, int data) {
  ipc::Fields request(control::op::kTakeInput);
  request.set("name", input.name);
  request.set("is_dir", input.is_dir);
  // The guest answers when it has all of it, so somebody else has to send.
  SBX_ASSIGN(image::Worker sender, image::Worker::start("send an input", [&] {
               const Status sent = send_work(data, [&](int out) { return pack_input(input, out); });
               return sent.ok() ? std::string() : sent.error().message();
             }));
  auto taken = control.call(std::move(request), kCopyTime);
  SBX_ASSIGN(const std::string said, sender.finish(kLongestWords));
  const std::string what = text::cat("copy in ", input.host_path);
  if (!said.empty()) return Error(Errc::kSystem, said).prefixed(what);
  if (!taken.ok()) return std::move(taken).error().prefixed(what);
  return {};
}

class PlannedVm final : public backend::Plan {
 public:
  explicit PlannedVm(VmPlan plan) : plan_(std::move(plan)) {}

  std::string to_text() const override { return vm::to_text(plan_); }
  std::vector<confine::InForce> limits() const override { return plan_.expected; }
  std::optional<Millis> cpu_time() const override { return plan_.cpu_time; }
  std::vector<std::string> warnings() const override { return plan_.warnings; }
  Result<std::unique_ptr<backend::Sandbox>> launch(
      std::shared_ptr<backend::HeadStart> head) override;

 private:
  Status open_disks();
  Result<control::Launched> start_inside(Booted& booted, int data);

  VmPlan plan_;
  std::vector<Disk> disks_;
  UniqueFd fresh_;
};

Status PlannedVm::open_disks() {
  if (plan_.image.has_value()) {
    disks_.push_back({.path = plan_.image->path, .is_read_only = true});
  }
  if (!plan_.disk.has_value()) return {};
  const std::string& state_dir = plan_.machine.state_dir;
  if (!plan_.disk->path.empty()) {
    SBX_TRY(make_disk(state_dir, plan_.disk->path, plan_.disk->size));
    disks_.push_back({.path = plan_.disk->path});
    return {};
  }
  SBX_ASSIGN(fresh_, fresh_disk(state_dir, plan_.disk->size, DiskKind::kScratch));
  disks_.push_back({.path = text::cat("/proc/self/fd/", fresh_.get()), .is_volatile = true});
  return {};
}

Result<control::Launched> PlannedVm::start_inside(Booted& booted, int data) {
  SBX_TRY(booted.control->call(control::encode(plan_.root), kAnswer));
  for (const backend::InputMount& input : plan_.inputs) {
    SBX_TRY(send_input(input, *booted.control, data));
  }
  SBX_ASSIGN(const ipc::Fields answer,
             booted.control->call(control::encode(plan_.launch), kAnswer));
  return control::decode_launched(answer);
}

Result<std::unique_ptr<backend::Sandbox>> PlannedVm::launch(
    std::shared_ptr<backend::HeadStart> /*head*/) {
  for (const std::string& id : stale_live_dirs(plan_.machine.state_dir)) {
    (void)remove_live_dir(plan_.machine.state_dir, id);
  }
  SBX_ASSIGN(LiveDir dir, LiveDir::make(plan_.machine.state_dir, plan_.machine.id));
  SBX_TRY(open_disks());
  SBX_ASSIGN(Booted booted, boot(plan_, disks_));
  SBX_ASSIGN(BridgeProcess bridge, start_bridge(booted.machine->take_agent()));
  UniqueFd data = booted.machine->take_data();
  auto launched = start_inside(booted, data.get());
  if (!launched.ok()) return with_serial(std::move(launched).error(), *booted.machine);
  plan_.expected = launched.value().limits;
  plan_.warnings = launched.value().warnings;
  return std::unique_ptr<backend::Sandbox>(
      std::make_unique<VmSandbox>(std::move(dir),
                                  std::move(booted),
                                  std::move(bridge),
                                  std::move(data),
                                  std::move(launched).value()));
}

}  // namespace

std::shared_ptr<backend::HeadStart> begin_vm(backend::HeadRequest /*request*/) {
  return nullptr;
}

Status check_usable(const profile::Profile& profile, const std::string& state_dir) {
  const bool is_kvm = profile.vm.accel == "kvm";
  if (is_kvm) SBX_TRY(check_kvm());
  SBX_TRY(find_qemu());
  SBX_TRY(kernel::find(state_dir, profile.vm.kernel));
  // Whoever asked for a machine is told by its start; who left the choice gets no such error.
  if (is_kvm && profile.isolation == profile::Isolation::kAuto) SBX_TRY(try_kvm());
  return {};
}

Result<std::unique_ptr<backend::Plan>> plan_vm(const backend::LaunchRequest& request) {
  SBX_ASSIGN(const VmFacts facts, look(request));
  SBX_ASSIGN(VmPlan plan, make_plan(request, facts));
  return std::unique_ptr<backend::Plan>(std::make_unique<PlannedVm>(std::move(plan)));
}

Result<std::string> vm_base_layer(const backend::LaunchRequest& /*request*/,
                                  const std::string& /*layers_dir*/) {
  return Error(Errc::kUnsupported, "sessions in virtual machines keep their files on a disk");
}

}  // namespace sbx::vm
