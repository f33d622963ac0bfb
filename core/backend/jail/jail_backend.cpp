// Jail backend: see jail_backend.h.
#include "core/backend/jail/jail_backend.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <utility>

#include "core/backend/jail/jail_launch.h"
#include "core/backend/jail/jail_plan.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/host/facts.h"

namespace sbx::jail {

namespace {

constexpr host::KernelVersion kNprocPerUserns{5, 14};
/// overlayfs accepts layers with mapped ids.
constexpr host::KernelVersion kMappedLayers{5, 19};

/// Whether the job, running as our own id, could write our binary or make it writable.
bool is_own_binary_writable(const std::string& binary) {
  struct stat info {};
  if (::stat(binary.c_str(), &info) != 0) return true;
  return info.st_uid == ::geteuid() || ::access(binary.c_str(), W_OK) == 0;
}

JailBasics look_basics() {
  host::Facts host;
  JailBasics basics;
  if (host.is_root() && host.may_map_id_ranges()) basics.ids = IdScheme::kRange;
  basics.own_uid = ::geteuid();
  basics.own_gid = ::getegid();
  basics.landlock_abi = host.landlock_abi();
  if (auto binary = sys::readlinkat(AT_FDCWD, "/proc/self/exe"); binary.ok()) {
    basics.binary = std::move(binary).value();
  }
  basics.is_binary_writable = !basics.has_id_range() && is_own_binary_writable(basics.binary);
  return basics;
}

/// Looked at once: nothing of it changes while sbx runs.
const JailBasics& basics() {
  static const JailBasics kBasics = look_basics();
  return kBasics;
}

/// The names in `fs` of each lower.
Result<std::vector<std::vector<std::string>>> layer_parts(const backend::WritableRoot& root) {
  std::vector<std::vector<std::string>> out;
  for (const std::string& lower : root.lowers) {
    const std::string path = lower + "/fs";
    DIR* list = ::opendir(path.c_str());
    if (list == nullptr) return sys_error(text::cat("list the layer ", path));
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(list)) {  // NOLINT(concurrency-mt-unsafe): one thread
      names.emplace_back(static_cast<const char*>(entry->d_name));
    }
    (void)::closedir(list);
    out.push_back(std::move(names));
  }
  return out;
}

Result<JailFacts> look(const backend::LaunchRequest& request) {
  host::Facts host;
  JailFacts facts;
  facts.basics = basics();
  facts.nproc_is_per_userns = host.kernel() >= kNprocPerUserns;
  struct sysinfo info {};
  if (::sysinfo(&info) == 0) facts.memory_total = uint64_t{info.totalram} * info.mem_unit;
  const profile::Limits& limits = request.profile->limits;
  if (limits.disk.has_value() || limits.inodes.has_value()) {
    facts.images = confine::probe_disk_images();
  }
  const auto& cgroups = host.cgroups();
  if (!cgroups.ok()) return cgroups.error();
  facts.cgroups = cgroups.value();
  const bool has_layers = request.root.has_value() || request.image.has_value();
  if (request.image.has_value()) {
    facts.tmpfs_keeps_attributes = tmpfs_keeps_attributes();
    if (!facts.basics.has_id_range()) {
      SBX_ASSIGN(facts.basics.subids, confine::storage_ids());
      facts.basics.ids = IdScheme::kSubids;
    }
  }
  if (has_layers) {
    if (facts.basics.has_id_range() && host.kernel() < kMappedLayers) {
      return Error(Errc::kUnsupported, "a root made of layers needs Linux 5.19 when root runs sbx")
          .with_hint("run sbx as a user, or on a newer kernel");
    }
  }
  if (request.root.has_value()) {
    SBX_ASSIGN(facts.layer_parts, layer_parts(*request.root));
  }
  // Only a mount needs to know what is where, and a root in whose layers the base is.
  const bool may_need_tree = !request.profile->mounts.empty() || request.root.has_value();
  if (may_need_tree && !request.image.has_value()) {
    SBX_ASSIGN(facts.tree, read_host_tree());
  }
  for (const profile::Mount& mount : request.profile->mounts) {
    const Result<struct stat> source = sys::fstatat(AT_FDCWD, mount.source, 0);
    if (!source.ok()) {
      return Error(Errc::kUsage, text::cat("mount source ", source.error().message()));
    }
    facts.mount_is_dir.push_back(S_ISDIR(source.value().st_mode));
    if (mount.mode == profile::MountMode::kOverlay) {
      facts.tmpfs_keeps_attributes = tmpfs_keeps_attributes();
    }
  }
  return facts;
}

class JailHead final : public backend::HeadStart {
 public:
  JailHead(const JailBasics& basics, InitMode init, BaseChoice base)
      : init_(init), base_(std::move(base)), begun_(begin(basics, init, base_)) {}
  /// One that waits for its base.
  JailHead(const JailBasics& basics, InitMode init)
      : init_(init), is_bare_(true), begun_(begin_bare(basics, init)) {}
  bool is_fitting(const JailPlan& plan) const {
    if (is_bare_) return init_ == plan.init && begun_.ok();
    return !plan.root.has_value() && init_ == plan.init && base_.content == plan.base &&
           !(plan.needs_own_root && base_.may_share_root);
  }
  /// For a plan that fits.
  Result<BegunPtr> take(const JailPlan& plan) {
    if (is_bare_) SBX_TRY(give_base(*begun_.value(), plan.basics, base_of(plan)));
    return std::move(begun_);
  }
  static BaseChoice base_of(const JailPlan& plan) {
    return {plan.base, !plan.needs_own_root, plan.root.has_value()};
  }

