// Probes: what each row says of hosts that this one is not.
#include "core/host/probes.h"

#include <linux/magic.h>
#include <sys/stat.h>

#include <csignal>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/skip.h"
#include "tests/unit/host/fake_host.h"

namespace sbx::host {
namespace {

DoctorContext context_of(const FakeHost& host) {
  DoctorContext context;
  context.files = host.files();
  context.paths.env = [](std::string_view name) -> std::optional<std::string> {
    if (name == "PATH") return "/opt/conda/bin:/usr/bin";
    return std::nullopt;
  };
  return context;
}

TrialEnd fails_at_two() noexcept {
  return {2, 13};
}
TrialEnd dies() noexcept {
  ::raise(SIGKILL);
  return {};
}

}  // namespace

TEST_CASE("probes: subordinate ids that nobody shares are fine, none at all play no part") {
  const FakeHost host;
  CHECK(check_subids(context_of(host)).verdict == Verdict::kNotApplicable);
  host.file("/etc/subuid", "ann:100000:65536\nbob:165536:65536\n");
  host.file("/etc/subgid", "ann:100000:65536\n");
  host.file("/etc/passwd", "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n");
  const Finding finding = check_subids(context_of(host));
  CHECK(finding.verdict == Verdict::kOk);
  CHECK(has(finding.tried, "3 lines"));
}

TEST_CASE("probes: overlapping subordinate ids name both users and a free range") {
  const FakeHost host;
  host.file("/etc/subuid", "ann:100000:65536\nbob:150000:65536\n");
  const Finding finding = check_subids(context_of(host));
  CHECK(finding.verdict == Verdict::kWarn);
  CHECK(has(finding.cause, "ann (100000-165535) and of bob (150000-215535) overlap"));
  CHECK(has(finding.fix, "usermod --del-subuids 150000-215535 --add-subuids 215536-281071 bob"));
}

TEST_CASE("probes: a line that covers the ids of root's sandboxes is found, up to the last id") {
  for (const char* const line : {"ann:1000000:4000000000\n",
                                 "ann:0:18446744073709551615\n",
                                 "ann:1879048192:1\n",
                                 "ann:2147352575:1\n"}) {
    const FakeHost host;
    host.file("/etc/subgid", line);
    const Finding finding = check_subids(context_of(host));
    CAPTURE(line);
    CHECK(finding.verdict == Verdict::kWarn);
    CHECK(has(finding.cause, "/etc/subgid gives ann the ids"));
    CHECK(has(finding.fix, "--del-subgids"));
  }
}

TEST_CASE("probes: a line that covers a person's own id is found") {
  const FakeHost host;
  host.file("/etc/subuid", "ann:900:65536\n");
  host.file("/etc/passwd", "bob:x:1001:1001::/home/bob:/bin/sh\n");
  const Finding finding = check_subids(context_of(host));
  CHECK(finding.verdict == Verdict::kWarn);
  CHECK(has(finding.cause, "bob has the user id 1001"));
}

TEST_CASE("probes: a container is told by what it takes away") {
  const FakeHost host;
  CHECK(check_container(context_of(host)).verdict == Verdict::kOk);
  host.file("/.dockerenv", "");
  CHECK(check_container(context_of(host)).verdict == Verdict::kOk);
  host.file("/proc/self/status", "Name:\tsbx\nSeccomp:\t2\n");
  host.file("/proc/self/mountinfo",
            "1 0 8:1 / / rw - overlay o rw\n2 1 0:2 /null /proc/kcore rw - tmpfs t rw\n");
  const Finding finding = check_container(context_of(host));
  CHECK(finding.verdict == Verdict::kWarn);
  CHECK(has(finding.tried, "docker"));
  CHECK(has(finding.cause, "parts of /proc are covered"));
  CHECK(has(finding.cause, "a seccomp filter"));
  CHECK(has(finding.fix, "systempaths=unconfined"));
}

TEST_CASE("probes: an interpreter on PATH that is not the sandbox's is a warning") {
  const FakeHost host;
  DoctorContext context = context_of(host);
  context.interpreters = {{"python", "/usr/bin/python3"}, {"node", "/usr/bin/node"}};
  CHECK(check_programs(context).verdict == Verdict::kOk);  // nobody has either
  host.file("/usr/bin/python3", "", 0755);
  CHECK(check_programs(context).verdict == Verdict::kOk);
  host.file("/opt/conda/bin/python3", "", 0755);
  const Finding finding = check_programs(context);
  CHECK(finding.verdict == Verdict::kWarn);
  CHECK(has(finding.cause, "your python3 is /opt/conda/bin/python3"));
  CHECK(has(finding.fix, "--set language.path=" + host.root() + "/opt/conda/bin/python3"));
}

TEST_CASE("probes: an interpreter that only PATH has is a warning") {
  const FakeHost host;
  DoctorContext context = context_of(host);
  context.interpreters = {{"node", "/usr/bin/node"}};
  host.file("/opt/conda/bin/node", "", 0755);
  const Finding finding = check_programs(context);
  CHECK(finding.verdict == Verdict::kWarn);
  CHECK(has(finding.cause, "there is no /usr/bin/node"));
}

TEST_CASE("probes: a binary that others may replace, or that has rights of its own, is said so") {
  const FakeHost host;
  host.file("/bin/sbx", "", 0755);
  DoctorContext context = context_of(host);
  context.binary = host.root() + "/bin/sbx";
  CHECK(check_binary(context).verdict == Verdict::kOk);
  REQUIRE(::chmod(context.binary.c_str(), 0777) == 0);
  CHECK(has(check_binary(context).cause, "written by everybody"));
  REQUIRE(::chmod(context.binary.c_str(), 04755) == 0);
  const Finding setuid = check_binary(context);
  CHECK(setuid.verdict == Verdict::kNo);
  CHECK(has(setuid.fix, "chmod ug-s"));
  REQUIRE(::chmod(context.binary.c_str(), 0755) == 0);
  REQUIRE(::chmod((host.root() + "/bin").c_str(), 0777) == 0);
  CHECK(has(check_binary(context).cause, "/bin may be written by everybody"));
  context.binary += "-gone";
  CHECK(has(check_binary(context).cause, "replaced or removed"));
}

TEST_CASE("probes: no /dev/kvm has another cause where the processor could do it") {
  const FakeHost host;
  host.file("/proc/cpuinfo", "flags\t: fpu vme\n");
  CHECK(has(check_kvm(context_of(host)).fix, "nested virtualization"));
  host.file("/proc/cpuinfo", "flags\t: fpu vmx\n");
  CHECK(has(check_kvm(context_of(host)).fix, "modprobe kvm_intel"));
  host.file("/dev/kvm", "");  // no device: it speaks no version
  CHECK(check_kvm(context_of(host)).verdict == Verdict::kNo);
}

TEST_CASE("probes: the state directory's file system is judged") {
  CHECK(judge_state_place({.path = "/s", .type = 0xEF53}).verdict == Verdict::kOk);
  const Finding nfs = judge_state_place({.path = "/s", .type = NFS_SUPER_MAGIC});
  CHECK(nfs.verdict == Verdict::kWarn);
  CHECK(has(nfs.fix, "SBX_STATE_DIR"));
  CHECK(has(judge_state_place({.path = "/s", .type = 0xEF53, .is_noexec = true}).cause, "noexec"));
}

TEST_CASE("probes: space and inodes have limits, a file system without inodes has none") {
  constexpr std::uint64_t kGiB = 1U << 30U;
  CHECK(judge_space({"/s", 2 * kGiB, 0, 0}).verdict == Verdict::kOk);
  CHECK(judge_space({"/s", 2 * kGiB, 100'000, 50'000}).verdict == Verdict::kOk);
  CHECK(judge_space({"/s", 2 * kGiB, 100'000, 3}).verdict == Verdict::kNo);
  CHECK(judge_space({"/s", kGiB / 2, 100'000, 50'000}).verdict == Verdict::kWarn);
  const Finding full = judge_space({"/s", 4096, 100'000, 50'000});
  CHECK(full.verdict == Verdict::kNo);
  CHECK(has(full.fix, "sbx gc"));
}

TEST_CASE("probes: a trial says where it stopped, and a killed one that it was") {
  auto end = try_in_child(fails_at_two);
  REQUIRE(end.ok());
  CHECK(end.value().step == 2);
  CHECK(end.value().err == 13);
  CHECK_FALSE(try_in_child(dies).ok());
}

TEST_CASE("probes: a helper's words and status are kept, and a slow one is given up") {
  const auto printed =
      run_helper({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, Millis{30'000});
  REQUIRE(printed.ok());
  CHECK(printed.value().out == "out\n");
  CHECK(printed.value().err == "err\n");
  CHECK(printed.value().status == 3 << 8);
  const auto slow = run_helper({"/bin/sh", "-c", "exec sleep 1000"}, Millis{50});
  REQUIRE_FALSE(slow.ok());
  CHECK(slow.error().code() == Errc::kTimeout);
}

TEST_CASE("probes: the AppArmor profile names the binary, whatever its path") {
  const std::string plain = apparmor_profile("/usr/local/bin/sbx");
  CHECK(has(plain, "profile sbx \"/usr/local/bin/sbx\" flags=(unconfined) {\n  userns,\n"));
  CHECK(has(plain, "abi <abi/4.0>,"));
  CHECK(has(apparmor_profile("/a b/{x}*\"/sbx"), "\"/a b/\\{x\\}\\*\\\"/sbx\""));
}

TEST_CASE("probes: what images need is found, or said with the package that has it") {
  CHECK(check_images(DoctorContext()).tried.find("65,536") != std::string::npos);
  const FakeHost host;
  const DoctorContext context = context_of(host);
  CHECK(check_skopeo(context).verdict == Verdict::kNo);
  CHECK(has(check_skopeo(context).fix, "apt-get install skopeo"));
  CHECK(has(check_mmdebstrap(context).fix, "apt-get install mmdebstrap"));
  CHECK(check_image_files(context).verdict == Verdict::kNo);
  host.file("/usr/sbin/mke2fs", "", 0755);
  CHECK(check_image_files(context).verdict == Verdict::kWarn);
  host.file("/usr/sbin/mkfs.erofs", "", 0755);
  CHECK(check_image_files(context).verdict == Verdict::kOk);
}

}  // namespace sbx::host
