// Jail launch: see jail_launch.h.
//
// Theory of operation. In this order:
//   1. begin(): clone3 into fresh user and pid namespaces; the child makes the other namespaces
//      itself, while we go on (a network namespace alone takes 0.3 ms)
//   2. claim ids and write the id maps from outside; read the host's tree, and with the Begin
//   message
//      PID 1 makes the base
//   3. launch(): make the cgroups; their name says whose they are, should we die here
//   4. open what the job's ids could not reach (root only), as detached mounts with mapped owners
//   5. send Setup with all descriptors; PID 1 does the rest, and its messages go to whoever holds
//      the Sandbox. Whatever fails on the way, the Sandbox's destructor ends the child.
#include "core/backend/jail/jail_launch.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/jail/base_plan.h"
#include "core/backend/jail/host_tree.h"
#include "core/backend/jail/jail.h"
#include "core/backend/jail/jail_codec.h"
#include "core/backend/jail/jail_init.h"
#include "core/backend/jail/jail_limits.h"
#include "core/backend/jail/kept_root.h"
#include "core/backend/jail/staged.h"
#include "core/backend/jail/tree_builder.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/idmap.h"
#include "core/confine/mount_exec.h"
#include "core/host/facts.h"
#include "core/host/paths.h"
#include "core/ipc/channel.h"

