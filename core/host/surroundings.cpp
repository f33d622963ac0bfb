// Surroundings: see surroundings.h.
#include "core/host/surroundings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/confine/host_text.h"

namespace sbx::host {
namespace {

bool exists(const HostFiles& files, std::string_view path) {
  return ::access(text::cat(files.root, path).c_str(), F_OK) == 0;
}

/// `path` as a quoted AppArmor path: what its globs would take for a pattern is escaped.
std::string quoted_pattern(std::string_view path) {
  constexpr std::string_view kSpecial = "\\\"*?[]{}^,@";
  std::string out = "\"";
  for (const char c : path) {
    if (kSpecial.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

HostFiles::HostFiles() : is_root(::geteuid() == 0) {}

std::optional<std::string> read_host_file(const HostFiles& files, std::string_view path) {
  auto content = fs::read_file(text::cat(files.root, path), Bytes{4U << 20U});
  if (!content.ok()) return std::nullopt;
  return std::string(text::trim(content.value()));
}

std::optional<long> sysctl(const HostFiles& files, std::string_view name) {
  std::string path = text::cat("/proc/sys/", name);
  for (std::size_t i = std::string_view("/proc/sys/").size(); i < path.size(); ++i) {
    if (path[i] == '.') path[i] = '/';
  }
  const auto content = read_host_file(files, path);
  if (!content) return std::nullopt;
  long value = 0;
  const char* const end = content->data() + content->size();
  const auto [stop, error] = std::from_chars(content->data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string sysctl_fix(std::string_view name, std::string_view value) {
  return text::cat("as root: sysctl -w ",
                   name,
                   "=",
                   value,
                   "; to keep it: echo '",
                   name,
                   " = ",
                   value,
                   "' > /etc/sysctl.d/60-sbx.conf");
}

std::optional<std::string_view> container_mark(const HostFiles& files) {
  if (exists(files, "/.dockerenv")) return "docker";
  if (exists(files, "/run/.containerenv")) return "podman";
  if (exists(files, "/var/run/secrets/kubernetes.io")) return "kubernetes";
  if (exists(files, "/run/systemd/container")) return "a container";
  return std::nullopt;
}

bool is_chroot(const HostFiles& files) {
  struct stat own {};
  struct stat init {};
  if (::stat(text::cat(files.root, "/").c_str(), &own) == 0 &&
      ::stat(text::cat(files.root, "/proc/1/root/").c_str(), &init) == 0) {
    return own.st_dev != init.st_dev || own.st_ino != init.st_ino;
  }
  const auto content = read_host_file(files, "/proc/self/mountinfo");
  if (!content || content->empty()) return false;
  const auto lines = confine::parse_mountinfo(*content);
  return std::none_of(lines.begin(), lines.end(), [](const confine::MountLine& line) {
    return line.mount_point == "/";
  });
}

bool is_proc_masked(const HostFiles& files) {
  const auto content = read_host_file(files, "/proc/self/mountinfo");
  if (!content) return false;
  const auto lines = confine::parse_mountinfo(*content);
  return std::any_of(lines.begin(), lines.end(), [](const confine::MountLine& line) {
    return line.mount_point.starts_with("/proc/") && line.mount_point != "/proc/sys/fs/binfmt_misc";
  });
}

bool has_seccomp_filter(const HostFiles& files) {
  const auto status = read_host_file(files, "/proc/self/status");
  return status && status->find("\nSeccomp:\t2") != std::string::npos;
}

bool is_restricted_by_apparmor(const HostFiles& files) {
  return !files.is_root && sysctl(files, kSysctlAppArmor).value_or(0) == 1;
}

std::string apparmor_fix() {
  return text::cat(
      "give sbx an AppArmor profile of its own: sbx doctor --apparmor-profile | sudo tee "
      "/etc/apparmor.d/sbx && sudo apparmor_parser -r /etc/apparmor.d/sbx; or lift the restriction "
      "for all programs, ",
      sysctl_fix(kSysctlAppArmor, "0"));
}

std::string apparmor_profile(std::string_view binary) {
  // The form that Ubuntu ships for such programs; "unconfined" takes nothing away.
  return text::cat(
      "# AppArmor profile for sbx: lets this one program make user namespaces.\n"
      "# Install it as root:\n"
      "#   sbx doctor --apparmor-profile > /etc/apparmor.d/sbx\n"
      "#   apparmor_parser -r /etc/apparmor.d/sbx\n"
      "abi <abi/4.0>,\n"
      "include <tunables/global>\n"
      "\n"
      "profile sbx ",
      quoted_pattern(binary),
      " flags=(unconfined) {\n"
      "  userns,\n"
      "\n"
      "  include if exists <local/sbx>\n"
      "}\n");
}

}  // namespace sbx::host
