// Apply: each step by descriptors below the host directory, each file whole by rename.
#include "core/workspace/apply.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/base/scope_exit.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/beneath.h"
#include "core/workspace/copy_file.h"

namespace sbx::workspace {
namespace {

constexpr std::size_t kMaxNoted = 20;
constexpr mode_t kPermissions = 0777;
constexpr const char* kTemp = "new";

Error changed_meanwhile() {
  return {Errc::kDenied, "changed on the host since the plan was made"};
}

bool is_same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/// The same object in the same state. Of a file with several names the time of change moves when an
/// earlier step takes one of the others away.
bool is_same(const struct stat& a, const struct stat& b) {
  const bool has_names = b.st_nlink > 1;
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         is_same_time(a.st_mtim, b.st_mtim) && (has_names || is_same_time(a.st_ctim, b.st_ctim));
}

/// Gives `to` the attributes of `from`, and takes away the ones it has not. A file
/// system without attributes keeps none.
Status set_attributes(int from, int to) {
  SBX_ASSIGN(const std::vector<Xattr> wanted, content_xattrs(from));
  SBX_ASSIGN(const std::vector<Xattr> present, content_xattrs(to));
  for (const Xattr& each : present) {
    bool is_kept = false;
    for (const Xattr& other : wanted) {
      is_kept = is_kept || other.first == each.first;
    }
    if (!is_kept) static_cast<void>(::fremovexattr(to, each.first.c_str()));
  }
  for (const auto& [name, value] : wanted) {
    if (::fsetxattr(to, name.c_str(), value.data(), value.size(), 0) == 0) continue;
    if (errno != EOPNOTSUPP) return sys_error(text::cat("set attribute ", name));
  }
  return {};
}

class Applier {
 public:
  Applier(const ApplyRequest& request, int scratch, AppliedNotes& notes)
      : request_(request), scratch_(scratch), notes_(notes), host_(request.host) {}

  void run(const ApplyPlan& plan) {
    for (const ApplyStep& step : plan.steps) {
      if (step.action == ApplyAction::kSkip) continue;
      const Status done = carry_out(step);
      if (done.ok()) {
        ++report_.applied;
        continue;
      }
      ++report_.failed_count;
      if (report_.failed.size() < kMaxNoted) {
        report_.failed.push_back(text::cat(step.change.path, ": ", done.error().message()));
      }
    }
  }

  ApplyReport take() { return std::move(report_); }

 private:
  Status carry_out(const ApplyStep& step) {
    const auto [parent, name] = split_path(step.change.path);
    SBX_ASSIGN(const int dir, open_parent(step.action, parent));
    switch (step.action) {
      case ApplyAction::kDelete:
        return remove(step.change, dir, name);
      case ApplyAction::kMakeDir:
        return make_dir(step.change, dir, name);
      case ApplyAction::kWrite:
        return write(step.change, dir, name);
      case ApplyAction::kLink:
        return link(step.change, dir, name);
      case ApplyAction::kSetMode:
        return set_mode(step.change, dir, name);
      case ApplyAction::kSkip:
        break;
    }
    return {};
  }

  /// The directory that a path is in. One that is missing because the user did not choose it is
  /// made, with the permissions it has in the session.
  Result<int> open_parent(ApplyAction action, const std::string& path) {
    const PlainRights rights;
    Result<int> opened = host_.open(path);
    const bool is_made = action == ApplyAction::kMakeDir || action == ApplyAction::kWrite ||
                         action == ApplyAction::kLink;
    if (opened.ok() || path.empty() || !is_made || opened.error().sys_errno() != ENOENT) {
      return opened;
    }
    const auto [parent, name] = split_path(path);
    SBX_ASSIGN(const int above, open_parent(action, parent));
    SBX_ASSIGN(const auto place, request_.after->find(path));
    const mode_t mode = place.has_value() ? place->entry.st.st_mode & kPermissions : 0755;
    SBX_TRY(sys::mkdirat(above, name, mode));
    return host_.open(path);
  }

  /// Whether what is at a name is what the plan saw there.
  static Status check(const Change& change, int dir, const std::string& name) {
    const Result<struct stat> now = sys::fstatat(dir, name, AT_SYMLINK_NOFOLLOW);
    if (!now.ok() && now.error().sys_errno() != ENOENT) return now.error();
    if (!now.ok()) return {};  // not there: then nothing of anybody's is lost
    if (!change.before.is_there() || !is_same(now.value(), change.before.entry.st)) {
      return changed_meanwhile();
    }
    return {};
  }

  Status remove(const Change& change, int dir, const std::string& name) {
    const PlainRights rights;
    const bool is_dir = change.before.entry.is_dir();
    if (!is_dir) SBX_TRY(check(change, dir, name));
    Status removed = sys::unlinkat(dir, name, is_dir ? AT_REMOVEDIR : 0);
    if (!removed.ok() && removed.error().sys_errno() == ENOTEMPTY) {
      return Error(Errc::kDenied, "is not empty on the host");
    }
    if (!removed.ok() && removed.error().sys_errno() != ENOENT) return removed;
    notes_.forget(change.path);
    host_.forget();
    return {};
  }

