// Jail backend: see jail_backend.h.
#include "core/backend/jail/jail_backend.h"

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

/// Whether the job, running as our own id, could write our binary or make it writable.
bool is_own_binary_writable(const std::string& binary) {
  struct stat info {};
  if (::stat(binary.c_str(), &info) != 0) return true;
  return info.st_uid == ::geteuid() || ::access(binary.c_str(), W_OK) == 0;
}

Result<JailFacts> look(const backend::LaunchRequest& request) {
  host::Facts host;
  JailFacts facts;
  facts.has_id_range = host.is_root() && host.may_map_id_ranges();
  facts.own_uid = ::geteuid();
  facts.own_gid = ::getegid();
  facts.landlock_abi = host.landlock_abi();
  facts.nproc_is_per_userns = host.kernel() >= kNprocPerUserns;
  SBX_ASSIGN(facts.binary, sys::readlinkat(AT_FDCWD, "/proc/self/exe"));
  facts.is_binary_writable = !facts.has_id_range && is_own_binary_writable(facts.binary);
  struct sysinfo info {};
  if (::sysinfo(&info) == 0) facts.memory_total = uint64_t{info.totalram} * info.mem_unit;
  const auto& cgroups = host.cgroups();
  if (!cgroups.ok()) return cgroups.error();
  facts.cgroups = cgroups.value();
  SBX_ASSIGN(facts.tree, read_host_tree());
  for (const profile::Mount& mount : request.profile->mounts) {
    const Result<struct stat> source = sys::fstatat(AT_FDCWD, mount.source, 0);
    if (!source.ok()) {
      return Error(Errc::kUsage, text::cat("mount source ", source.error().message()));
    }
    facts.mount_is_dir.push_back(S_ISDIR(source.value().st_mode));
  }
  return facts;
}

class PlannedJail final : public backend::Plan {
 public:
  explicit PlannedJail(JailPlan plan) : plan_(std::move(plan)) {}

  std::string to_text() const override { return jail::to_text(plan_); }
  std::vector<confine::InForce> limits() const override { return plan_.expected; }
  std::vector<std::string> warnings() const override { return plan_.warnings; }
  Result<std::unique_ptr<backend::Sandbox>> launch() override {
    auto sandbox = jail::launch(plan_);
    // What a crashed sbx left is looked for while PID 1 sets up, so that it costs no waiting.
    confine::reap_stale_cgroups(plan_.layout);
    return sandbox;
  }

 private:
  JailPlan plan_;
};

}  // namespace

Result<std::unique_ptr<backend::Plan>> plan_jail(const backend::LaunchRequest& request) {
  SBX_ASSIGN(JailFacts facts, look(request));
  SBX_ASSIGN(JailPlan plan, make_plan(request, std::move(facts)));
  return std::unique_ptr<backend::Plan>(std::make_unique<PlannedJail>(std::move(plan)));
}

}  // namespace sbx::jail
