// What stands around and below sbx: a container, its own binary, resource limits, interpreters.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <string>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/host/facts.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

constexpr std::uint64_t kLeastOpenFiles = 64;
constexpr std::uint64_t kLeastProcesses = 16;

/// What is wrong with a directory or file on the way to the binary; empty: nothing.
std::string who_may_change(const std::string& path, const struct stat& info, uid_t self) {
  if (info.st_uid != 0 && info.st_uid != self) {
    return text::cat(path, " belongs to user ", info.st_uid);
  }
  const bool is_sticky_dir = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
  if ((info.st_mode & S_IWOTH) != 0 && !is_sticky_dir) {
    return text::cat(path, " may be written by everybody");
  }
  // A private group that has the user's own number is that user (Debian's way).
  if ((info.st_mode & S_IWGRP) != 0 && !is_sticky_dir && info.st_gid != 0 &&
      info.st_gid != info.st_uid) {
    return text::cat(path, " may be written by group ", info.st_gid);
  }
  return {};
}

Finding check_privileges(const std::string& path, const struct stat& info) {
  if ((info.st_mode & (S_ISUID | S_ISGID)) != 0) {
    return missing(text::cat("looked at ", path),
                   "it is set-user-id or set-group-id: whoever starts it gets its owner's rights",
                   text::cat("chmod ug-s ", path));
  }
  if (::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) {
    return missing(text::cat("looked at ", path),
                   "it has file capabilities: whoever starts it gets them",
                   text::cat("as root: setcap -r ", path));
  }
  return works({});
}

/// The real path, links followed; `path` itself when it has none.
std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : path;
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? std::string("unlimited") : std::to_string(limit);
}

}  // namespace

Finding check_container(const DoctorContext& context) {
  const HostFiles& files = context.files;
  std::string lost;
  const auto add = [&lost](std::string_view what) {
    lost += text::cat(lost.empty() ? "" : "; ", what);
  };
  if (is_proc_masked(files)) add("parts of /proc are covered, so that no sandbox gets its own");
  if (has_seccomp_filter(files)) add("a seccomp filter is on us and all that we start");
  const auto mark = container_mark(files);
  const std::string tried = text::cat("looked for a filter, covered parts of /proc, a chroot",
                                      mark ? text::cat("; found the mark of ", *mark) : "");
  if (is_chroot(files)) {
    return weak(tried,
                "we are in a chroot: the kernel makes no user namespaces there",
                "enter it with pivot_root (systemd-nspawn, unshare --root) instead of chroot");
  }
  if (lost.empty()) return works(tried);
  return weak(tried, lost, text::cat("start the container with: ", kOpenContainer));
}

Finding check_binary(const DoctorContext& context) {
  const std::string& path = context.binary;
  if (path.empty()) {
    return weak("read /proc/self/exe", "the path of sbx cannot be read", "mount /proc");
  }
  const std::string tried = text::cat("looked at ", path, " and the directories above it");
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return weak(tried,
                "the file was replaced or removed after we were started",
                "start sbx again from where it is now");
  }
  if (Finding rights = check_privileges(path, info); rights.verdict != Verdict::kOk) return rights;
  for (std::string at = path; !at.empty(); at.resize(at.rfind('/'))) {
    if (::stat(at.c_str(), &info) != 0) continue;
    const std::string who = who_may_change(at, info, context.paths.uid);
    if (who.empty()) continue;
    return weak(tried,
                text::cat(who, ", who can put another program in the place of sbx"),
                text::cat("as root: install -m 755 ", path, " /usr/local/bin/sbx"));
  }
  return works(tried);
}

Finding check_resources(const DoctorContext& /*context*/) {
  struct rlimit files {};
  struct rlimit processes {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_NPROC, &processes);
  const std::string tried = text::cat("ulimit -n is ",
                                      limit_text(files.rlim_cur),
                                      ", ulimit -u is ",
                                      limit_text(processes.rlim_cur));
  if (files.rlim_cur < kLeastOpenFiles) {
    return missing(tried,
                   text::cat("sbx needs up to ", kLeastOpenFiles, " open files"),
                   text::cat("ulimit -n ",
                             files.rlim_max < kLeastOpenFiles
                                 ? "1024 (as root; "
                                   "LimitNOFILE= in a systemd unit, /etc/security/limits.conf)"
                                 : "1024"));
  }
  if (processes.rlim_cur < kLeastProcesses && ::geteuid() != 0) {
    return missing(tried,
                   text::cat("sbx needs room for at least ", kLeastProcesses, " processes"),
                   "ulimit -u 4096 (/etc/security/limits.conf)");
  }
  return works(tried);
}

Finding check_programs(const DoctorContext& context) {
  std::string same;
  for (const Interpreter& program : context.interpreters) {
    const std::string name = program.path.substr(program.path.rfind('/') + 1);
    const std::string inside = text::cat(context.files.root, program.path);
    const auto own = find_in_path(context, name);
    const std::string tried = text::cat("compared ", name, " on PATH with the sandbox's");
    if (::access(inside.c_str(), X_OK) != 0) {
      if (!own) continue;  // nobody here uses it
      return weak(tried,
                  text::cat(*own,
                            " is not what the profile ",
                            program.profile,
                            " runs: there is no ",
                            program.path),
                  text::cat("install the distribution's package of ",
                            name,
                            ", or name yours with --set language.path"));
    }
    if (own && real_path(text::cat(context.files.root, *own)) != real_path(inside)) {
      return weak(tried,
                  text::cat("your ",
                            name,
                            " is ",
                            *own,
                            ", the profile ",
                            program.profile,
                            " runs ",
                            program.path,
                            ": packages that only yours has are missing inside"),
                  text::cat("to use yours: sbx run --set language.path=",
                            real_path(text::cat(context.files.root, *own)),
                            " … (language.path in a profile; for pyenv and the like the path that "
                            "\"pyenv which ",
                            name,
                            "\" prints)"));
    }
    same += text::cat(same.empty() ? "" : ", ", program.path);
  }
  return works(text::cat("found ", same.empty() ? "no interpreter" : same));
}

Finding check_run(const DoctorContext& context) {
  const std::string tried = "ran /bin/true in a sandbox: sbx run -p bash -- /bin/true";
  const auto printed =
      run_helper({"/proc/self/exe", "run", "-p", "bash", "--", "/bin/true"}, kHelperDeadline);
  if (!printed.ok()) return missing(tried, printed.error());
  const int status = printed.value().status;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return works(tried);
  // "sbx: message", "  fix: text"
  std::string cause;
  std::string fix;
  for (const std::string_view line : text::split(printed.value().err, '\n')) {
    if (line.starts_with("sbx: warning:")) continue;
    if (line.starts_with("sbx: ")) cause = std::string(line.substr(5));
    if (line.starts_with("  fix: ")) fix = std::string(line.substr(7));
  }
  if (cause.empty()) cause = text::cat("it ended with wait status ", status);
  (void)context;
  return missing(tried, cause, fix);
}

}  // namespace sbx::host
