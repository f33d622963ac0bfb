// Cgroup layout: see cgroup_layout.h.
#include "core/confine/cgroup_layout.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/confine/host_text.h"

// Theory of operation
//  1. Each controller lives in one hierarchy: a v1 mount that names it in its options, or the v2
//     mount when its cgroup.controllers has it.
//  2. v1: groups go right below the mount's root for root (one place, so that any later command
//     finds what a crashed one left), else below our own group if that was given to us.
//  3. v2: groups go into "sbx" below the topmost group that is ours: the mount's root for root,
//     else the highest ancestor of our own group that we may write (systemd's user@UID.service, or
//     a scope made with Delegate=yes). The kernel lets us move our processes there because we may
//     write the common ancestor.
//     The group "sbx" between has the controllers turned on for its children: that keeps a systemd
//     which thinks it no longer needs a controller from turning it off above us (EBUSY).

namespace sbx::confine {
namespace {

constexpr std::string_view kDelegateFix =
    "start it with: systemd-run --user --scope -q -p Delegate=yes sbx …";

bool has_word(std::string_view list, char separator, std::string_view word) {
  const auto words = text::split(list, separator);
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool may(const std::string& path, int mode) {
  return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0;
}

/// Whether groups can be made in the directory and processes moved within it.
bool is_ours(const std::string& dir) {
  return may(dir, W_OK | X_OK) && may(text::cat(dir, "/cgroup.procs"), W_OK);
}

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

/// Where a group `path` of /proc/self/cgroup is below the mount point; nullopt when the mount does
/// not show it (it shows another part of the hierarchy).
std::optional<std::string> below_mount(const MountLine& mount, const std::string& path) {
  std::string_view rest = path;
  if (mount.root != "/") {
    if (!rest.starts_with(mount.root)) return std::nullopt;
    rest.remove_prefix(mount.root.size());
    if (!rest.empty() && rest.front() != '/') return std::nullopt;
  }
  if (rest == "/") rest = "";
  // "/../x": our group lies outside of our cgroup namespace's root.
  if (rest.starts_with("/..")) return std::nullopt;
  return text::cat(mount.mount_point, rest);
}

class Finder {
 public:
  explicit Finder(const CgroupView& view)
      : view_(view),
        mounts_(parse_mountinfo(view.mountinfo)),
        own_(parse_proc_cgroup(view.self_cgroup)) {
    // The last mount on a point hides the ones before it.
    std::reverse(mounts_.begin(), mounts_.end());
    for (const MountLine& mount : mounts_) {
      if (v2_ == nullptr && mount.type == "cgroup2") v2_ = &mount;
    }
    if (v2_ != nullptr) read_v2();
  }

  ControllerPlace find(std::string_view controller, bool always_in_v2) {
    if (const MountLine* mount = v1_mount(controller)) return v1_place(*mount, controller);
    return v2_place(controller, always_in_v2);
  }

 private:
  std::string real(const std::string& path) const { return text::cat(view_.root, path); }

  const MountLine* v1_mount(std::string_view controller) const {
    for (const MountLine& mount : mounts_) {
      if (mount.type == "cgroup" && has_word(mount.super_options, ',', controller)) return &mount;
    }
    return nullptr;
  }

  std::optional<std::string> own_v1_group(std::string_view controller) const {
    for (const CgroupLine& line : own_) {
      if (line.hierarchy != 0 && has_word(line.controllers, ',', controller)) return line.path;
    }
    return std::nullopt;
  }

  ControllerPlace v1_place(const MountLine& mount, std::string_view controller) const {
    const std::string top = real(mount.mount_point);
    if (view_.is_root && may(top, W_OK | X_OK)) {
      return {.version = CgroupVersion::kV1, .dir = top, .cause = {}, .fix = {}};
    }
    const auto own = own_v1_group(controller);
    const auto dir = own ? below_mount(mount, *own) : std::nullopt;
    if (dir && may(real(*dir), W_OK | X_OK)) {
      return {.version = CgroupVersion::kV1, .dir = real(*dir), .cause = {}, .fix = {}};
    }
    if (view_.is_root) {
      return none(text::cat("the cgroup v1 ",
                            controller,
                            " hierarchy is mounted read-only at ",
                            mount.mount_point),
                  text::cat("mount -o remount,rw ", mount.mount_point));
    }
    const std::string group = dir ? *dir : mount.mount_point;
    return none(text::cat("the cgroup v1 group ", group, " (", controller, ") belongs to root"),
                text::cat("as root: d=",
                          mount.mount_point,
                          "/user-",
                          view_.uid,
                          "; mkdir -p $d; chown -R ",
                          view_.uid,
                          " $d; echo ",
                          view_.shell,
                          " > $d/cgroup.procs; or run sbx as root"));
  }

  void read_v2() {
    auto text =
        fs::read_file(real(text::cat(v2_->mount_point, "/cgroup.controllers")), Bytes{4096});
    // A mount that shows only part of the hierarchy lists what that part was given.
    if (text.ok()) v2_controllers_ = std::string(text::trim(text.value()));
  }

  /// The topmost group that is ours.
  std::optional<std::string> find_v2_top() const {
    const std::string top = real(v2_->mount_point);
    if (view_.is_root) {
      if (may(top, W_OK | X_OK)) return top;
      return std::nullopt;
    }
    std::optional<std::string> own;
    for (const CgroupLine& line : own_) {
      if (line.hierarchy == 0) own = below_mount(*v2_, line.path);
    }
    if (!own) return std::nullopt;
    std::optional<std::string> best;
    for (std::string dir = real(*own); dir.size() >= top.size(); dir = parent_of(dir)) {
      if (!is_ours(dir)) break;
      best = dir;
    }
    return best;
  }

  ControllerPlace v2_place(std::string_view controller, bool always) {
    if (v2_ == nullptr || (!always && !has_word(v2_controllers_, ' ', controller))) {
      if (v2_ == nullptr && v1_count() == 0) {
        return none("no cgroup file system is mounted",
                    "as root: mount -t cgroup2 cgroup2 /sys/fs/cgroup");
      }
      return none(text::cat("no cgroup hierarchy here has the ", controller, " controller"),
                  text::cat("boot without cgroup_disable=",
                            controller,
                            ", with a kernel that has the controller"));
    }
    if (!v2_top_known_) {
      v2_top_ = find_v2_top();
      v2_top_known_ = true;
    }
    if (!v2_top_) {
      if (view_.is_root) {
        return none(text::cat("the cgroup file system at ", v2_->mount_point, " is read-only"),
                    text::cat("mount -o remount,rw ",
                              v2_->mount_point,
                              " (in a container: start it with --privileged or with its own "
                              "writable cgroup namespace)"));
      }
      return none("no cgroup is delegated to this user here", std::string(kDelegateFix));
    }
    if (!always) {
      if (auto missing = v2_obstacle(*v2_top_, controller)) return *std::move(missing);
    }
    return {
        .version = CgroupVersion::kV2, .dir = text::cat(*v2_top_, "/sbx"), .cause = {}, .fix = {}};
  }

  /// Why children of our topmost group cannot have the controller; nullopt when they can.
  static std::optional<ControllerPlace> v2_obstacle(const std::string& top,
                                                    std::string_view controller) {
    const auto has = [&top](const char* file, std::string_view word) {
      const auto content = fs::read_file(text::cat(top, "/", file), Bytes{1U << 20U});
      return content.ok() && has_word(text::trim(content.value()), ' ', word);
    };
    if (!has("cgroup.controllers", controller)) {
      return none(text::cat("the ", controller, " controller is not delegated to ", top),
                  "as root: systemctl edit user@.service, add \"[Service]\" and "
                  "\"Delegate=cpu memory pids\", log in again");
    }
    if (has("cgroup.subtree_control", controller) || !may(text::cat(top, "/cgroup.type"), F_OK)) {
      return std::nullopt;  // on already, or the real root, which may have processes
    }
    // cgroups(7), "no internal processes".
    const auto inside = fs::read_file(text::cat(top, "/cgroup.procs"), Bytes{16U << 20U});
    if (!inside.ok() || text::trim(inside.value()).empty()) return std::nullopt;
    return none(text::cat("the cgroup ",
                          top,
                          " has processes of its own, so its children can have "
                          "no controllers"),
                text::cat("move them out of the way: mkdir ",
                          top,
                          "/init; for p in $(cat ",
                          top,
                          "/cgroup.procs); do echo $p > ",
                          top,
                          "/init/cgroup.procs; done"));
  }

  std::size_t v1_count() const {
    return static_cast<std::size_t>(std::count_if(
        mounts_.begin(), mounts_.end(), [](const MountLine& m) { return m.type == "cgroup"; }));
  }

  static ControllerPlace none(std::string cause, std::string fix) {
    return {.version = CgroupVersion::kNone,
            .dir = {},
            .cause = std::move(cause),
            .fix = std::move(fix)};
  }

  const CgroupView& view_;
  std::vector<MountLine> mounts_;
  std::vector<CgroupLine> own_;
  const MountLine* v2_ = nullptr;
  std::string v2_controllers_;
  std::optional<std::string> v2_top_;
  bool v2_top_known_ = false;
};

/// Whether the root of a cgroup hierarchy of this file system type is mounted at `dir`. Its inode
/// number is 1 (kernfs, Linux 5.5); the root that a cgroup namespace shows, or a bind of a part,
/// has another one.
bool is_hierarchy_root(const std::string& dir, long magic) {
  struct statfs system {};
  struct stat info {};
  return ::statfs(dir.c_str(), &system) == 0 && system.f_type == magic &&
         ::stat(dir.c_str(), &info) == 0 && info.st_ino == 1;
}

/// The lines that /proc/self/mountinfo has for the hierarchies in `self_cgroup`, when each that
/// matters is mounted whole at its usual place; else nullopt. Reading the file itself takes longer
/// the more mounts there are, and keeps every mount(2) of the namespace waiting meanwhile.
std::optional<std::string> usual_mounts(std::string_view self_cgroup) {
  constexpr std::string_view kTop = "/sys/fs/cgroup";
  constexpr auto kWanted =
      std::to_array<std::string_view>({"memory", "pids", "cpu", "cpuacct", "freezer", "cpuset"});
  std::string out;
  const auto add = [&out](const std::string& dir, const char* type, std::string_view options) {
    out += text::cat("0 0 0:0 / ", dir, " rw - ", type, " cgroup rw,", options, "\n");
  };
  for (const CgroupLine& line : parse_proc_cgroup(self_cgroup)) {
    if (line.hierarchy == 0) {
      const std::string hybrid = text::cat(kTop, "/unified");
      if (is_hierarchy_root(std::string(kTop), CGROUP2_SUPER_MAGIC)) {
        add(std::string(kTop), "cgroup2", {});
      } else if (is_hierarchy_root(hybrid, CGROUP2_SUPER_MAGIC)) {
        add(hybrid, "cgroup2", {});
      } else {
        return std::nullopt;
      }
      continue;
    }
    const bool is_wanted = std::any_of(kWanted.begin(), kWanted.end(), [&line](auto controller) {
      return has_word(line.controllers, ',', controller);
    });
    if (!is_wanted) continue;
    const std::string dir = text::cat(kTop, "/", line.controllers);
    if (!is_hierarchy_root(dir, CGROUP_SUPER_MAGIC)) return std::nullopt;
    add(dir, "cgroup", line.controllers);
  }
  if (out.empty()) return std::nullopt;
  return out;
}

bool has_swap() {
  // One header line, then one line per swap area.
  const auto text = fs::read_file("/proc/swaps", Bytes{65536});
  if (!text.ok()) return false;
  const std::string& lines = text.value();
  return std::count(lines.begin(), lines.end(), '\n') > 1;
}

SwapState find_swap(const ControllerPlace& memory) {
  if (!has_swap()) return SwapState::kOff;
  if (memory.version == CgroupVersion::kV1) {
    // Absent without swap accounting, in the topmost group as in all others.
    const bool is_counted = may(text::cat(memory.dir, "/memory.memsw.limit_in_bytes"), F_OK);
    return is_counted ? SwapState::kCounted : SwapState::kUncounted;
  }
  // In v2 the topmost group has no such file; it is counted unless turned off at boot.
  const auto options = fs::read_file("/proc/cmdline", Bytes{65536});
  const bool is_off = options.ok() && has_word(text::trim(options.value()), ' ', "swapaccount=0");
  return is_off ? SwapState::kUncounted : SwapState::kCounted;
}

std::string_view name(SwapState swap) {
  switch (swap) {
    case SwapState::kOff:
      return "off";
    case SwapState::kCounted:
      return "on, counted";
    case SwapState::kUncounted:
      return "on, not counted for cgroups";
  }
  return "";
}

std::string line_of(std::string_view name, const ControllerPlace& place) {
  if (!place.usable()) {
    return text::cat("cgroup ", name, ": none: ", place.cause, " (", place.fix, ")\n");
  }
  return text::cat(
      "cgroup ", name, ": ", place.version == CgroupVersion::kV1 ? "v1 " : "v2 ", place.dir, "\n");
}

}  // namespace

std::string CgroupLayout::to_text() const {
  return text::cat(line_of("memory", memory),
                   line_of("pids", pids),
                   line_of("cpu", cpu),
                   line_of("accounting", accounting),
                   line_of("freezer", freezer),
                   "swap: ",
                   name(swap),
                   "\n");
}

CgroupLayout find_cgroup_places(const CgroupView& view) {
  Finder finder(view);
  CgroupLayout out;
  out.memory = finder.find("memory", false);
  out.pids = finder.find("pids", false);
  out.cpu = finder.find("cpu", false);
  out.accounting = finder.find("cpuacct", true);
  out.freezer = finder.find("freezer", true);
  if (out.memory.version == CgroupVersion::kV1) out.cpuset = finder.find("cpuset", false);
  return out;
}

Result<CgroupLayout> probe_cgroups() {
  CgroupView view;
  SBX_ASSIGN(view.self_cgroup, fs::read_file("/proc/self/cgroup", Bytes{1U << 20U}));
  if (auto usual = usual_mounts(view.self_cgroup)) {
    view.mountinfo = *std::move(usual);
  } else {
    // The limit is for a host with tens of thousands of mounts; memory grows with what is there.
    SBX_ASSIGN(view.mountinfo, fs::read_file("/proc/self/mountinfo", Bytes{64U << 20U}));
  }
  view.uid = ::geteuid();
  view.is_root = view.uid == 0;
  view.shell = ::getppid();
  CgroupLayout layout = find_cgroup_places(view);
  if (layout.memory.usable()) layout.swap = find_swap(layout.memory);
  return layout;
}

}  // namespace sbx::confine