 private:
  InitMode init_;
  BaseChoice base_;
  bool is_bare_ = false;
  Result<BegunPtr> begun_;
};

class PlannedJail final : public backend::Plan {
 public:
  explicit PlannedJail(JailPlan plan) : plan_(std::move(plan)) {}

  std::string to_text() const override {
    const Result<HostTree> tree = read_host_tree();
    return jail::to_text(plan_, tree.ok() ? tree.value() : HostTree());
  }
  std::vector<confine::InForce> limits() const override { return plan_.expected; }
  std::optional<Millis> cpu_time() const override { return plan_.cpu_time; }
  std::vector<std::string> warnings() const override { return plan_.warnings; }
  Result<std::unique_ptr<backend::Sandbox>> launch(
      std::shared_ptr<backend::HeadStart> head) override;

 private:
  JailPlan plan_;
};

Result<std::unique_ptr<backend::Sandbox>> PlannedJail::launch(
    std::shared_ptr<backend::HeadStart> head) {
  auto* own = dynamic_cast<JailHead*>(head.get());
  const bool is_fitting = own != nullptr && own->is_fitting(plan_);
  SBX_ASSIGN(
      BegunPtr begun,
      is_fitting ? own->take(plan_) : begin(plan_.basics, plan_.init, JailHead::base_of(plan_)));
  auto sandbox = jail::launch(plan_, std::move(begun));
  // What a crashed sbx left is looked for while PID 1 sets up, so that it costs no waiting.
  confine::reap_stale_cgroups(plan_.layout);
  return sandbox;
}

}  // namespace

std::shared_ptr<backend::HeadStart> begin_jail(backend::HeadRequest request) {
  BaseChoice base;
  base.content.files = std::move(request.files);
  base.may_share_root = !request.has_mounts;
  return std::make_shared<JailHead>(
      basics(), init_mode(basics(), profile::Profile()), std::move(base));
}

std::shared_ptr<backend::HeadStart> begin_any_jail() {
  return std::make_shared<JailHead>(basics(), init_mode(basics(), profile::Profile()));
}

Result<std::unique_ptr<backend::Plan>> plan_jail(const backend::LaunchRequest& request) {
  SBX_ASSIGN(JailFacts facts, look(request));
  SBX_ASSIGN(JailPlan plan, make_plan(request, std::move(facts)));
  return std::unique_ptr<backend::Plan>(std::make_unique<PlannedJail>(std::move(plan)));
}

Result<std::string> jail_base_layer(const backend::LaunchRequest& request,
                                    const std::string& layers_dir) {
  backend::LaunchRequest as_base = request;
  as_base.root.emplace();  // what is made in the root does not depend on the layers
  SBX_ASSIGN(JailFacts facts, look(as_base));
  SBX_ASSIGN(const JailPlan plan, make_plan(as_base, std::move(facts)));
  return open_base_layer(layers_dir, plan.base_objects, layer_owners(plan.basics));
}

}  // namespace sbx::jail
