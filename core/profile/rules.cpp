// Rules: names, paths, globs and capabilities, each checked the same for files, variables and
// flags.
#include "core/profile/rules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/base/text.h"

namespace sbx::profile {
namespace {

constexpr std::size_t kMostName = 64;
constexpr std::size_t kMostImageName = 200;
constexpr std::size_t kMostServiceName = 32;
constexpr std::size_t kMostLabelName = 128;
constexpr std::size_t kMostLabelValue = 1024;
constexpr std::size_t kMostEnvString = 128UL * 1024 - 1;  // MAX_ARG_STRLEN of execve(2)
constexpr std::size_t kMostPath = 4095;                   // PATH_MAX without its NUL

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_alnum(char c) {
  return is_lower(c) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool has_nul(std::string_view s) {
  return s.find('\0') != std::string_view::npos;
}

bool has_control(std::string_view s) {
  return std::any_of(
      s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

bool has_component(std::string_view path, std::string_view component) {
  const std::vector<std::string_view> parts = text::split(path, '/');
  return std::find(parts.begin(), parts.end(), component) != parts.end();
}

std::string inside_path_complaint(std::string_view path) {
  if (path.empty()) return "must not be empty";
  if (has_nul(path)) return "must not hold a NUL byte";
  if (path.front() != '/') return "must be an absolute path inside, such as /data";
  if (path.size() > kMostPath) return "is longer than 4095 bytes";
  if (has_component(path, "..")) return "must not hold \"..\"";
  const std::string normal = normal_path(path);
  for (const std::string_view dir : {"/proc", "/sys", "/dev"}) {
    if (is_within(normal, dir) && !is_within(normal, "/dev/shm")) {
      return text::cat("must not be in ", dir);
    }
  }
  return {};
}

// What a profile may hand out: rights over the sandbox's own processes, files and sockets. The
// others reach the kernel or undo the jail.
constexpr std::array<std::string_view, 15> kAllowedCapabilities{"CAP_CHOWN",
                                                                "CAP_DAC_OVERRIDE",
                                                                "CAP_FOWNER",
                                                                "CAP_FSETID",
                                                                "CAP_IPC_LOCK",
                                                                "CAP_IPC_OWNER",
                                                                "CAP_KILL",
                                                                "CAP_LEASE",
                                                                "CAP_NET_BIND_SERVICE",
                                                                "CAP_NET_BROADCAST",
                                                                "CAP_NET_RAW",
                                                                "CAP_SETGID",
                                                                "CAP_SETUID",
                                                                "CAP_SYS_CHROOT",
                                                                "CAP_SYS_NICE"};
constexpr std::array<std::string_view, 26> kRefusedCapabilities{"CAP_AUDIT_CONTROL",
                                                                "CAP_AUDIT_READ",
                                                                "CAP_AUDIT_WRITE",
                                                                "CAP_BLOCK_SUSPEND",
                                                                "CAP_BPF",
                                                                "CAP_CHECKPOINT_RESTORE",
                                                                "CAP_DAC_READ_SEARCH",
                                                                "CAP_LINUX_IMMUTABLE",
                                                                "CAP_MAC_ADMIN",
                                                                "CAP_MAC_OVERRIDE",
                                                                "CAP_MKNOD",
                                                                "CAP_NET_ADMIN",
                                                                "CAP_PERFMON",
                                                                "CAP_SETFCAP",
                                                                "CAP_SETPCAP",
                                                                "CAP_SYSLOG",
                                                                "CAP_SYS_ADMIN",
                                                                "CAP_SYS_BOOT",
                                                                "CAP_SYS_MODULE",
                                                                "CAP_SYS_PACCT",
                                                                "CAP_SYS_PTRACE",
                                                                "CAP_SYS_RAWIO",
                                                                "CAP_SYS_RESOURCE",
                                                                "CAP_SYS_TIME",
                                                                "CAP_SYS_TTY_CONFIG",
                                                                "CAP_WAKE_ALARM"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string name_complaint(std::string_view name) {
  if (name.empty()) return "must not be empty";
  if (name.find('/') != std::string_view::npos) {
    return "is a path: a profile's name has no slash";
  }
  if (name.size() > kMostName) return "is longer than 64 characters";
  const bool is_valid = is_alnum(name.front()) && std::all_of(name.begin(), name.end(), [](char c) {
                          return is_alnum(c) || c == '.' || c == '_' || c == '-';
                        });
  if (!is_valid) return "is no profile name: letters, digits, dot, dash and underscore only";
  return {};
}

std::string image_complaint(std::string_view name) {
  if (name.empty()) return {};
  if (name.size() > kMostImageName) return "is longer than 200 characters";
  const bool is_valid =
      is_alnum(name.front()) && std::all_of(name.begin(), name.end(), [](char c) {
        return is_alnum(c) || std::string_view("._/:@+-").find(c) != std::string_view::npos;
      });
  if (!is_valid) return "is no image's name: letters, digits and . _ / : @ + - only";
  return {};
}

std::string accel_complaint(std::string_view text) {
  return text == "kvm" || text == "tcg" ? "" : "must be kvm or tcg";
}

std::string kernel_complaint(std::string_view name) {
  if (name.empty()) return {};
  if (name.size() > kMostName) return "is longer than 64 characters";
  const bool is_valid =
      is_alnum(name.front()) && std::all_of(name.begin(), name.end(), [](char c) {
        return is_alnum(c) || std::string_view("._+~-").find(c) != std::string_view::npos;
      });
  return is_valid ? "" : "is no kernel's name: see sbx kernel ls";
}

std::string line_complaint(std::string_view text) {
  return has_control(without_last_newline(text)) ? "must be one line of plain text" : "";
}

std::string without_last_newline(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text);
}

std::string env_name_complaint(std::string_view name) {
  const bool is_valid =
      !name.empty() && (is_alnum(name.front()) || name.front() == '_') &&
      !(name.front() >= '0' && name.front() <= '9') &&
      std::all_of(name.begin(), name.end(), [](char c) { return is_alnum(c) || c == '_'; });
  if (!is_valid) return "is no variable name: letters, digits and underscore, no digit first";
  return {};
}

std::string env_value_complaint(std::string_view value) {
  if (has_nul(value)) return "must not hold a NUL byte";
  if (value.size() > kMostEnvString) return "is longer than 128 KiB, which no program can be given";
  return {};
}

std::string argument_complaint(std::string_view text) {
  if (has_nul(text)) return "must not hold a NUL byte";
  if (text.size() > kMostEnvString) return "is longer than 128 KiB";
  return {};
}

std::string extension_complaint(std::string_view text) {
  const bool is_valid = text.size() > 1 && text.front() == '.' &&
                        text.find('/') == std::string_view::npos &&
                        text.find('.', 1) == std::string_view::npos && !has_control(text);
  if (!is_valid) return "is no extension: a dot and letters, such as .py";
  return {};
}

std::string base_name_complaint(std::string_view text) {
  if (text.empty() || text == "." || text == ".." || text.find('/') != std::string_view::npos ||
      has_control(text)) {
    return "must be a plain file name without a directory";
  }
  if (text.size() > 255) return "is longer than 255 bytes";
  return {};
}

std::string package_complaint(std::string_view text) {
  const bool is_valid =
      !text.empty() && is_alnum(text.front()) && std::all_of(text.begin(), text.end(), [](char c) {
        return is_lower(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
      });
  if (!is_valid) return "is no Debian package name";
  return {};
}

std::string workdir_complaint(std::string_view path) {
  return inside_path_complaint(path);
}

std::string hostname_complaint(std::string_view text) {
  constexpr std::string_view kForm =
      "is no host name: letters, digits and dashes, at most 63, no dash at the ends";
  if (text.empty() || text.size() > 63 || text.front() == '-' || text.back() == '-') {
    return std::string(kForm);
  }
  const bool is_valid =
      std::all_of(text.begin(), text.end(), [](char c) { return is_alnum(c) || c == '-'; });
  return is_valid ? std::string() : std::string(kForm);
}

std::string target_complaint(std::string_view path) {
  std::string complaint = inside_path_complaint(path);
  if (!complaint.empty()) return complaint;
  const std::string normal = normal_path(path);
  for (const std::string_view own : {"/",
                                     "/work",
                                     "/tmp",
                                     "/home",
                                     "/home/sbx",
                                     "/dev/shm",
                                     "/run",
                                     "/usr",
                                     "/bin",
                                     "/sbin",
                                     "/lib",
                                     "/lib64",
                                     "/etc"}) {
    if (normal == own) return text::cat("must not replace ", own, ", which the sandbox provides");
  }
  if (is_within(normal, "/run/sbx")) return "must not be in /run/sbx, which the sandbox provides";
  return {};
}

std::string glob_complaint(std::string_view text) {
  if (text.empty()) return "must not be empty";
  if (has_nul(text)) return "must not hold a NUL byte";
  if (text.front() == '/') return "must be relative to the working directory, such as out/*.png";
  if (has_component(text, "..")) return "must not hold \"..\"";
  return {};
}

std::string canonical_capability(std::string_view text) {
  std::string name;
  for (const char c : text) {
    name += is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name.starts_with("CAP_") ? name : text::cat("CAP_", name);
}

std::span<const std::string_view> allowed_capability_names() {
  return kAllowedCapabilities;
}

std::string capability_complaint(std::string_view text) {
  const std::string name = canonical_capability(text);
  if (contains(kAllowedCapabilities, name)) return {};
  if (contains(kRefusedCapabilities, name)) {
    return "is not given to a sandbox: it would reach outside";
  }
  if (name == "CAP_ALL") return "is not given to a sandbox: name the capabilities it needs";
  const std::optional<std::string> close = text::closest(name, kAllowedCapabilities);
  if (close) return text::cat("is no capability (did you mean ", *close, "?)");
  return "is no capability (see capabilities(7))";
}

std::string service_name_complaint(std::string_view name) {
  const auto is_word = [](char c) { return is_lower(c) || (c >= '0' && c <= '9'); };
  const bool is_valid =
      !name.empty() && name.size() <= kMostServiceName && is_word(name.front()) &&
      std::all_of(name.begin(), name.end(), [&](char c) { return is_word(c) || c == '-'; });
  if (!is_valid) {
    return "is no service name: lower-case letters, digits and dashes, at most 32, no dash first";
  }
  return {};
}

std::string label_name_complaint(std::string_view name) {
  const bool is_valid = !name.empty() && name.size() <= kMostLabelName && is_alnum(name.front()) &&
                        std::all_of(name.begin(), name.end(), [](char c) {
                          return is_alnum(c) || c == '.' || c == '_' || c == '-' || c == '/';
                        });
  if (!is_valid) {
    return "is no label name: letters, digits, dot, dash, underscore and slash, at most 128";
  }
  return {};
}

std::string label_value_complaint(std::string_view value) {
  if (has_control(value)) return "must be one line of plain text";
  if (value.size() > kMostLabelValue) return "is longer than 1024 bytes";
  return {};
}

std::string normal_path(std::string_view path) {
  std::string normal;
  for (const std::string_view part : text::split(path, '/')) {
    if (part.empty() || part == ".") continue;
    normal += '/';
    normal += part;
  }
  return normal.empty() ? "/" : normal;
}

bool is_within(std::string_view path, std::string_view dir) {
  if (dir == "/") return true;
  return path.starts_with(dir) && (path.size() == dir.size() || path[dir.size()] == '/');
}

}  // namespace sbx::profile
