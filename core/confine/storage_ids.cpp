// Storage ids: see storage_ids.h.
#include "core/confine/storage_ids.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/host_text.h"

namespace sbx::confine {

namespace {

constexpr Bytes kMaxFile{16U << 20U};
constexpr int kBroken = 70;  // EX_SOFTWARE: the child could not become what it is to be

/// 0 is the user's own id, then come its ranges. Empty when they have too few ids.
std::vector<IdMap> map_of(std::string_view text,
                          std::string_view name,
                          std::uint32_t id,
                          std::uint32_t own) {
  std::vector<IdMap> maps{{0, own, 1}};
  std::uint32_t next = 1;
  for (const SubidLine& line : parse_subid_lines(text)) {
    if (line.owner != name && line.owner != std::to_string(id)) continue;
    if (line.span.first + line.span.count > UINT32_MAX) continue;
    const auto count = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(line.span.count, IdRange::kCount - next));
    maps.push_back({next, static_cast<std::uint32_t>(line.span.first), count});
    next += count;
    if (next == IdRange::kCount) return maps;
  }
  return {};
}

std::string own_name() {
  const auto passwd = fs::read_file("/etc/passwd", kMaxFile);
  if (!passwd.ok()) return {};
  for (const PasswdLine& line : parse_passwd(passwd.value())) {
    if (line.uid == ::geteuid()) return line.name;
  }
  return {};
}

std::string text_of(const char* path) {
  auto text = fs::read_file(path, kMaxFile);
  return text.ok() ? std::move(text).value() : std::string();
}

Status run_helper(const char* name, pid_t pid, const std::vector<IdMap>& maps) {
  SpawnOptions options;
  options.argv = {name, std::to_string(pid)};
  for (const IdMap& map : maps) {
    options.argv.push_back(std::to_string(map.inside));
    options.argv.push_back(std::to_string(map.outside));
    options.argv.push_back(std::to_string(map.count));
  }
  SBX_ASSIGN(const UniqueFd null, sys::open("/dev/null", O_RDWR));
  options.err = null.get();
  auto child = spawn(options);
  if (!child.ok()) {
    return std::move(child).error().with_hint("install it as root: apt-get install uidmap");
  }
  SBX_ASSIGN(const int status, child.value().wait());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Error(Errc::kDenied, text::cat(name, " refused to map ids to those of this user"))
      .with_hint(text::cat("see what it says: ", text::join(options.argv, " ")));
}

/// Waits for the word of the other end, or for its end.
bool is_told(UniqueFd& pipe) {
  char word = 0;
  ssize_t got = 0;
  do {
    got = ::read(pipe.get(), &word, 1);
  } while (got < 0 && errno == EINTR);
  pipe.reset();
  return got == 1;
}

/// What the child does once its maps are written; its status.
int become_root(pid_t parent, const std::function<int()>& body, StorageNet net) {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0) {
    return kBroken;
  }
  die_with_parent_in_child(parent);  // a change of ids took that back (prctl(2))
  const int of_its_own = net == StorageNet::kNone ? CLONE_NEWNET : 0;
  if (!sys::unshare(CLONE_NEWNS | CLONE_NEWIPC | of_its_own).ok()) return kBroken;
  return body();
}

}  // namespace

Result<StorageIds> plan_subids(
    std::string_view subuid, std::string_view subgid, std::string_view name, uid_t uid, gid_t gid) {
  StorageIds ids;
  ids.kind = StorageIds::Kind::kSubids;
  ids.uids = map_of(subuid, name, uid, uid);
  ids.gids = map_of(subgid, name, uid, gid);
  if (!ids.uids.empty() && !ids.gids.empty()) return ids;
  const std::string user = name.empty() ? std::to_string(uid) : std::string(name);
  return Error(Errc::kUnsupported,
               text::cat("images need 65,536 ids, and ",
                         ids.uids.empty() ? "/etc/subuid" : "/etc/subgid",
                         " gives none to user ",
                         text::escape(user)))
      .with_hint(
          text::cat("as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ",
                    text::escape(user),
                    " (numbers that no other line has)"));
}

