// Guest jail: see guest_jail.h.
#include "core/backend/vm/guest_jail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <utility>
#include <vector>

#include "core/backend/jail/jail_backend.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/process_identity.h"
#include "core/profile/saved.h"
#include "core/workspace/layer_store.h"

namespace sbx::vm {

namespace {

constexpr std::int64_t kNanosPerMicro = 1000;

/// How long the parts of a launch took.
class Stopwatch {
 public:
  void lap(std::string what) {
    const std::int64_t now = monotonic_ns();
    laps_.emplace_back(std::move(what), static_cast<std::uint64_t>((now - last_) / kNanosPerMicro));
    last_ = now;
  }
  std::vector<std::pair<std::string, std::uint64_t>> take() { return std::move(laps_); }

 private:
  std::int64_t last_ = monotonic_ns();
  std::vector<std::pair<std::string, std::uint64_t>> laps_;
};

std::string layers_dir() {
  return text::cat(control::kStateDir, "/layers");
}

Result<std::string> layer_path(const std::string& name) {
  if (!workspace::is_layer_id(name)) {
    return Error(Errc::kUsage, text::cat("no name of a layer: ", name));
  }
  return text::cat(layers_dir(), "/", name);
}

std::vector<std::string> image_layers(const control::Root& root) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < root.images.size(); ++i) {
    out.push_back(control::image_layer(i));
  }
  return out;
}

/// The root of a session: the image's layers, the base, its own.
Result<backend::WritableRoot> session_root(const control::Launch::Layers& layers,
                                           const control::Root& root,
                                           const backend::LaunchRequest& request) {
  if (root.state_device.empty()) {
    return Error(Errc::kUsage, "a session in a virtual machine needs a disk of its own");
  }
  SBX_TRY(fs::mkdirs(layers_dir(), 0700));
  backend::WritableRoot out;
  out.lowers = image_layers(root);
  SBX_ASSIGN(const std::string base, jail::jail_base_layer(request, layers_dir()));
  out.lowers.push_back(text::cat(layers_dir(), "/", base));
  for (const std::string& name : layers.lowers) {
    out.lowers.emplace_back();
    SBX_ASSIGN(out.lowers.back(), layer_path(name));
  }
  SBX_ASSIGN(out.upper, layer_path(layers.upper));
  SBX_TRY(fs::mkdirs(out.upper, 0755));
  return out;
}

Result<backend::LaunchRequest> make_request(const control::Launch& wanted,
                                            const control::Root& root,
                                            const std::string& machine_id,
                                            const profile::Profile& profile) {
  backend::LaunchRequest request;
  request.profile = &profile;
  request.id = wanted.id;
  request.state_dir = control::kStateDir;
  request.files = wanted.files;
  if (!machine_id.empty()) request.files.push_back({"/etc/machine-id", machine_id + "\n"});
  request.is_alone = true;
  request.is_lasting = wanted.is_lasting;
  if (wanted.image.has_value()) {
    backend::ImageRoot image;
    image.layers = image_layers(root);
    image.are_mounts = true;
    image.user = wanted.image->user;
    image.groups = wanted.image->groups;
    image.volumes = wanted.image->volumes;
    request.image = std::move(image);
  }
  if (wanted.layers.has_value()) {
    SBX_ASSIGN(request.root, session_root(*wanted.layers, root, request));
  }
  return request;
}

}  // namespace

void GuestJail::prepare() {
  if (sandbox_ == nullptr && head_ == nullptr) head_ = jail::begin_any_jail();
}

Result<control::Launched> GuestJail::launch(const control::Launch& wanted,
                                            const control::Root& root,
                                            const std::string& machine_id,
                                            const std::vector<backend::InputMount>& inputs) {
  if (sandbox_ != nullptr) return Error(Errc::kUsage, "there is a sandbox already");
  Stopwatch watch;
  SBX_ASSIGN(const profile::Profile profile, profile::restore(wanted.profile));
  watch.lap("profile");
  SBX_ASSIGN(backend::LaunchRequest request, make_request(wanted, root, machine_id, profile));
  request.inputs = inputs;
  watch.lap("layers");
  SBX_ASSIGN(const std::unique_ptr<backend::Plan> plan, jail::plan_jail(request));
  watch.lap("plan");
  SBX_ASSIGN(sandbox_, plan->launch(std::exchange(head_, nullptr)));
  watch.lap("launch");
  start_bridge();
  watch.lap("bridge");
  control::Launched launched;
  launched.limits = plan->limits();
  launched.warnings = plan->warnings();
  launched.cpu_time = plan->cpu_time();
  launched.has_freezer = sandbox_->has_freezer();
  launched.spent = watch.take();
  return launched;
}

void GuestJail::start_bridge() {
  BridgeOptions options;
  options.stream_owner = [this](const std::optional<backend::User>& user) {
    return sandbox_->stream_owner(user);
  };
  options.on_work_dir = [this](UniqueFd dir) { work_dir_ = std::move(dir); };
  bridge_ = std::make_unique<Bridge>(
      loop_,
      ipc::Side::kAgent,
      std::move(port_),
      sandbox_->agent(),
      [this](const Status& ended) {
        if (!ended.ok()) (void)sandbox_->kill();  // nobody listens any more
      },
      std::move(options));
}

Result<backend::Sandbox*> GuestJail::sandbox() const {
  if (sandbox_ == nullptr) return Error(Errc::kNotFound, "there is no sandbox in this machine");
  return sandbox_.get();
}

Result<backend::FinalState> GuestJail::finish() {
  SBX_ASSIGN(backend::Sandbox * sandbox, this->sandbox());
  Result<backend::FinalState> state = sandbox->finish();
  if (!state.ok()) return state;
  is_finished_ = true;
  constexpr std::uint64_t kLeast = 65536;  // ext4 keeps a few blocks for its own trees
  struct statvfs info {};
  if (work_dir_.valid() && ::fstatvfs(work_dir_.get(), &info) == 0) {
    state.value().disk_is_full = std::uint64_t{info.f_bavail} * info.f_frsize < kLeast;
    state.value().inodes_are_up = info.f_ffree == 0;
  }
  return state;
}

void GuestJail::drop() {
  bridge_.reset();
  sandbox_.reset();
}

Result<Bridge*> GuestJail::bridge() const {
  if (bridge_ == nullptr) return Error(Errc::kNotFound, "there is no sandbox in this machine");
  return bridge_.get();
}

pid_t GuestJail::pid() const {
  if (!is_alive()) return 0;
  const Result<pid_t> pid = confine::pid_of(sandbox_->exit_fd());
  return pid.ok() ? pid.value() : 0;
}

}  // namespace sbx::vm
