// Backend: the interface between what wants a sandbox and what makes one.
//
// A backend turns a request into a Plan (pure: no system call that changes anything, printable),
// a Plan is launched into a Sandbox, and a Sandbox is spoken to through its AgentLink. Sessions,
// runs and the command line see only these types.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "core/confine/cgroup.h"
#include "core/image/record.h"
#include "core/ipc/message.h"
#include "core/profile/profile.h"

namespace sbx::backend {

/// Size of a terminal in character cells.
struct TermSize {
  uint16_t rows = 24;
  uint16_t cols = 80;
};

/// Ids inside.
struct User {
  uint32_t uid = 0;
  uint32_t gid = 0;
};

/// One program to run inside. Everything is inside's view; nothing is resolved on the host.
struct ExecSpec {
  std::vector<std::string> argv;  ///< argv[0] is looked up in the PATH of `env` when it has no '/'
  std::vector<std::string> env;   ///< complete "NAME=value" list
  std::string cwd = "/work";
  bool is_last = false;         ///< the sandbox ends with this program, whatever it leaves running
  std::optional<TermSize> tty;  ///< set: a fresh pseudo terminal of this size becomes its stdio
  /// nullopt: the job's ids. Others only where a range of ids is mapped (root on the host), from
  /// that range; else the exec fails with the reason.
  std::optional<User> user;
  uint32_t tag = 0;  ///< the caller's own number of it, for ProcessInfo::exec_id; 0: exec()'s
};

/// Host ends of a program's standard streams. Owned by the receiver.
/// With a terminal, `in` and `out` are two descriptors of the pty master and `err` is invalid.
/// `in` is invalid when stdin was not asked for (the program reads /dev/null).
struct ExecStreams {
  UniqueFd in;
  UniqueFd out;
  UniqueFd err;
};

/// A host file or directory that the job sees read-only as /work/<name>.
struct InputMount {
  std::string host_path;  ///< absolute, symlinks already resolved by the caller
  std::string name;       ///< one path component, any bytes but '/' and NUL
  bool is_dir = false;
};

/// A small file made by sbx itself, placed read-only at `path` inside; never an artifact.
struct InputFile {
  std::string path;  ///< absolute inside path
  std::string content;
  bool operator==(const InputFile&) const = default;
};

/// The root file system of an image, in place of the host's tree.
struct ImageRoot {
  image::Record record;
  std::vector<std::string> layers;  ///< absolute layer directories (as WritableRoot), lowest first
  /// "fs/root" of each of `layers` is a file system of its own, mounted there, whose owners are as
  /// inside. Needs ids of a range.
  bool are_mounts = false;
  User user;                         ///< the image's; programs run as it
  std::vector<uint32_t> groups;      ///< its further groups
  std::vector<std::string> volumes;  ///< directories that have to be there: absolute, normalised
};

/// A root that keeps what is written to it (sessions): an overlay of layers. A layer is a directory
/// with `fs/PART` (content, as overlayfs keeps an upper) and, while it is somebody's upper,
/// `ovl/PART` (work directory); PART is "root", or "m-<hex>" of a host directory that is mounted
/// `overlay`. With ids of a range the content belongs to those of IdRange::kStorage.
struct WritableRoot {
  /// Absolute layer directories, lowest first: those of the image (LaunchRequest::image), if any,
  /// then the base (Backend::base_layer), then the root's own.
  std::vector<std::string> lowers;
  std::string upper;  ///< absolute; exists, ours alone, no other sandbox has it; `fs` and `ovl` are
                      ///< made when missing, `ovl` is made anew
};

/// A disk that holds all that a session's sandbox keeps: a file of this size, sparse, made when it
/// is not there. Only the inside ever reads what is in it.
struct StateDisk {
  std::string path;  ///< absolute
  Bytes size;
};

/// Everything a backend needs to know to plan one sandbox.
struct LaunchRequest {
  const profile::Profile* profile = nullptr;  ///< not owned; outlives the call
  std::string id;                             ///< names cgroups and claims; [a-z0-9-]
  std::string state_dir;                      ///< absolute; exists, 0700
  std::vector<InputMount> inputs;
  std::vector<InputFile> files;
  /// Character devices of the host (in /dev; one for now) that programs may use, at the same places
  /// inside. Only with the host's tree as a root that is thrown away.
  std::vector<std::string> devices;
  /// Nobody else's files are on this machine (a guest): what cannot be given the job's owners is
  /// shown read-only with those it has.
  bool is_alone = false;
  /// A session: it gets whatever pausing and counting need, and its programs are apart from PID 1.
  bool is_lasting = false;
  /// nullopt: a root that is thrown away, /work on a tmpfs. With an image and no `root` the backend
  /// makes an upper for it that goes with the sandbox.
  std::optional<WritableRoot> root;
  std::optional<ImageRoot> image;
  /// A session of a backend that keeps files on a disk of its own (Backend::keeps_disk), in place
  /// of `root`.
  std::optional<StateDisk> disk;
};

/// The message channel to the agent (PID 1 inside) of one sandbox.
class AgentLink {
 public:
  AgentLink() = default;
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;
  virtual ~AgentLink() = default;
  /// Pollable: readable when receive() has something (a message or the end).
  virtual int fd() const = 0;
  /// Sends one message; descriptors in it are duplicated to the other side (jail only).
  virtual Status send(const ipc::Message& message, std::span<const int> fds) = 0;
  /// Next message; kNotFound when there is none now, kProtocol at the end or on rubbish.
  virtual Result<ipc::Received> receive() = 0;
};

/// What a sandbox uses now. A value is missing where nothing counts it.
struct LiveUsage {
  std::optional<uint64_t> cpu_ns;
  std::optional<uint64_t> memory;       ///< bytes
  std::optional<uint64_t> memory_peak;  ///< bytes
  std::optional<uint64_t> processes;    ///< PID 1 is not counted
  std::optional<uint64_t> read_bytes;   ///< from block devices
  std::optional<uint64_t> write_bytes;  ///< to block devices
  /// No group counts CPU time and memory here: they are sums over the processes that live now.
  /// Memory that several share counts for each, what has ended counts no more.
  bool is_summed = false;
  /// The same of the bytes read and written.
  bool is_io_summed = false;
};

/// One process inside, as the host sees it.
struct ProcessInfo {
  int32_t pid = 0;       ///< inside
  int32_t host_pid = 0;  ///< as the supervisor sees it; may be gone by the time it is read
  int32_t parent = 0;    ///< inside; 0 when it is not of this sandbox (any more)
  int32_t session = 0;   ///< inside: the pid of the program that began its session; 0 unknown
  uint32_t uid = 0;      ///< inside; 65534 for an id that is not mapped
  char state = '?';      ///< as in proc_pid_stat(5): R, S, D, T, t, Z, I, X
  std::optional<uint32_t> exec_id;  ///< of the exec that it came from, where that is known
  uint64_t memory = 0;              ///< resident bytes
  uint64_t cpu_ns = 0;
  uint64_t started_ns = 0;  ///< CLOCK_BOOTTIME; with `host_pid` it identifies the process
  /// Its arguments with spaces between; any bytes but NUL, at most kMaxCommand. Empty: none to
  /// be read (a zombie), then `name`.
  std::string command;
  std::string name;  ///< at most 15 bytes, any of them
};
inline constexpr size_t kMaxCommand = 4096;
/// Most processes that processes() reports.
inline constexpr size_t kMaxProcesses = 10'000;

/// What a sandbox leaves behind for the report, read after its end.
struct FinalState {
  uint64_t oom_kills = 0;
  uint64_t pids_denied = 0;
  confine::Usage usage;
  /// Of the place of /work at the end, where Ready brought no descriptor of it.
  bool disk_is_full = false;
  bool inodes_are_up = false;
};

/// One running instance. The destructor kills it and removes what finish() did not.
class Sandbox {
 public:
  Sandbox() = default;
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;
  virtual ~Sandbox() = default;
  virtual AgentLink& agent() = 0;
  /// Pollable: readable once PID 1 has ended.
  virtual int exit_fd() const = 0;
  /// Host ids that own the pipes of a program that runs as `user` (nullopt: as the job), so that it
  /// may reopen them; nullopt: leave them as they are.
  virtual std::optional<User> stream_owner(const std::optional<User>& user) const = 0;
  /// Ends every process at once (SIGKILL to PID 1). Does not wait.
  virtual Status kill() = 0;
  /// CPU time that the job has used up to now, in ns; kUnsupported when nothing counts it.
  virtual Result<uint64_t> cpu_time() const = 0;
  /// How many processes the memory limit has ended so far; 0 when nothing counts them.
  virtual Result<uint64_t> oom_kills() const = 0;
  virtual Result<LiveUsage> usage() const = 0;
  /// All processes inside but PID 1, by pid, at most kMaxProcesses. Asks nothing of the inside, so
  /// it works whatever state that is in; those that end meanwhile are left out.
  virtual Result<std::vector<ProcessInfo>> processes() const = 0;

