// Mounts: splitting, resolving and fencing of mount texts.
#include "core/profile/mounts.h"

#include <fcntl.h>
#include <linux/openat2.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/profile/rules.h"

namespace sbx::profile {
namespace {

constexpr std::string_view kForms =
    "expected SRC:DST[:ro|rw|overlay], or src=SRC,dst=DST[,mode=ro|rw|overlay] for names with a "
    "colon";

Error wrong(std::string message) {
  return {Errc::kUsage, std::move(message)};
}

std::string quoted(std::string_view s) {
  constexpr std::size_t kShown = 200;
  return text::cat('\'', text::escape(s.substr(0, kShown)), s.size() > kShown ? "..." : "", '\'');
}

/// Splits at ",src=", ",dst=" and ",mode=" only, so that other commas belong to a name.
Result<MountText> split_keyed(std::string_view text) {
  constexpr std::array<std::string_view, 3> kKeys{"src=", "dst=", "mode="};
  MountText mount;
  std::array<std::string*, 3> fields{&mount.source, &mount.target, &mount.mode};
  std::array<bool, 3> seen{};
  const auto key_at = [&](std::size_t pos) {
    return static_cast<std::size_t>(
        std::find_if(kKeys.begin(),
                     kKeys.end(),
                     [&](std::string_view key) { return text.substr(pos).starts_with(key); }) -
        kKeys.begin());
  };
  std::size_t pos = 0;
  while (pos < text.size()) {
    const std::size_t key = key_at(pos);
    if (key == kKeys.size() || seen.at(key)) {
      return wrong(text::cat(quoted(text), " is no mount; ", kForms));
    }
    seen.at(key) = true;
    const std::size_t start = pos + kKeys.at(key).size();
    std::size_t end = text.find(',', start);
    while (end != std::string_view::npos && key_at(end + 1) == kKeys.size()) {
      end = text.find(',', end + 1);
    }
    end = std::min(end, text.size());
    *fields.at(key) = std::string(text.substr(start, end - start));
    pos = end + 1;
  }
  if (!seen[0] || !seen[1]) return wrong(text::cat(quoted(text), " is no mount; ", kForms));
  return mount;
}

Result<std::string> resolve_source(const std::string& source, const MountBase& base) {
  if (source.empty()) return wrong("the source must not be empty");
  if (source.find('\0') != std::string::npos) return wrong("the source must not hold a NUL byte");
  if (source.size() > 4095) return wrong("the source is longer than 4095 bytes");
  if (source.front() == '/') return normal_path(source);
  if (source == "~" || source.starts_with("~/")) {
    if (base.home.empty()) {
      return wrong(text::cat(quoted(source), ": the home directory is not known"));
    }
    return normal_path(text::cat(base.home, '/', source.substr(1)));
  }
  if (base.dir.empty()) return wrong(text::cat(quoted(source), " must be an absolute path"));
  return normal_path(text::cat(base.dir, '/', source));
}

/// Whether `source`, below `project`, leads out of it through a link.
Status check_beneath(const std::string& source, std::string_view project) {
  const std::string rel = source.size() == project.size() ? "." : source.substr(project.size() + 1);
  // The directory's name has no links in it, and must not get any.
  const Result<UniqueFd> dir =
      sys::openat2(AT_FDCWD, std::string(project), O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
  if (!dir.ok()) return {};  // the backend opens it again and says what is wrong
  const Result<UniqueFd> fd =
      sys::openat2(dir.value().get(), rel, O_PATH, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
  if (!fd.ok() && (fd.error().sys_errno() == EXDEV || fd.error().sys_errno() == ELOOP)) {
    return wrong(text::cat(quoted(source), " leads out of the project through a link"));
  }
  return {};
}

/// The directory that `source`, written as `text`, may not lead out of; empty when it is free.
Result<std::string> fence(const std::string& text,
                          const std::string& source,
                          const MountBase& base) {
  if (base.project.empty()) return std::string();
  if (base.project == "/" || base.project == base.home) {
    return wrong(text::cat(quoted(text),
                           ": a profile in the home directory itself mounts nothing without "
                           "--allow-outside (move it into a directory of its own)"));
  }
  const std::vector<std::string_view> parts = text::split(source, '/');
  const bool climbs = std::find(parts.begin(), parts.end(), "..") != parts.end();
  if (climbs || !is_within(source, base.project) || text.starts_with('~')) {
    return wrong(text::cat(quoted(text),
                           " is outside the profile's own directory ",
                           quoted(base.project),
                           ", which needs --allow-outside"));
  }
  return std::string(base.project);
}

}  // namespace

std::string_view mode_name(MountMode mode) {
  switch (mode) {
    case MountMode::kReadOnly:
      return "ro";
    case MountMode::kReadWrite:
      return "rw";
    case MountMode::kOverlay:
      return "overlay";
  }
  return "?";
}

Result<MountText> split_mount(std::string_view text) {
  if (text.starts_with("src=") || text.starts_with("dst=")) return split_keyed(text);
  const std::vector<std::string_view> parts = text::split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) {
    return wrong(text::cat(quoted(text), " is no mount; ", kForms));
  }
  MountText mount{std::string(parts[0]), std::string(parts[1]), "ro"};
  if (parts.size() == 3) mount.mode = std::string(parts[2]);
  return mount;
}

Result<Mount> make_mount(const MountText& text, const MountBase& base) {
  Mount mount;
  if (text.mode == "rw") {
    mount.mode = MountMode::kReadWrite;
  } else if (text.mode == "overlay") {
    mount.mode = MountMode::kOverlay;
  } else if (text.mode != "ro") {
    return wrong(text::cat("mode ", quoted(text.mode), " is unknown; expected ro, rw or overlay"));
  }
  const std::string complaint = target_complaint(text.target);
  if (!complaint.empty()) return wrong(text::cat("target ", quoted(text.target), ' ', complaint));
  mount.target = normal_path(text.target);
  SBX_ASSIGN(mount.source, resolve_source(text.source, base));
  SBX_ASSIGN(mount.beneath, fence(text.source, mount.source, base));
  if (!mount.beneath.empty()) SBX_TRY(check_beneath(mount.source, mount.beneath));
  return mount;
}

Result<HostTool> make_tool(const std::string& path, const MountBase& base) {
  HostTool tool;
  SBX_ASSIGN(tool.path, resolve_source(path, base));
  SBX_ASSIGN(tool.beneath, fence(path, tool.path, base));
  return tool;
}

Result<HostPath> make_host_path(const std::string& path, const MountBase& base) {
  HostPath made;
  SBX_ASSIGN(made.path, resolve_source(path, base));
  SBX_ASSIGN(made.beneath, fence(path, made.path, base));
  if (!made.beneath.empty()) SBX_TRY(check_beneath(made.path, made.beneath));
  return made;
}

}  // namespace sbx::profile
