// Doctor: see doctor.h.
#include "core/host/doctor.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <utility>

#include "core/base/clock.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

constexpr std::array kRows = {
    DoctorRow{"kernel", "every sandbox", Need::kRun, check_kernel},
    DoctorRow{"user-namespaces", "every sandbox", Need::kRun, check_userns},
    DoctorRow{"run", "it is `sbx run` itself", Need::kRun, check_run},
    DoctorRow{"seccomp", "every sandbox: the filter of system calls", Need::kRun, check_seccomp},
    DoctorRow{"landlock",
              "a second wall around the sandbox's files; without it sbx starts from a read-only "
              "clone of itself",
              Need::kFeature,
              check_landlock},
    DoctorRow{"container",
              "nothing by itself: what takes abilities away",
              Need::kFeature,
              check_container},
    DoctorRow{"binary", "nobody else may decide what sbx is", Need::kFeature, check_binary},
    DoctorRow{"id-ranges",
              "root's sandboxes: user ids that belong to nobody else on this host",
              Need::kFeature,
              check_id_ranges},
    DoctorRow{
        "subids", "users' ids that do not reach into each other's", Need::kFeature, check_subids},
    DoctorRow{"idmapped-mounts",
              "root's -v and -i of files that only their owner may read",
              Need::kFeature,
              check_idmapped},
    DoctorRow{"cgroup-memory",
              "exact memory limits; without it a default is approximated, and -m is refused",
              Need::kFeature,
              check_cgroup_memory},
    DoctorRow{"cgroup-pids",
              "exact limits on processes; without it they are approximated",
              Need::kFeature,
              check_cgroup_pids},
    DoctorRow{"cgroup-cpu", "--cpus", Need::kFeature, check_cgroup_cpu},
    DoctorRow{"cgroup-freezer", "pausing a sandbox", Need::kFeature, check_cgroup_freezer},
    DoctorRow{"systemd-user",
              "limits for ordinary users without a delegated control group",
              Need::kFeature,
              check_systemd_user},
    DoctorRow{
        "disk-limit", "root's --disk beyond the memory limit", Need::kFeature, check_disk_limit},
    DoctorRow{
        "state-dir", "trusted profiles, locks, records of runs", Need::kFeature, check_state_dir},
    DoctorRow{"disk", "artifacts and records of runs", Need::kFeature, check_disk},
    DoctorRow{"resources", "descriptors and processes of sbx itself", Need::kRun, check_resources},
    DoctorRow{
        "programs", "scripts: the interpreters of the profiles", Need::kFeature, check_programs},
    DoctorRow{"terminal", "`sbx run -t`", Need::kFeature, check_terminal},
    DoctorRow{"overlay", "sessions and images: layers of files", Need::kFeature, check_overlay},
    DoctorRow{"images",
              "images and sandboxes made of them: user ids of their own",
              Need::kFeature,
              check_images},
    DoctorRow{"skopeo", "`sbx image pull`", Need::kFeature, check_skopeo},
    DoctorRow{"mmdebstrap", "`sbx image create --debootstrap`", Need::kFeature, check_mmdebstrap},
    DoctorRow{"image-files", "images in virtual machines", Need::kFeature, check_image_files},
    DoctorRow{
        "veth", "networks with an allow-list (not in this version)", Need::kFeature, check_veth},
    DoctorRow{"kvm", "virtual machines at full speed", Need::kFeature, check_kvm},
    DoctorRow{"qemu", "virtual machines", Need::kFeature, check_qemu},
    DoctorRow{
        "guest-kernel", "virtual machines: what runs in them", Need::kFeature, check_guest_kernel},
};

/// A probe on its way.
struct Running {
  const DoctorRow* row = nullptr;
  std::optional<ChildProcess> child;
  UniqueFd answer;
  std::string text;
  bool is_done = false;
  Finding finding;
};

/// The verdict as a digit, then the three texts, each ended by NUL.
std::string encode(const Finding& finding) {
  std::string out(1, static_cast<char>('0' + static_cast<int>(finding.verdict)));
  for (const std::string* part : {&finding.tried, &finding.cause, &finding.fix}) {
    out += part->substr(0, part->find('\0'));
    out += '\0';
  }
  return out;
}

std::optional<Finding> decode(std::string_view text) {
  if (text.empty() || text[0] < '0' || text[0] > '3') return std::nullopt;
  const auto parts = text::split(text.substr(1), '\0');
  if (parts.size() != 4) return std::nullopt;
  return Finding{.verdict = static_cast<Verdict>(text[0] - '0'),
                 .tried = std::string(parts[0]),
                 .cause = std::string(parts[1]),
                 .fix = std::string(parts[2])};
}

