// Which limits control groups hold here: a group is made, the limit written and read back, and the
// group removed, for each controller apart.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/cgroup.h"
#include "core/host/facts.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

using confine::Cgroup;
using confine::CgroupLayout;
using confine::CgroupRequest;
using confine::CgroupVersion;
using confine::ControllerPlace;

/// Makes a group as `request` says, lets `use` try it, removes it.
Finding try_group(const DoctorContext& context,
                  std::string_view what,
                  ControllerPlace CgroupLayout::*place_of,
                  CgroupRequest request,
                  const std::function<Status(Cgroup&)>& use) {
  const Result<CgroupLayout>& layout = context.cgroups;
  if (!layout.ok()) return missing("read what is mounted", layout.error());
  const ControllerPlace& place = layout.value().*place_of;
  if (!place.usable()) return missing("looked for a place to make groups", place.cause, place.fix);
  const std::string tried = text::cat("cgroup ",
                                      place.version == CgroupVersion::kV1 ? "v1" : "v2",
                                      ": ",
                                      what,
                                      " in a new group below ",
                                      place.dir);
  auto id = confine::cgroup_id();
  if (!id.ok()) return missing(tried, id.error());
  request.id = std::move(id).value();
  auto group = Cgroup::create(layout.value(), request);
  if (!group.ok()) return missing(tried, group.error());
  if (const Status used = use(group.value()); !used.ok()) return missing(tried, used.error());
  for (const confine::InForce& held : group.value().in_force()) {
    if (!held.approximate) continue;
    return weak(tried,
                text::cat(held.mechanism, ": memory can leave the group for swap space"),
                "turn swap off (swapoff -a), or boot with swapaccount=1");
  }
  if (const Status gone = group.value().remove(); !gone.ok()) return missing(tried, gone.error());
  return works(tried);
}

Status nothing_more(Cgroup& /*group*/) {
  return {};
}

/// Connects to a UNIX socket.
Status connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return sys_error(text::cat("connect to ", path), ENAMETOOLONG);
  }
  std::memcpy(static_cast<char*>(address.sun_path), path.data(), path.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return sys_error("make a socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return {};
  }
  return sys_error(text::cat("connect to ", path), errno);
}

}  // namespace

Finding check_cgroup_memory(const DoctorContext& context) {
  CgroupRequest request;
  request.memory = Bytes{64U << 20U};
  return try_group(context,
                   "wrote and read back a memory limit",
                   &CgroupLayout::memory,
                   std::move(request),
                   nothing_more);
}

Finding check_cgroup_pids(const DoctorContext& context) {
  CgroupRequest request;
  request.pids = 64;
  return try_group(context,
                   "wrote and read back a limit on processes",
                   &CgroupLayout::pids,
                   std::move(request),
                   nothing_more);
}

Finding check_cgroup_cpu(const DoctorContext& context) {
  CgroupRequest request;
  request.cpu_millis = 500;
  return try_group(context,
                   "wrote and read back a processor quota",
                   &CgroupLayout::cpu,
                   std::move(request),
                   nothing_more);
}

Finding check_cgroup_freezer(const DoctorContext& context) {
  CgroupRequest request;
  request.freezer = true;
  return try_group(context,
                   "froze and thawed",
                   &CgroupLayout::freezer,
                   std::move(request),
                   [](Cgroup& group) -> Status {
                     SBX_TRY(group.freeze());
                     return group.thaw();
                   });
}

Finding check_systemd_user(const DoctorContext& context) {
  if (context.files.is_root) return plays_no_part("root makes its control groups itself");
  if (::access(text::cat(context.files.root, "/run/systemd/system").c_str(), F_OK) != 0) {
    return plays_no_part("systemd does not run this host");
  }
  const std::string runtime =
      context.paths.env("XDG_RUNTIME_DIR").value_or(text::cat("/run/user/", context.paths.uid));
  const std::string bus = text::cat(context.files.root, runtime, "/bus");
  const Status connected = connect_to(bus);
  if (connected.ok()) return works(text::cat("connected to ", bus));
  return weak("connected to the user's bus",
              connected.error().message(),
              text::cat("log in through a session of systemd (ssh, machinectl shell), or as root: "
                        "loginctl enable-linger ",
                        context.paths.uid));
}

}  // namespace sbx::host