Result<StorageIds> storage_ids() {
  if (may_map_id_ranges()) {
    const IdMap map{0, IdRange::kStorage, IdRange::kCount};
    return StorageIds{StorageIds::Kind::kRange, {map}, {map}};
  }
  SBX_ASSIGN(
      StorageIds ids,
      plan_subids(
          text_of("/etc/subuid"), text_of("/etc/subgid"), own_name(), ::geteuid(), ::getegid()));
  return ids;
}

Status map_storage_ids(pid_t pid, const StorageIds& ids) {
  if (ids.kind == StorageIds::Kind::kRange) return write_idmaps(pid, ids.uids, ids.gids, false);
  SBX_TRY(run_helper("newuidmap", pid, ids.uids));
  return run_helper("newgidmap", pid, ids.gids);
}

Status reach_storage_ids() {
  SBX_ASSIGN(StorageIds ids, storage_ids());
  if (ids.kind != StorageIds::Kind::kSubids) {
    return Error(Errc::kUnsupported, "root reaches all files as it is");
  }
  for (std::vector<IdMap>* maps : {&ids.uids, &ids.gids}) {
    for (IdMap& map : *maps) {
      map.inside = map.outside;
    }
  }
  // The helpers have to be started from outside of the namespace that they write to.
  SBX_ASSIGN(sys::Pipe go, sys::pipe());
  const pid_t self = ::getpid();
  SBX_ASSIGN(Forked forked, fork_pidfd());
  if (forked.pid == 0) {
    die_with_parent_in_child(self);
    go.w.reset();
    if (!is_told(go.r)) ::_exit(kBroken);
    ::_exit(map_storage_ids(self, ids).ok() ? 0 : kBroken);
  }
  ChildProcess child(forked.pid, std::move(forked.pidfd));
  go.r.reset();
  SBX_TRY(sys::unshare(CLONE_NEWUSER));
  SBX_TRY(sys::write_all(go.w.get(), "1"));
  SBX_ASSIGN(const int status, child.wait());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Error(Errc::kDenied, "the ids of this user could not be mapped");
}

Result<ChildProcess> fork_as_storage_root(const StorageIds& ids,
                                          const std::function<int()>& body,
                                          StorageNet net) {
  SBX_ASSIGN(sys::Pipe go, sys::pipe());
  const pid_t self = ::getpid();
  SBX_ASSIGN(Forked forked, fork_pidfd(CLONE_NEWUSER));
  if (forked.pid == 0) {
    die_with_parent_in_child(self);
    go.w.reset();
    if (!is_told(go.r)) ::_exit(kBroken);  // the maps could not be written
    ::_exit(become_root(self, body, net));
  }
  ChildProcess child(forked.pid, std::move(forked.pidfd));
  go.r.reset();
  SBX_TRY(map_storage_ids(child.pid(), ids));
  SBX_TRY(sys::write_all(go.w.get(), "1"));
  return child;
}

Status run_as_storage_root(const StorageIds& ids,
                           std::string_view what,
                           const std::function<int()>& body) {
  SBX_ASSIGN(ChildProcess child, fork_as_storage_root(ids, body));
  SBX_ASSIGN(const int status, child.wait());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFEXITED(status) && WEXITSTATUS(status) == kBroken) {
    return Error(Errc::kSystem, text::cat(what, ": cannot become root of a user namespace"))
        .with_hint("sbx doctor says what is missing");
  }
  if (WIFSIGNALED(status)) {
    return Error(Errc::kSystem, text::cat(what, ": ended by signal ", WTERMSIG(status)));
  }
  return Error(Errc::kSystem, text::cat(what, ": failed"));
}

}  // namespace sbx::confine
