// What mounts and devices a user namespace gives: overlay, veth, and idmapped mounts (root's).
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/mount.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/veth.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/idmap.h"
#include "core/host/facts.h"
#include "core/host/probes.h"

// <sys/mount.h> cannot be included beside <linux/mount.h> (glibc 2.36).
extern "C" int mount(const char*, const char*, const char*, unsigned long, const void*) noexcept;

namespace sbx::host {
namespace {

constexpr unsigned long kPrivate = (1UL << 14U) | (1UL << 18U);  // MS_REC | MS_PRIVATE
constexpr int kMountStep = 3;
constexpr int kFirstUse = 4;

bool write_file(const char* path) noexcept {
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool done = ::write(fd, "x", 1) == 1;
  ::close(fd);
  return done;
}

/// In the current directory: layers, and all that a program may do in a merged tree. `rm -r` of a
/// directory and making it again needs user.overlay.* attributes on the upper file system.
TrialEnd use_overlay(const char* options) noexcept {
  for (const char* const dir : {"lower", "lower/d", "upper", "work", "merged"}) {
    if (::mkdir(dir, 0700) != 0) return {2, errno};
  }
  if (!write_file("lower/f") || !write_file("lower/d/g")) return {2, errno};
  if (::mount("overlay", "merged", "overlay", 0, options) != 0) return {kMountStep, errno};
  if (!write_file("merged/f") || !write_file("merged/new")) return {kFirstUse, errno};
  if (::unlink("merged/f") != 0) return {kFirstUse + 1, errno};
  if (::unlink("merged/d/g") != 0 || ::rmdir("merged/d") != 0) return {kFirstUse + 2, errno};
  if (::mkdir("merged/d", 0700) != 0) return {kFirstUse + 3, errno};
  if (::access("merged/d/g", F_OK) == 0) return {kFirstUse + 4, EEXIST};
  return {};
}

TrialEnd try_overlay() noexcept {
  if (::mount("none", "/", nullptr, kPrivate, nullptr) != 0) return {1, errno};
  if (::mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) != 0 || ::chdir("/tmp") != 0) return {1, errno};
  return use_overlay("lowerdir=lower,upperdir=upper,workdir=work,userxattr");
}

/// A pair of devices, asked for with one netlink message.
TrialEnd try_veth() noexcept {
  struct Request {
    nlmsghdr header;
    ifinfomsg info;
    rtattr link_info;
    rtattr kind;
    std::array<char, 8> name;
  };
  Request request{};
  request.header.nlmsg_type = RTM_NEWLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
  constexpr std::size_t kKindLength = RTA_LENGTH(sizeof "veth");
  request.kind.rta_type = IFLA_INFO_KIND;
  request.kind.rta_len = kKindLength;
  std::memcpy(request.name.data(), "veth", sizeof "veth");
  request.link_info.rta_type = IFLA_LINKINFO;
  request.link_info.rta_len = RTA_LENGTH(RTA_ALIGN(kKindLength));
  request.header.nlmsg_len = sizeof request;
  const int netlink = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (netlink < 0) return {1, errno};
  if (::send(netlink, &request, sizeof request, 0) < 0) return {2, errno};
  struct Answer {
    nlmsghdr header;
    nlmsgerr error;
  };
  std::array<char, 4096> buffer{};
  const ssize_t got = ::recv(netlink, buffer.data(), buffer.size(), 0);
  if (got < static_cast<ssize_t>(sizeof(Answer))) return {2, got < 0 ? errno : EPROTO};
  Answer answer{};
  std::memcpy(&answer, buffer.data(), sizeof answer);
  if (answer.header.nlmsg_type != NLMSG_ERROR) return {2, EPROTO};
  return {answer.error.error == 0 ? 0 : 3, -answer.error.error};
}

/// A detached mount of `path` whose owner is another one; nothing sees it.
Status map_mount_of(const std::string& path) {
  const confine::IdMap map{0, confine::IdRange::kFirst, 1};
  SBX_ASSIGN(const UniqueFd userns, confine::idmap_userns({&map, 1}, {&map, 1}));
  SBX_ASSIGN(const UniqueFd tree, sys::open_tree(AT_FDCWD, path, OPEN_TREE_CLONE));
  mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_IDMAP;
  attr.userns_fd = static_cast<__u64>(userns.get());
  const Status mapped = sys::mount_setattr(tree.get(), "", AT_EMPTY_PATH, attr);
  if (mapped.ok()) return {};
  return sys_error(text::cat("map the owner of a mount of ", path), mapped.error().sys_errno());
}

}  // namespace

Finding check_overlay(const DoctorContext& /*context*/) {
  const std::string tried =
      "mounted an overlay (userxattr) on a tmpfs in a user namespace; wrote, removed, rm -r, mkdir";
  const auto end = try_in_namespaces(CLONE_NEWUSER | CLONE_NEWNS, try_overlay);
  if (!end.ok()) return missing(tried, end.error());
  const auto [step, err] = end.value();
  if (step == 0) return works(tried);
  if (step == kMountStep) {
    return missing(tried,
                   explain_mount_failure("mount an overlay in a user namespace", err).message(),
                   "use Linux 5.11 or later with the overlay module: modprobe overlay");
  }
  if (step > kMountStep) {
    return weak(tried,
                sys_error("change a merged directory", err).message() +
                    " (this kernel's tmpfs keeps no user attributes)",
                "use Linux 6.6 or later; until then layers need a directory on a disk");
  }
  return missing(tried, explain_mount_failure("mount tmpfs on /tmp", err));
}

Finding check_veth(const DoctorContext& /*context*/) {
  const std::string tried = "made a veth pair in a fresh network namespace";
  const auto end = try_in_namespaces(CLONE_NEWUSER | CLONE_NEWNET, try_veth);
  if (!end.ok()) return missing(tried, end.error());
  if (end.value().step == 0) return works(tried);
  const int err = end.value().err;
  return missing(tried,
                 sys_error("make a veth pair", err).message(),
                 err == EOPNOTSUPP ? "as root: modprobe veth (or a kernel with CONFIG_VETH)" : "");
}

Finding check_idmapped(const DoctorContext& context) {
  if (!context.files.is_root) return plays_no_part("only root's sandboxes have ids of their own");
  if (!Facts().may_map_id_ranges()) {
    return plays_no_part("root of this user namespace may not map ids");
  }
  std::vector<std::string> places{"/tmp", "."};
  if (const auto state = open_state_dir(context.paths); state.ok()) {
    places.push_back(state.value().path);
  }
  const std::string tried =
      text::cat("mapped the owner of a detached mount of ", text::join(places, ", "));
  for (const std::string& place : places) {
    const Status mapped = map_mount_of(place);
    if (mapped.ok()) continue;
    return weak(tried,
                mapped.error().message(),
                "files there are copied in where others may not read them; use a file system that "
                "can map owners (ext4, xfs, btrfs; tmpfs from Linux 6.3)");
  }
  return works(tried);
}

}  // namespace sbx::host
