// Probes: the functions behind the rows of the doctor's table, and what they have in common.
// Each is run in a process of its own that ends afterwards (see doctor.h); all of them may block
// where a file system does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/host/doctor.h"

namespace sbx::host {

inline Finding works(std::string tried) {
  return {.verdict = Verdict::kOk, .tried = std::move(tried), .cause = {}, .fix = {}};
}
inline Finding plays_no_part(std::string why) {
  return {.verdict = Verdict::kNotApplicable, .tried = std::move(why), .cause = {}, .fix = {}};
}
inline Finding missing(std::string tried, std::string cause, std::string fix) {
  return {Verdict::kNo, std::move(tried), std::move(cause), std::move(fix)};
}
inline Finding weak(std::string tried, std::string cause, std::string fix) {
  return {Verdict::kWarn, std::move(tried), std::move(cause), std::move(fix)};
}
inline Finding missing(std::string tried, const Error& error) {
  return missing(std::move(tried), error.message(), error.hint());
}

/// How far a trial came. Step 0: all of it worked.
struct TrialEnd {
  std::int32_t step = 0;
  std::int32_t err = 0;
};
using Trial = TrialEnd (*)() noexcept;
/// Runs `trial` in a child with the fresh namespaces `flags` (CLONE_NEW…); with CLONE_NEWUSER as 0
/// of a map that has the caller's ids only. The error explains why there is no such child. Blocks
/// until the trial ends.
Result<TrialEnd> try_in_namespaces(std::uint64_t flags, Trial trial);
/// The same in a plain fork.
Result<TrialEnd> try_in_child(Trial trial);

/// The first of $PATH's directories (a search as execvp does it) that has an executable `program`.
std::optional<std::string> find_in_path(const DoctorContext& context, std::string_view program);
/// What `argv` printed, stdout and stderr, and its wait status; stdin is empty. kTimeout after
/// `deadline`; at most 1 MiB is kept.
struct Printed {
  std::string out;
  std::string err;
  int status = 0;
};
Result<Printed> run_helper(const std::vector<std::string>& argv, Millis deadline);

// --- one per row ---

Finding check_kernel(const DoctorContext& context);
Finding check_userns(const DoctorContext& context);
Finding check_id_ranges(const DoctorContext& context);
Finding check_subids(const DoctorContext& context);
Finding check_cgroup_memory(const DoctorContext& context);
Finding check_cgroup_pids(const DoctorContext& context);
Finding check_cgroup_cpu(const DoctorContext& context);
Finding check_cgroup_freezer(const DoctorContext& context);
Finding check_systemd_user(const DoctorContext& context);
Finding check_disk_limit(const DoctorContext& context);
Finding check_seccomp(const DoctorContext& context);
Finding check_landlock(const DoctorContext& context);
Finding check_terminal(const DoctorContext& context);
Finding check_overlay(const DoctorContext& context);
Finding check_veth(const DoctorContext& context);
Finding check_idmapped(const DoctorContext& context);
Finding check_container(const DoctorContext& context);
Finding check_binary(const DoctorContext& context);
Finding check_state_dir(const DoctorContext& context);
Finding check_disk(const DoctorContext& context);
Finding check_resources(const DoctorContext& context);
Finding check_programs(const DoctorContext& context);
Finding check_images(const DoctorContext& context);
Finding check_skopeo(const DoctorContext& context);
Finding check_mmdebstrap(const DoctorContext& context);
Finding check_image_files(const DoctorContext& context);
Finding check_kvm(const DoctorContext& context);
Finding check_qemu(const DoctorContext& context);
Finding check_guest_kernel(const DoctorContext& context);
Finding check_run(const DoctorContext& context);

// --- the parts of them that only decide ---

/// How a state directory on a file system of statfs(2) type `type` is to be judged.
struct StatePlace {
  std::string path;
  std::int64_t type = 0;
  bool is_noexec = false;
};
Finding judge_state_place(const StatePlace& place);

/// Space below which runs begin to fail. `inodes` is 0 where the file system counts none.
struct Space {
  std::string path;
  std::uint64_t free_bytes = 0;
  std::uint64_t inodes = 0;
  std::uint64_t free_inodes = 0;
};
Finding judge_space(const Space& space);

}  // namespace sbx::host