  Status make_dir(const Change& change, int dir, const std::string& name) {
    SBX_ASSIGN(
        const UniqueFd from,
        request_.after->open_dir(MergedTree::enter(change.after.parent, change.after.entry)));
    const PlainRights rights;
    Status made = sys::mkdirat(dir, name, S_IRWXU);
    if (!made.ok() && made.error().code() != Errc::kExists) return made;
    SBX_ASSIGN(const UniqueFd to, open_entry(dir, name, O_RDONLY | O_DIRECTORY));
    SBX_TRY(set_attributes(from.get(), to.get()));
    // What comes into it is still to be written.
    return sys::fchmod(to.get(), (change.after.mode() & kPermissions) | S_IRWXU);
  }

  Status write(const Change& change, int dir, const std::string& name) {
    SBX_ASSIGN(const UniqueFd from,
               request_.after->open_file(change.after.parent, change.after.entry));
    SBX_ASSIGN(const struct stat st, sys::fstat(from.get()));
    const PlainRights rights;
    SBX_ASSIGN(const UniqueFd to,
               sys::openat(scratch_, kTemp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    ScopeExit undo([&] { static_cast<void>(sys::unlinkat(scratch_, kTemp)); });
    const auto size = static_cast<std::uint64_t>(st.st_size);
    SBX_ASSIGN([[maybe_unused]] const ContentCopy copied,
               copy_content(from.get(), to.get(), size, reflink_));
    SBX_TRY(set_attributes(from.get(), to.get()));
    keep_owner(change, to.get());
    SBX_TRY(sys::fchmod(to.get(), st.st_mode & kPermissions));
    const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, st.st_mtim};
    static_cast<void>(::futimens(to.get(), times));  // a file system without them is no failure
    SBX_TRY(sys::fsync(to.get()));
    SBX_TRY(put_in_place(change, dir, name));
    undo.cancel();
    SBX_ASSIGN(const struct stat now, sys::fstat(to.get()));
    notes_.note(change.path, now);
    return {};
  }

  Status link(const Change& change, int dir, const std::string& name) {
    SBX_ASSIGN(const std::string target,
               request_.after->read_link(change.after.parent, change.after.entry));
    const PlainRights rights;
    SBX_TRY(sys::symlinkat(target, scratch_, kTemp));
    ScopeExit undo([&] { static_cast<void>(sys::unlinkat(scratch_, kTemp)); });
    SBX_TRY(put_in_place(change, dir, name));
    undo.cancel();
    SBX_ASSIGN(const struct stat now, sys::fstatat(dir, name, AT_SYMLINK_NOFOLLOW));
    notes_.note(change.path, now);
    return {};
  }

  Status put_in_place(const Change& change, int dir, const std::string& name) const {
    // A directory that was there has been removed by an earlier step.
    const bool is_new = !change.before.is_there() || change.before.entry.is_dir();
    if (!is_new) {
      SBX_TRY(check(change, dir, name));
      return sys::renameat(scratch_, kTemp, dir, name);
    }
    Status renamed = sys::renameat(scratch_, kTemp, dir, name, RENAME_NOREPLACE);
    if (!renamed.ok() && renamed.error().sys_errno() == EEXIST) return changed_meanwhile();
    return renamed;
  }

  /// For root, which writes into other users' directories. Best effort.
  static void keep_owner(const Change& change, int fd) {
    const struct stat& old = change.before.entry.st;
    const bool is_replaced = change.before.is_there() && S_ISREG(old.st_mode);
    if (is_replaced) static_cast<void>(sys::fchown(fd, old.st_uid, old.st_gid));
  }

  Status set_mode(const Change& change, int dir, const std::string& name) {
    const bool is_dir = change.after.entry.is_dir();
    UniqueFd from;
    if (is_dir) {
      SBX_ASSIGN(
          from,
          request_.after->open_dir(MergedTree::enter(change.after.parent, change.after.entry)));
    }
    const PlainRights rights;
    SBX_ASSIGN(const UniqueFd to, open_entry(dir, name, is_dir ? O_RDONLY | O_DIRECTORY : O_PATH));
    SBX_ASSIGN(const struct stat st, sys::fstat(to.get()));
    const struct stat& old = change.before.entry.st;
    const bool is_it = st.st_dev == old.st_dev && st.st_ino == old.st_ino;
    if (!is_it || (!is_dir && !is_same(st, old))) return changed_meanwhile();
    if (is_dir) SBX_TRY(set_attributes(from.get(), to.get()));
    // Of the descriptor: the name may be a link by now.
    if (::chmod(proc_path(to.get()).c_str(), change.after.mode() & kPermissions) == -1) {
      return sys_error("set mode");
    }
    if (is_dir) return {};
    SBX_ASSIGN(const struct stat now, sys::fstat(to.get()));
    notes_.note(change.path, now);
    return {};
  }

  const ApplyRequest& request_;
  int scratch_;
  AppliedNotes& notes_;
  DirCursor host_;
  Reflink reflink_ = Reflink::kTry;
  ApplyReport report_;
};

}  // namespace

Result<ApplyReport> apply(const ApplyRequest& request,
                          const ApplyPlan& plan,
                          int scratch,
                          AppliedNotes& notes) {
  Applier applier(request, scratch, notes);
  applier.run(plan);
  if (::syncfs(request.host) == -1) return sys_error("sync the host directory");
  return applier.take();
}

}  // namespace sbx::workspace
