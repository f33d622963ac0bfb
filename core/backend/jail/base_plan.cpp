// Base plan: see base_plan.h.
//
// Theory of operation. The order of the steps is security:
//   1. a fresh tmpfs is the root; nothing of the host is in it but what a step puts there
//   2. the host's /usr, the allowed part of /etc and a handful of device nodes, all read-only
//   3. empty places for what the job's own plan brings
//   4. proc, with what tells of the host or talks to its kernel masked
#include "core/backend/jail/base_plan.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/confine/mount_op.h"

namespace sbx::jail {

namespace {

using confine::Bind;
using confine::BindKind;
using confine::BindMode;

constexpr Bytes kRootSize{uint64_t{48} << 20};

constexpr auto kDevices = std::to_array<std::string_view>(
    {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"});

constexpr auto kMasked = std::to_array<std::string_view>({"/proc/acpi",
                                                          "/proc/asound",
                                                          "/proc/kallsyms",
                                                          "/proc/kcore",
                                                          "/proc/key-users",
                                                          "/proc/keys",
                                                          "/proc/latency_stats",
                                                          "/proc/sched_debug",
                                                          "/proc/scsi",
                                                          "/proc/sysrq-trigger",
                                                          "/proc/timer_list"});

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    "sbx:x:1000:1000:sbx:/home/sbx:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
constexpr std::string_view kGroup = "root:x:0:\ntty:x:5:\nsbx:x:1000:\nnogroup:x:65534:\n";
constexpr std::string_view kNsswitch =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
    "protocols: files\nservices: files\nethers: files\nrpc: files\n";

Status add_host_entry(TreeBuilder& builder, const HostEntry& entry) {
  if (entry.kind == EntryKind::kLink) {
    builder.add_link(entry.path, entry.text);
    return {};
  }
  if (entry.is_copied) return builder.add_file(entry.path, entry.text);
  Bind bind;
  bind.source = entry.path;
  bind.path = entry.path;
  bind.kind = entry.kind == EntryKind::kDir ? BindKind::kDir : BindKind::kFile;
  return builder.add_bind(std::move(bind));
}

Status add_devices(TreeBuilder& builder) {
  builder.add_dir("/dev");
  for (const std::string_view device : kDevices) {
    Bind bind;
    bind.source = device;
    bind.path = device;
    bind.kind = BindKind::kDevice;
    bind.mode = BindMode::kReadWrite;
    SBX_TRY(builder.add_bind(std::move(bind)));
  }
  builder.add_dir("/dev/pts");
  builder.add(confine::DevPts{"/dev/pts"});
  builder.add_link("/dev/ptmx", "pts/ptmx");
  builder.add_link("/dev/fd", "/proc/self/fd");
  builder.add_link("/dev/stdin", "/proc/self/fd/0");
  builder.add_link("/dev/stdout", "/proc/self/fd/1");
  builder.add_link("/dev/stderr", "/proc/self/fd/2");
  builder.add_dir("/dev/shm");
  return {};
}

/// Places for the job's cgroups, empty unless limits are shown.
void add_cgroup_places(TreeBuilder& builder) {
  for (const std::string_view dir : {"/sys",
                                     "/sys/fs",
                                     "/sys/fs/cgroup",
                                     "/sys/fs/cgroup/cpu",
                                     "/sys/fs/cgroup/cpuacct",
                                     "/sys/fs/cgroup/cpuset",
                                     "/sys/fs/cgroup/memory"}) {
    builder.add_dir(std::string(dir));
  }
}

Status add_names(TreeBuilder& builder, const BaseContent& content) {
  SBX_TRY(builder.add_file("/etc/resolv.conf", {}));
  SBX_TRY(builder.add_file("/etc/hostname", content.hostname + "\n"));
  return builder.add_file("/etc/hosts",
                          text::cat("127.0.0.1 localhost ", content.hostname, "\n::1 localhost\n"));
}

void add_proc(TreeBuilder& builder) {
  builder.add_dir("/proc");
  builder.add(confine::Proc{"/proc"});
  for (const std::string_view path : kMasked) {
    builder.add(confine::Mask{std::string(path)});
  }
}

Status add_own_files(TreeBuilder& builder, const BaseContent& content) {
  for (const backend::InputFile& file : content.files) {
    SBX_TRY(builder.add_file(file.path, file.content));
  }
  return {};
}

}  // namespace

Status add_base(TreeBuilder& builder, const HostTree& tree, const BaseContent& content) {
  builder.add(confine::NewRoot{kRootSize});
  builder.add_dir("/etc");
  for (const HostEntry& entry : tree.top) {
    SBX_TRY(add_host_entry(builder, entry));
  }
  for (const HostEntry& entry : tree.etc) {
    SBX_TRY(add_host_entry(builder, entry));
  }
  SBX_TRY(builder.add_file("/etc/passwd", std::string(kPasswd)));
  SBX_TRY(builder.add_file("/etc/group", std::string(kGroup)));
  SBX_TRY(builder.add_file("/etc/nsswitch.conf", std::string(kNsswitch)));
  SBX_TRY(add_names(builder, content));
  SBX_TRY(add_devices(builder));
  for (const std::string_view dir : {"/work", "/tmp", "/home", "/home/sbx", "/var", "/run"}) {
    builder.add_dir(std::string(dir));
  }
  add_cgroup_places(builder);
  builder.add_link("/var/tmp", "/tmp");
  SBX_TRY(add_own_files(builder, content));
  add_proc(builder);
  builder.add(confine::Loopback{});
  return {};
}

Status add_image_base(TreeBuilder& builder, const BaseContent& content) {
  builder.add_dir("/etc");
  SBX_TRY(add_names(builder, content));
  SBX_TRY(add_devices(builder));
  builder.add_dir("/work");
  builder.add_dir("/tmp");
  add_cgroup_places(builder);
  SBX_TRY(add_own_files(builder, content));
  add_proc(builder);
  builder.add(confine::Loopback{});
  return {};
}

}  // namespace sbx::jail