[[noreturn]] void probe_in_child(const DoctorRow& row,
                                 const DoctorContext& context,
                                 pid_t parent,
                                 int answer) noexcept {
  die_with_parent_in_child(parent);
  (void)reset_signals_in_child();
  ::signal(SIGPIPE, SIG_IGN);
  (void)sys::write_all(answer, encode(row.probe(context)));
  ::_exit(0);
}

Running start(const DoctorRow& row, const DoctorContext& context) {
  Running out;
  out.row = &row;
  const auto refused = [&out](const Error& error) {
    out.is_done = true;
    out.finding = missing("start a process to try it", error);
  };
  auto pipe = sys::pipe();
  if (!pipe.ok()) {
    refused(pipe.error());
    return out;
  }
  const pid_t self = ::getpid();
  auto forked = fork_pidfd();
  if (!forked.ok()) {
    refused(forked.error());
    return out;
  }
  if (forked.value().pid == 0) probe_in_child(row, context, self, pipe.value().w.get());
  out.child.emplace(forked.value().pid, std::move(forked.value().pidfd));
  out.answer = std::move(pipe.value().r);
  return out;
}

/// Reads what is there; at its end the finding is complete.
void read_answer(Running& probe) {
  constexpr std::size_t kMaxAnswer = 65536;
  std::array<char, 4096> buffer{};
  const auto got = sys::read(probe.answer.get(), buffer.data(), buffer.size());
  if (got.ok() && got.value() > 0) {
    if (probe.text.size() < kMaxAnswer) probe.text.append(buffer.data(), got.value());
    return;
  }
  probe.is_done = true;
  probe.answer.reset();
  const auto status = probe.child->wait();
  if (auto finding = decode(probe.text)) {
    probe.finding = *std::move(finding);
    return;
  }
  const int signo = status.ok() && WIFSIGNALED(status.value()) ? WTERMSIG(status.value()) : 0;
  probe.finding = missing("try it in a process of its own",
                          text::cat("that process ended by signal ", signo, " without an answer"),
                          "look at the kernel's log: dmesg");
}

/// One that the deadline has passed may be in an uninterruptible sleep: it is not waited for.
void give_up(Running& probe, Millis deadline) {
  (void)probe.child->kill(SIGKILL);
  (void)probe.child->release();
  probe.finding =
      missing("try it in a process of its own",
              text::cat("it did not end within ", to_string(deadline)),
              "look for a file system that does not answer (a network share?), or try again on a "
              "less busy host");
}

}  // namespace

std::string_view name(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kNames{"ok", "warn", "no", "n/a"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

DoctorContext::DoctorContext() : cgroups(confine::probe_cgroups()) {
  if (auto path = sys::readlinkat(AT_FDCWD, "/proc/self/exe"); path.ok()) {
    binary = std::move(path).value();
  }
}

std::span<const DoctorRow> doctor_rows() {
  return kRows;
}

std::vector<Diagnosis> diagnose(const DoctorContext& context,
                                std::span<const DoctorRow* const> rows,
                                Millis deadline) {
  std::vector<Running> probes;
  for (const DoctorRow* const row : rows) {
    probes.push_back(start(*row, context));
  }
  const std::int64_t end = monotonic_now().v + deadline.v;
  for (;;) {
    std::vector<pollfd> polled;
    std::vector<Running*> waiting;
    for (Running& probe : probes) {
      if (probe.is_done) continue;
      polled.push_back({probe.answer.get(), POLLIN, 0});
      waiting.push_back(&probe);
    }
    const Millis left{end - monotonic_now().v};
    if (waiting.empty() || left.v <= 0 || !sys::poll(polled, left).ok()) break;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) read_answer(*waiting[i]);
    }
  }
  std::vector<Diagnosis> out;
  for (Running& probe : probes) {
    if (!probe.is_done) give_up(probe, deadline);
    out.push_back({.row = probe.row, .finding = std::move(probe.finding)});
  }
  return out;
}

bool can_run(std::span<const Diagnosis> diagnoses) {
  return std::none_of(diagnoses.begin(), diagnoses.end(), [](const Diagnosis& diagnosis) {
    return diagnosis.row->need == Need::kRun && diagnosis.finding.verdict == Verdict::kNo;
  });
}

}  // namespace sbx::host
