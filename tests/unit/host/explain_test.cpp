#include <cerrno>
#include <string>

#include <doctest/doctest.h>

#include "core/host/facts.h"

#include "tests/unit/host/fake_host.h"

namespace sbx::host {
namespace {

std::string explain(const FakeHost& host, int err) {
  return explain_userns_failure(err, host.files()).to_string();
}

}  // namespace

TEST_CASE("explain: Debian's switch for unprivileged users") {
  FakeHost host;
  host.file("/proc/sys/kernel/unprivileged_userns_clone", "0\n");
  const std::string text = explain(host, EPERM);
  CHECK(has(text, "make a user namespace: they are turned off for unprivileged users"));
  CHECK(has(text, "Operation not permitted"));
  CHECK(has(text, "sysctl -w kernel.unprivileged_userns_clone=1"));
  host.files().is_root = true;  // the switch is none for root
  CHECK_FALSE(has(explain(host, EPERM), "turned off"));
}

TEST_CASE("explain: AppArmor's restriction, at the namespace and at the first mount") {
  FakeHost host;
  host.file("/proc/sys/kernel/unprivileged_userns_clone", "1\n");
  host.file("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
  CHECK(has(explain(host, EACCES), "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"));
  const Error mount = explain_mount_failure("mount tmpfs on /", EACCES, host.files());
  CHECK(mount.message() == "mount tmpfs on /: Permission denied");
  CHECK(has(mount.hint(), "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"));
  CHECK(has(mount.hint(), "sbx doctor --apparmor-profile | sudo tee /etc/apparmor.d/sbx"));
}

TEST_CASE("explain: none left, or turned off by their number") {
  FakeHost host;
  host.file("/proc/sys/user/max_user_namespaces", "0\n");
  CHECK(has(explain(host, ENOSPC), "sysctl -w user.max_user_namespaces=15000"));
  host.file("/proc/sys/user/max_user_namespaces", "1000\n");
  CHECK(has(explain(host, ENOSPC), "there are 1000 already"));
  CHECK(has(explain(host, EUSERS), "sysctl -w user.max_user_namespaces=2000"));
}

TEST_CASE("explain: a container, a filter, a chroot, an old kernel") {
  {
    FakeHost host;
    host.file("/.dockerenv", "");
    CHECK_FALSE(has(explain(host, EPERM), "docker"));  // many images have it without a container
    host.file("/proc/self/status", "Name:\tsbx\nSeccomp:\t2\n");
    CHECK(has(explain(host, EPERM), "(docker)"));
    CHECK(has(explain(host, EPERM), "--security-opt seccomp=unconfined"));
    CHECK(has(explain_mount_failure("mount proc on /proc", EPERM, host.files()).hint(),
              "systempaths=unconfined"));
  }
  {
    FakeHost host;
    host.file("/proc/self/status", "Name:\tsbx\nSeccomp:\t2\n");
    CHECK(has(explain(host, EPERM), "a seccomp filter"));
    CHECK(has(explain(host, ENOSYS), "a seccomp filter"));
  }
  {
    FakeHost host;
    CHECK(explain_mount_failure("mount proc on /proc", EPERM, host.files()).hint().empty());
    host.file("/proc/self/mountinfo",
              "1 0 8:1 / / rw - ext4 a rw\n2 1 0:2 / /proc rw - proc proc rw\n"
              "3 2 0:3 / /proc/sys/fs/binfmt_misc rw - autofs a rw\n");
    CHECK(explain_mount_failure("mount proc on /proc", EPERM, host.files()).hint().empty());
    host.file("/proc/self/mountinfo", "3 2 0:3 / /proc/kcore rw - tmpfs a rw\n");
    CHECK(has(explain_mount_failure("mount proc on /proc", EPERM, host.files()).hint(),
              "systempaths=unconfined"));
  }
  {
    FakeHost host;
    host.file("/proc/self/mountinfo", "1 0 8:1 / /proc rw - proc proc rw\n");
    CHECK(has(explain(host, EPERM), "in a chroot"));
  }
  const FakeHost host;
  CHECK(has(explain(host, EINVAL), "CONFIG_USER_NS=y"));
  CHECK(has(explain(host, ENOSYS), "no clone3"));
}

TEST_CASE("explain: with no cause to be seen it says where to look") {
  const FakeHost host;
  const std::string text = explain(host, EPERM);
  CHECK(has(text, "dmesg"));
  CHECK(has(explain(host, ENOMEM), "Cannot allocate memory"));
  CHECK(explain_mount_failure("mount x", ENOENT).hint().empty());
}

}  // namespace sbx::host