namespace sbx::jail {

namespace {

constexpr uint64_t kFirstNamespaces = CLONE_NEWUSER | CLONE_NEWPID;
constexpr int kOwnNamespaces =
    CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

[[noreturn]] void fail_in_init(const UniqueFd& link, std::string step, const Error& error) {
  ipc::Channel channel(UniqueFd(link.get()), ipc::Side::kAgent);
  (void)channel.send(ipc::SetupFailed{std::move(step), error.message(), error.sys_errno()});
  ::_exit(1);
}

/// Child side of InitMode::kExecClone: a read-only, detached clone of our own file is what runs, so
/// that neither /proc/self/exe nor anything else inside leads to the host's file through a mount
/// that could be written.
[[noreturn]] void exec_clone(const std::string& binary, const UniqueFd& link) {
  const Status done = [&]() -> Status {
    SBX_TRY(confine::MountExecutor::isolate());
    SBX_ASSIGN(const UniqueFd tree, sys::open_tree(AT_FDCWD, binary, OPEN_TREE_CLONE));
    mount_attr attr{};
    attr.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    SBX_TRY(sys::mount_setattr(tree.get(), "", AT_EMPTY_PATH, attr));
    SBX_ASSIGN(const struct stat now, sys::fstat(tree.get()));
    struct stat own {};
    if (::stat("/proc/self/exe", &own) != 0 || own.st_dev != now.st_dev ||
        own.st_ino != now.st_ino) {
      return Error(Errc::kDenied, text::cat(binary, " was replaced while sbx started"));
    }
    // An exec as a non-zero id drops capabilities; ambient ones stay (capabilities(7)).
    std::array<__user_cap_data_struct, 2> caps{};
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    if (::syscall(SYS_capget, &header, caps.data()) != 0) return sys_error("capget");
    for (__user_cap_data_struct& word : caps) {
      word.inheritable = word.permitted;
    }
    if (::syscall(SYS_capset, &header, caps.data()) != 0) return sys_error("capset");
    for (unsigned long cap = 0; cap <= CAP_LAST_CAP; ++cap) {
      (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
    }
    SBX_TRY(sys::dup_onto(link.get(), kLinkFd, false));
    std::string name = "sbx";
    std::string role = kInitRole;
    const std::array<char*, 3> argv{name.data(), role.data(), nullptr};
    const std::array<char*, 1> env{nullptr};
    return sys::execveat(tree.get(), "", argv.data(), env.data(), AT_EMPTY_PATH);
  }();
  fail_in_init(link, "run PID 1 from a read-only clone of sbx", done.error());
}

bool can_others_read(int mount) {
  const Result<struct stat> info = sys::fstat(mount);
  if (!info.ok()) return false;
  return !S_ISDIR(info.value().st_mode) && (info.value().st_mode & S_IROTH) != 0;
}

/// A detached mount of a node of our own for the host's device `path`, which belongs to `owner`: a
/// device cannot be given to ids of the job's (devtmpfs maps none), nor should the host's be. The
/// node has to have a name until PID 1 has mounted it (move_mount(2) of a removed file: ENOENT), so
/// its directory goes with the jail.
Result<UniqueFd> open_own_device(Jail& jail,
                                 const std::string& path,
                                 const std::string& state_dir,
                                 const backend::User& owner) {
  SBX_ASSIGN(const struct stat info, sys::fstatat(AT_FDCWD, path, 0));
  if (!S_ISCHR(info.st_mode)) return Error(Errc::kUnsupported, text::cat(path, " is no device"));
  SBX_ASSIGN(ThrowawayLayer place, ThrowawayLayer::make(state_dir));
  SBX_ASSIGN(const UniqueFd dir, fs::open_dir(place.path()));
  constexpr const char* kName = "node";
  if (::mknodat(dir.get(), kName, S_IFCHR | 0600, info.st_rdev) != 0) {
    return sys_error(text::cat("make a node of ", path, " in ", state_dir));
  }
  SBX_TRY(sys::fchownat(dir.get(), kName, owner.uid, owner.gid, AT_SYMLINK_NOFOLLOW));
  struct statvfs mount {};
  if (::fstatvfs(dir.get(), &mount) == 0 && (mount.f_flag & ST_NODEV) != 0) {
    return Error(Errc::kUnsupported,
                 text::cat("no device can be used on the file system of ", state_dir, " (nodev)"))
        .with_hint("set SBX_STATE_DIR to a directory of another file system");
  }
  SBX_ASSIGN(UniqueFd node, sys::open_tree(dir.get(), kName, OPEN_TREE_CLONE));
  jail.hold(std::move(place));
  return node;
}

struct OpenedSources {
  std::vector<UniqueFd> mounts;
  std::vector<backend::InputMount> copies;
};

/// Opens the sources that only the parent can reach, owners mapped to the job. An input whose file
/// system cannot map owners is left to be copied: its Bind goes from the plan.
Result<OpenedSources> open_sources(Jail& jail, JailPlan& plan, const backend::User& job_on_host) {
  OpenedSources out;
  std::vector<size_t> dropped;
  for (size_t i = 0; i < plan.sources.size(); ++i) {
    const SourceMount& source = plan.sources[i];
    if (source.is_device) {
      SBX_ASSIGN(UniqueFd device, open_own_device(jail, source.path, plan.state_dir, job_on_host));
      out.mounts.push_back(std::move(device));
      continue;
    }
    SBX_ASSIGN(UniqueFd mount, confine::open_source(source.path, source.beneath));
    const Status mapped = map_owner(mount.get(), job_on_host);
    if (!mapped.ok() && !(source.mode == confine::BindMode::kReadOnly &&
                          (plan.is_alone || can_others_read(mount.get())))) {
      if (!source.is_input) {
        return Error(Errc::kUnsupported,
                     text::cat("mount ",
                               source.path,
                               ": its file system cannot map owners: ",
                               mapped.error().message()))
            .with_hint("copy it in with -i, or run sbx as the owner of the files");
      }
      out.copies.push_back(plan.inputs[i]);
      dropped.push_back(i);
    }
    out.mounts.push_back(std::move(mount));
  }
  for (const size_t source : dropped) {
    const auto at =
        std::find_if(plan.steps.begin(), plan.steps.end(), [source](const confine::Step& step) {
          const auto* bind = std::get_if<confine::Bind>(&step);
          return bind != nullptr && bind->source_fd == static_cast<int32_t>(source);
        });
    // With the empty object that the bind would cover, made by the step before it.
    plan.steps.erase(at - 1, at + 1);
  }
  return out;
}

struct Child {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd link;  ///< host end
};

/// `group`: a v2 cgroup that PID 1 starts in, or -1.
Result<Child> clone_init(const JailBasics& basics, InitMode init, int group) {
  SBX_ASSIGN(sys::SocketPair pair, sys::socketpair_seqpacket());
  int pidfd = -1;
  clone_args args{};
  args.flags = kFirstNamespaces | CLONE_PIDFD | CLONE_CLEAR_SIGHAND;
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  if (group >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<__u64>(group);
  }
  Result<pid_t> pid = sys::clone3(args);
  if (!pid.ok()) {
    return host::explain_userns_failure(pid.error().sys_errno());
  }
  if (pid.value() == 0) {
    pair.a.reset();
    if (const Status made = sys::unshare(kOwnNamespaces); !made.ok()) {
      fail_in_init(pair.b, "make namespaces", made.error());
    }
    if (init == InitMode::kExecClone) exec_clone(basics.binary, pair.b);
    jail_init_main(std::move(pair.b));
  }
  sys::move_from_our_cpu(pid.value());
  return Child{pid.value(), UniqueFd(pidfd), std::move(pair.a)};
}

Status explained(Status mapped) {
  if (mapped.ok()) return mapped;
  return host::explain_userns_failure(mapped.error().sys_errno());
}

Status write_maps(const JailBasics& basics,
                  pid_t pid,
                  const std::optional<confine::IdRange>& range) {
  if (range.has_value()) {
    const confine::IdMap map{0, range->base(), confine::IdRange::kCount};
    return explained(confine::write_idmaps(pid, {&map, 1}, {&map, 1}, false));
  }
  if (basics.subids.has_value()) return confine::map_storage_ids(pid, *basics.subids);
  const confine::IdMap uid{kJobId, basics.own_uid, 1};
  const confine::IdMap gid{kJobId, basics.own_gid, 1};
  return explained(confine::write_idmaps(pid, {&uid, 1}, {&gid, 1}, true));
}

/// Bit n-1 for each signal n that this process ignores.
uint64_t ignored_signals() {
  uint64_t ignored = 0;
  for (int signo = 1; signo < NSIG; ++signo) {
    struct sigaction now {};
    if (::sigaction(signo, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) {
      ignored |= uint64_t{1} << (signo - 1);
    }
  }
  return ignored;
}

/// A PID 1 that has ended is no failure here: why is in its last message, which whoever holds the
/// Sandbox reads.
Status send_to_init(ipc::Channel& channel, const ipc::Message& message, std::span<const int> fds) {
  Status sent = channel.send(message, fds);
  if (!sent.ok() && ipc::is_other_side_gone(sent.error())) return {};
  return sent;
}

Status send_setup(ipc::Channel& channel,
                  const JailPlan& plan,
                  const confine::Cgroup& cgroup,
                  const std::optional<confine::IdRange>& range,
                  std::span<const UniqueFd> sources) {
  InitPlan init;
  init.rules = plan.rules;
  init.is_lasting = plan.is_lasting;
  std::vector<int> fds;
  for (const UniqueFd& fd : cgroup.join_fds()) {
    fds.push_back(fd.get());
  }
  init.join_fds = static_cast<uint32_t>(fds.size());
  if (cgroup.job_dir() >= 0) {
    fds.push_back(cgroup.job_dir());
    init.group_fds = 1;
  }
  if (range.has_value()) {
    fds.push_back(range->fd());
    init.held_fds = 1;
  }
  for (const UniqueFd& fd : sources) {
    fds.push_back(fd.get());
  }
  init.source_fds = static_cast<uint32_t>(sources.size());
  if (fds.size() > ipc::kMaxFds) {
    return Error(Errc::kUsage, "too many inputs and mounts")
        .with_hint("put them into one directory and pass that with -i");
  }
  return send_to_init(
      channel, ipc::Setup{ipc::kProtocolVersion, encode_init_plan(init, plan.steps)}, fds);
}

/// Gives `split` a kept root, and `mount` the mount of it where PID 1's ids could not open it.
Status share_root(Jail& jail, const JailBasics& basics, SplitBase& split, UniqueFd& mount) {
  SBX_ASSIGN(const std::string parent, host::kept_roots_dir());
  SBX_ASSIGN(KeptRootDir root, open_kept_root(parent, split.objects));
  split.kept.source = root.path;
  if (basics.has_id_range()) {
    SBX_ASSIGN(mount, sys::open_tree(root.held.get(), "", OPEN_TREE_CLONE | AT_EMPTY_PATH));
    split.kept.source_fd = 0;
  }
  jail.hold_root(std::move(root.held));
  return {};
}

/// Where there can be no kept root the root is a tmpfs, and all that is lost is time.
Status send_begin(Jail& jail,
                  const JailBasics& basics,
                  std::vector<confine::Step> base,
                  bool may_share_root) {
  UniqueFd mount;
  if (may_share_root) {
    SplitBase split = split_base(std::move(base));
    const bool is_shared = share_root(jail, basics, split, mount).ok();
    base = is_shared ? on_kept_root(std::move(split)) : on_own_root(std::move(split));
  }
  ipc::Begin message;
  message.has_id_range = basics.has_many_ids();
  message.ignored_signals = ignored_signals();
  message.base = encode_steps(base);
  const int fds[] = {mount.get()};
  return send_to_init(
      jail.channel(), message, mount.valid() ? std::span<const int>(fds) : std::span<const int>());
}

}  // namespace

class Begun {
 public:
  explicit Begun(std::unique_ptr<Jail> jail) : jail_(std::move(jail)) {}
  std::unique_ptr<Jail> take() { return std::move(jail_); }
  Jail& jail() { return *jail_; }

 private:
  std::unique_ptr<Jail> jail_;
};

void EndBegun::operator()(Begun* begun) const {
  delete begun;
}

Result<BegunPtr> begin_bare(const JailBasics& basics, InitMode init) {
  confine::Cgroup group = group_ahead();
  Result<Child> cloned = clone_init(basics, init, group.join_dir());
  if (!cloned.ok() && group.join_dir() >= 0) {  // then the program joins its group, later
    group = {};
    cloned = clone_init(basics, init, -1);
  }
  SBX_ASSIGN(Child child, std::move(cloned));
  ipc::Channel channel(std::move(child.link), ipc::Side::kHost);
  auto jail = std::make_unique<Jail>(std::move(channel), child.pid, std::move(child.pidfd));
  jail->hold(std::move(group));
  if (basics.has_id_range()) {
    SBX_ASSIGN(const std::string dir, host::id_claim_dir());
    SBX_ASSIGN(confine::IdRange range, confine::IdRange::claim(dir));
    jail->hold(std::move(range));
  }
  SBX_TRY(write_maps(basics, child.pid, jail->range()));
  return BegunPtr(new Begun(std::move(jail)));  // NOLINT(cppcoreguidelines-owning-memory)
}

Status give_base(Begun& begun, const JailBasics& basics, const BaseChoice& choice) {
  TreeBuilder base(confine::kKeepOwner);
  if (!choice.is_planned) {
    SBX_ASSIGN(const HostTree tree, read_host_tree());
    SBX_TRY(add_base(base, tree, choice.content));
  }
  return send_begin(begun.jail(), basics, base.take(), choice.may_share_root && !choice.is_planned);
}

Result<BegunPtr> begin(const JailBasics& basics, InitMode init, const BaseChoice& choice) {
  SBX_ASSIGN(BegunPtr begun, begin_bare(basics, init));
  SBX_TRY(give_base(*begun, basics, choice));
  return begun;
}

Result<std::unique_ptr<backend::Sandbox>> launch(JailPlan& plan, BegunPtr begun) {
  std::unique_ptr<Jail> jail = begun->take();
  SBX_TRY(set_limits(jail->cgroup(), plan));
  if (plan.is_lasting) jail->prepare_freezer();
  show_limits(jail->cgroup(), jail->pid(), plan);
  for (const confine::InForce& held : jail->cgroup().in_force()) {
    for (confine::InForce& expected : plan.expected) {
      if (expected.limit == held.limit) expected = held;
    }
  }
  const std::optional<confine::IdRange>& range = jail->range();
  jail->set_ids(plan.basics, {plan.rules.uid, plan.rules.gid});
  backend::User job_on_host{plan.basics.own_uid, plan.basics.own_gid};
  if (range.has_value()) {
    job_on_host = {range->base() + plan.rules.uid, range->base() + plan.rules.gid};
  }
  SBX_ASSIGN(OpenedSources sources, open_sources(*jail, plan, job_on_host));
  if (plan.image.has_value()) {
    plan.image->owner = range.has_value() ? range->base() : plan.basics.own_uid;
    sources.mounts.emplace_back();
    SBX_ASSIGN(sources.mounts.back(), confine::make_disk_image(*plan.image));
  }
  if (plan.base_at.has_value()) {
    SBX_ASSIGN(HeldLayer base, hold_base_layer(plan));
    set_staged(plan, *plan.base_at, base.path);
    jail->hold_root(std::move(base.held));
  }
  if (plan.throwaway_at.has_value()) {
    SBX_ASSIGN(ThrowawayLayer layer, ThrowawayLayer::make(plan.state_dir, plan.basics.subids));
    set_staged(plan, *plan.throwaway_at, layer.path());
    jail->hold(std::move(layer));
  }
  SBX_TRY(open_staged(plan, range, sources.mounts));
  SBX_TRY(send_setup(jail->channel(), plan, jail->cgroup(), range, sources.mounts));
  jail->set_copies(std::move(sources.copies));
  return std::unique_ptr<backend::Sandbox>(std::move(jail));
}

}  // namespace sbx::jail