  /// Whether the host can stop the payload without the agent.
  virtual bool has_freezer() const = 0;
  /// Begins to stop the payload or lets it go on; does not wait. To be called again while it is not
  /// done (a cgroup v1 overlooks some). kUnsupported without has_freezer().
  virtual Status set_frozen(bool is_frozen) = 0;
  /// Whether that has happened to every process of the payload.
  virtual Result<bool> is_frozen_as(bool is_frozen) const = 0;
  /// Lets those of a stopped payload end that SIGKILL was sent to (a cgroup v1 does not by itself).
  /// Nothing else runs a single instruction. Cheap where there is nothing to do.
  virtual Status release_killed() = 0;

  /// Waits until the namespace is empty (bounded), reads counters, removes cgroups and claims.
  virtual Result<FinalState> finish() = 0;
  /// What was left in /work, where Ready brought no descriptor of it: a directory of the host, gone
  /// with this object. Once, after finish(). Everything in it is hostile. Blocks as long as it
  /// takes to copy; kNotFound when the inside ended before it could be asked.
  virtual Result<UniqueFd> fetch_work() {
    return Error(Errc::kUnsupported, "the sandbox has no /work to be fetched");
  }
  /// Inputs that could not be mounted and must be copied into /work before the first exec.
  virtual std::span<const InputMount> copies_needed() const = 0;
};

/// What may be known of a request before it was read.
struct HeadRequest {
  std::vector<InputFile> files;  ///< those that every sandbox gets
  bool has_mounts = false;       ///< it may want mounts of the user's at places of their own
};

/// A sandbox that was begun before its plan is known. Destroying it ends it.
class HeadStart {
 public:
  HeadStart() = default;
  HeadStart(const HeadStart&) = delete;
  HeadStart& operator=(const HeadStart&) = delete;
  virtual ~HeadStart() = default;
};

/// A launch that is decided but not done.
class Plan {
 public:
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  virtual ~Plan() = default;
  /// One line per step, in order: what `--dry-run` prints and tests compare.
  virtual std::string to_text() const = 0;
  /// Limits that will be in force, with mechanism; valid before launch for the dry run,
  /// and read back from the kernel after it.
  virtual std::vector<confine::InForce> limits() const = 0;
  /// CPU time of all processes together to end the job at; nullopt when there is no such limit, or
  /// when the kernel holds each process to it.
  virtual std::optional<Millis> cpu_time() const = 0;
  /// Sentences for the user, e.g. that a shipped default is only approximated here.
  virtual std::vector<std::string> warnings() const = 0;
  /// Starts it, from `head` when that is not null and fits (else `head` is ended). May be called
  /// once.
  virtual Result<std::unique_ptr<Sandbox>> launch(std::shared_ptr<HeadStart> head) = 0;
};

/// One row of the table of backends.
struct Backend {
  std::string_view name;
  /// Begins in the background what every usual sandbox has in common, so that it goes on while the
  /// caller reads its command line, profile and inputs. A failure shows in launch().
  std::shared_ptr<HeadStart> (*begin)(HeadRequest request);
  Result<std::unique_ptr<Plan>> (*plan)(const LaunchRequest&);
  /// The frozen layer with what a sandbox of the request's profile has in its root, besides the
  /// image or the host's tree, below `layers_dir`
  /// (ours alone): made when it is not there (some 10 ms), else found (1 ms). Returns its name,
  /// "base-<hex>". `request.root` is not looked at. Whoever removes layers spares names that begin
  /// with '.' as long as they are locked (flock(2)).
  Result<std::string> (*base_layer)(const LaunchRequest& request, const std::string& layers_dir);
  /// Sessions keep their files on a disk (LaunchRequest::disk) and not in layers of the host's.
  bool keeps_disk = false;
};

/// Chosen backend and why, for the result object.
struct Choice {
  const Backend* backend = nullptr;
  std::string reason;
};

/// Picks the row for `profile.isolation`; kUnsupported with the fix when this host cannot. Only
/// `auto` goes from one to another, and says why. `state_dir` is where guest kernels are.
Result<Choice> choose(const profile::Profile& profile, const std::string& state_dir);
/// The row of the jail, which is there on every host.
const Backend& jail_backend();
/// The row of that name, as Choice::backend->name said it; null for none.
const Backend* find_backend(std::string_view name);

}  // namespace sbx::backend
