// Exec: see exec.h.
#include "core/agent/exec.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/agent/pty.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/caps.h"
#include "core/confine/landlock.h"
#include "core/confine/rlimits.h"
#include "core/confine/seccomp.h"

namespace sbx::agent {

namespace {

enum class Stage : uint32_t {
  kSession,
  kTerminal,
  kStdio,
  kCgroup,
  kWorkdir,
  kLimits,
  kIds,
  kCapabilities,
  kLandlock,
  kSeccomp,
  kOwnBinary,
  kInterpreter,
  kExec,
};

/// Number of the first descriptor behind the three streams.
constexpr int kFirstMoreFd = 3;

struct ExecReport {
  Stage stage;
  int32_t error;
  uint32_t candidate;
};

/// All that the child needs, made before the fork.
struct ChildPlan {
  std::vector<char*> argv;
  std::vector<char*> env;
  std::vector<const char*> candidates;
  const char* cwd = nullptr;
  std::array<int, 3> stdio{-1, -1, -1};
  std::span<const UniqueFd> more;  ///< each above all numbers that they are to have
  bool has_terminal = false;
  int report_fd = -1;
  std::span<const UniqueFd> join_fds;
  int group = -1;
  const PayloadRules* rules = nullptr;
  FileId own_binary;
};

[[noreturn]] void fail_in_child(const ChildPlan& plan,
                                Stage stage,
                                int error,
                                uint32_t candidate = 0) noexcept {
  const ExecReport report{stage, error, candidate};
  (void)!::write(plan.report_fd, &report, sizeof report);
  ::_exit(127);
}

/// PID 1 has reset all dispositions and sets none, so only the mask is left.
void unblock_signals_in_child() noexcept {
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void take_stdio_in_child(const ChildPlan& plan) noexcept {
  if (::setsid() < 0) fail_in_child(plan, Stage::kSession, errno);
  if (plan.has_terminal && ::ioctl(plan.stdio[0], TIOCSCTTY, 0) != 0) {
    fail_in_child(plan, Stage::kTerminal, errno);
  }
  // The agent's own 0, 1 and 2 are open, so no source lies below 3 and none is overwritten.
  for (int i = 0; i < 3; ++i) {
    if (::dup2(plan.stdio[static_cast<size_t>(i)], i) < 0) {
      fail_in_child(plan, Stage::kStdio, errno);
    }
  }
}

void join_cgroup_in_child(const ChildPlan& plan) noexcept {
  // Cloned into a group below the one that PID 1 and the view at /sys/fs/cgroup have: it sees
  // itself at the top ("/"), where its limits are, and cannot leave.
  if (plan.group >= 0 && ::unshare(CLONE_NEWCGROUP) != 0) {
    fail_in_child(plan, Stage::kCgroup, errno);
  }
  for (const UniqueFd& fd : plan.join_fds) {
    ssize_t written = -1;
    do {
      written = ::write(fd.get(), "0", 1);
    } while (written < 0 && errno == EINTR);
    if (written != 1) fail_in_child(plan, Stage::kCgroup, errno);
  }
}

/// Whatever the agent has at these numbers is not needed any more, the report pipe lies above.
void take_more_fds_in_child(const ChildPlan& plan) noexcept {
  int to = kFirstMoreFd;
  for (const UniqueFd& fd : plan.more) {
    if (::dup2(fd.get(), to++) < 0) fail_in_child(plan, Stage::kStdio, errno);
  }
  // Everything else goes at exec; the report pipe is close-on-exec already.
  const auto first = static_cast<unsigned>(to);
  if (::syscall(SYS_close_range, first, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */) != 0) {
    fail_in_child(plan, Stage::kStdio, errno);
  }
}

void become_payload_in_child(const ChildPlan& plan) noexcept {
  const PayloadRules& rules = *plan.rules;
  if (rules.is_changing_ids) {
    const int error = confine::become_user_in_child(rules.uid, rules.gid, true, rules.groups);
    if (error != 0) fail_in_child(plan, Stage::kIds, error);
  }
  if (const int error = confine::drop_all_caps_in_child(rules.kept()); error != 0) {
    fail_in_child(plan, Stage::kCapabilities, error);
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail_in_child(plan, Stage::kIds, errno);
  // A change of ids may have made this image of sbx dumpable again (fs.suid_dumpable).
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) fail_in_child(plan, Stage::kIds, errno);
}

/// No magic link (/proc/self/fd/N) may lead the program out of its tree.
void enter_workdir_in_child(const ChildPlan& plan) noexcept {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, AT_FDCWD, plan.cwd, &how, sizeof how);
  if (fd < 0 || ::fchdir(static_cast<int>(fd)) != 0) {
    fail_in_child(plan, Stage::kWorkdir, errno);
  }
}

/// Errors that let the search go on to the next directory of PATH, as execvp(3).
bool is_search_error(int error) noexcept {
  return error == ENOENT || error == ENOTDIR || error == EACCES;
}

bool is_file_in_child(const char* path, const FileId& id) noexcept {
  struct stat info {};
  return ::stat(path, &info) == 0 && info.st_dev == id.dev && info.st_ino == id.ino;
}

/// The interpreter that a #! line of `path` names, in `line`; empty when there is none. The rules
/// are those of fs/binfmt_script.c.
const char* interpreter_in_child(const char* path, std::span<char> line) noexcept {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return "";
  const ssize_t got = ::read(fd, line.data(), line.size() - 1);
  (void)::close(fd);
  if (got < 2 || line[0] != '#' || line[1] != '!') return "";
  line[static_cast<size_t>(got)] = '\0';
  char* name = line.data() + 2;
  while (*name == ' ' || *name == '\t') {
    ++name;
  }
  char* end = name;
  while (*end != '\0' && *end != '\n' && *end != ' ' && *end != '\t') {
    ++end;
  }
  *end = '\0';
  return name;
}

/// Whether `path`, or an interpreter that its #! lines lead to, is our own binary whatever its name
/// (until this exec /proc/self/exe is it). A file that changes meanwhile gets past this; what
/// stands behind it is Landlock, or a binary that the job could not write (core/README.md).
bool is_own_binary_in_child(const char* path, const FileId& own) noexcept {
  constexpr int kMaxDepth = 6;  // the kernel follows five
  std::array<char, 256> line{};
  for (int depth = 0; depth < kMaxDepth && *path != '\0'; ++depth) {
    if (is_file_in_child(path, own)) return true;
    std::array<char, 256> next{};
    const char* interpreter = interpreter_in_child(path, next);
    const size_t offset = *interpreter == '\0' ? 0 : static_cast<size_t>(interpreter - next.data());
    if (offset == 0) return false;
    line = next;
    path = line.data() + offset;
  }
  return false;
}

[[noreturn]] void exec_in_child(const ChildPlan& plan) noexcept {
  ExecReport last{Stage::kExec, ENOENT, 0};
  for (uint32_t i = 0; i < plan.candidates.size(); ++i) {
    const char* path = plan.candidates[i];
    if (is_own_binary_in_child(path, plan.own_binary)) {
      fail_in_child(plan, Stage::kOwnBinary, EACCES, i);
    }
    (void)::execve(path, plan.argv.data(), plan.env.data());
    const int error = errno;
    if (error == ENOENT && ::access(path, F_OK) == 0) {
      fail_in_child(plan, Stage::kInterpreter, error, i);
    }
    // A permission problem is worth more to the user than the "not found" of a later directory.
    if (last.error != EACCES) last = {Stage::kExec, error, i};
    if (!is_search_error(error)) break;
  }
  fail_in_child(plan, last.stage, last.error, last.candidate);
}

confine::SeccompProfile filter_of(const PayloadRules& rules) noexcept {
  if (rules.is_nesting) return confine::SeccompProfile::kNesting;
  return rules.may_set_id_bits ? confine::SeccompProfile::kImage
                               : confine::SeccompProfile::kDefault;
}

[[noreturn]] void run_child_in_child(const ChildPlan& plan) noexcept {
  const PayloadRules& rules = *plan.rules;
  unblock_signals_in_child();
  take_stdio_in_child(plan);
  join_cgroup_in_child(plan);
  take_more_fds_in_child(plan);
  if (const int error = confine::apply_rlimits_in_child(rules.rlimits); error != 0) {
    fail_in_child(plan, Stage::kLimits, error);
  }
  become_payload_in_child(plan);
  enter_workdir_in_child(plan);
  if (rules.is_using_landlock) {
    if (const int error = confine::landlock_only_beneath_root_in_child(); error != 0) {
      fail_in_child(plan, Stage::kLandlock, error);
    }
  }
  if (const int error = confine::install_seccomp_in_child(filter_of(rules)); error != 0) {
    fail_in_child(plan, Stage::kSeccomp, error);
  }
  exec_in_child(plan);
}

/// vfork(2) with a stack of its own: no page tables are copied (0.2 ms), and PID 1 stands still
/// until the child's exec. Only while nothing else runs inside, which could stop the child and so
/// us.
pid_t clone_sharing_memory(ChildPlan& plan) {
  alignas(16) static std::array<char, size_t{64} << 10> stack;
  const auto entry = [](void* argument) -> int {
    run_child_in_child(*static_cast<const ChildPlan*>(argument));
  };
  return ::clone(entry, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
}

pid_t fork_into(int group) {
  if (group < 0) return ::fork();
  clone_args args{};
  args.flags = CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<__u64>(group);
  const Result<pid_t> pid = sys::clone3(args);
  if (pid.ok()) return pid.value();
  errno = pid.error().sys_errno();
  return -1;
}

/// The ids and what depends on them for one program.
Result<PayloadRules> rules_for(const ipc::Exec& request, const PayloadRules& rules) {
  if (!request.has_user || (request.uid == rules.uid && request.gid == rules.gid)) return rules;
  if (!rules.is_changing_ids) {
    return Error(Errc::kUnsupported,
                 text::cat("run as user ",
                           request.uid,
                           ": only user ",
                           rules.uid,
                           " exists in a sandbox that was not started by root"));
  }
  constexpr uint32_t kCount = 65536;  // of the mapped range
  if (request.uid >= kCount || request.gid >= kCount) {
    return Error(Errc::kUsage,
                 text::cat("run as user ",
                           request.uid,
                           " and group ",
                           request.gid,
                           ": ids inside are below ",
                           kCount));
  }
  PayloadRules other = rules;
  other.uid = request.uid;
  other.gid = request.gid;
  other.groups.clear();
  return other;
}

/// The paths that argv[0] may mean, in the order in which they are tried.
std::vector<std::string> find_candidates(const ipc::Exec& request) {
  const std::string& name = request.argv.front();
  if (name.find('/') != std::string::npos) return {name};
  std::string_view path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& entry : request.env) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  std::vector<std::string> candidates;
  for (const std::string_view dir : text::split(path, ':')) {
    // An empty field means the current directory for execvp(3); that trap is not set here.
    if (!dir.empty() && !name.empty()) candidates.push_back(text::cat(dir, "/", name));
  }
  if (candidates.empty()) candidates.push_back(name);
  return candidates;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  // execve(2) takes char* for history's sake and does not write.
  for (const std::string& s : strings) {
    out.push_back(const_cast<char*>(s.c_str()));  // NOLINT
  }
  out.push_back(nullptr);
  return out;
}

/// A file that its owner made executable, on a mount where nothing may be executed.
bool is_kept_by_noexec(const std::string& program) {
  constexpr mode_t kAnyExecute = 0111;
  struct stat info {};
  struct statvfs mount {};
  return ::stat(program.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         (info.st_mode & kAnyExecute) != 0 && ::statvfs(program.c_str(), &mount) == 0 &&
         (mount.f_flag & ST_NOEXEC) != 0;
}

std::string describe(const ExecReport& report, const Starting& starting, const std::string& cwd) {
  std::string program =
      report.candidate < starting.candidates.size() ? starting.candidates[report.candidate] : "?";
  switch (report.stage) {
    case Stage::kSession:
      return "start a session for the program";
    case Stage::kTerminal:
      return "make the terminal the program's own";
    case Stage::kStdio:
      return "hand the program its streams";
    case Stage::kCgroup:
      return "put the program into its cgroup";
    case Stage::kWorkdir:
      return text::cat("working directory ", cwd);
    case Stage::kLimits:
      return "set the program's resource limits";
    case Stage::kIds:
      return "give the program its user id";
    case Stage::kCapabilities:
      return "drop capabilities";
    case Stage::kLandlock:
      return "apply Landlock";
    case Stage::kSeccomp:
      return "install the system call filter";
    case Stage::kOwnBinary:
      return text::cat(program, " is the sandbox's own binary");
    case Stage::kInterpreter:
      return text::cat(program, ": its interpreter (the #! line, or the ELF loader)");
    case Stage::kExec:
      // Not found anywhere: the name that was asked for says more than the last place tried.
      if (report.error == ENOENT && starting.candidates.size() > 1) {
        return program.substr(program.rfind('/') + 1);
      }
      if (report.error == EACCES && is_kept_by_noexec(program)) {
        return text::cat(program, ": its file system is mounted noexec");
      }
      return program;
  }
  return "exec";
}

/// A program of another user may open its streams again (/dev/stdout) only when they are its own. A
/// supervisor that is no root cannot see to that.
void give_pipes(std::span<const UniqueFd> stdio, const PayloadRules& rules) {
  if (!rules.is_changing_ids || rules.uid == 0) return;
  for (const UniqueFd& stream : stdio) {
    struct stat info {};
    const bool is_ours =
        ::fstat(stream.get(), &info) == 0 && S_ISFIFO(info.st_mode) && info.st_uid == 0;
    if (is_ours) (void)!::fchown(stream.get(), rules.uid, rules.gid);
  }
}

/// Copies at `lowest` and above: giving them lower numbers overwrites none.
Result<std::vector<UniqueFd>> lift(std::span<const UniqueFd> fds, int lowest) {
  std::vector<UniqueFd> out;
  for (const UniqueFd& fd : fds) {
    SBX_ASSIGN(UniqueFd copy, sys::dup(fd.get(), lowest));
    out.push_back(std::move(copy));
  }
  return out;
}

}  // namespace

Result<Starting> start_exec(const ipc::Exec& request,
                            std::span<const UniqueFd> fds,
                            const ExecContext& context) {
  if (request.argv.empty()) return Error(Errc::kUsage, "no program to run");
  SBX_ASSIGN(const PayloadRules rules, rules_for(request, context.rules));
  Starting starting;
  starting.candidates = find_candidates(request);
  Pty pty;
  ChildPlan plan;
  const size_t streams = request.tty ? 0 : 3;
  if (fds.size() != streams + request.more_fds) {
    return Error(Errc::kProtocol, "exec without its descriptors");
  }
  if (request.tty) {
    SBX_ASSIGN(pty, open_pty(request.rows, request.cols, rules.uid, rules.gid));
    plan.stdio = {pty.slave.get(), pty.slave.get(), pty.slave.get()};
    plan.has_terminal = true;
  } else {
    give_pipes(fds.first(streams), rules);
    for (size_t i = 0; i < streams; ++i) {
      plan.stdio[i] = fds[i].get();
    }
  }
  const int free_above = kFirstMoreFd + static_cast<int>(request.more_fds);
  SBX_ASSIGN(const std::vector<UniqueFd> more, lift(fds.subspan(streams), free_above));
  plan.more = more;
  SBX_ASSIGN(sys::Pipe report, sys::pipe());
  if (report.w.get() < free_above) {
    SBX_ASSIGN(report.w, sys::dup(report.w.get(), free_above));
  }
  plan.argv = pointers(request.argv);
  plan.env = pointers(request.env);
  for (const std::string& path : starting.candidates) {
    plan.candidates.push_back(path.c_str());
  }
  plan.cwd = request.cwd.c_str();
  plan.report_fd = report.w.get();
  plan.join_fds = context.join_fds;
  plan.group = context.group;
  plan.rules = &rules;
  plan.own_binary = context.own_binary;
  const pid_t pid = context.is_alone ? clone_sharing_memory(plan) : fork_into(context.group);
  if (pid < 0) return sys_error("fork the program");
  if (pid == 0) run_child_in_child(plan);
  starting.pid = pid;
  starting.errors = std::move(report.r);
  starting.master = std::move(pty.master);
  return starting;
}

ExecFailure read_report(const Starting& starting, const std::string& cwd) {
  ExecReport report{};
  const Result<size_t> got = sys::read(
      starting.errors.get(), std::as_writable_bytes(std::span<ExecReport, 1>(&report, 1)));
  if (!got.ok() || got.value() == 0) return {};
  if (got.value() != sizeof report) return {true, false, "read why the program did not start", EIO};
  const bool is_program = report.stage >= Stage::kOwnBinary;
  return {true, is_program, describe(report, starting, cwd), report.error};
}

}  // namespace sbx::agent
