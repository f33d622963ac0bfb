// Paths: see paths.h.
#include "core/host/paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/host_text.h"

namespace sbx::host {
namespace {

std::optional<std::string> process_env(std::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

/// A variable that holds an absolute path; the XDG specification has all others ignored.
std::optional<std::string> absolute(const PathContext& context, std::string_view name) {
  auto value = context.env(name);
  if (!value || value->empty() || value->front() != '/') return std::nullopt;
  while (value->size() > 1 && value->back() == '/') {
    value->pop_back();
  }
  return value;
}

std::optional<std::string> passwd_home(const PathContext& context) {
  const auto text = fs::read_file(context.passwd_file, Bytes{16U << 20U});
  if (!text.ok()) return std::nullopt;
  return confine::find_home(text.value(), context.uid);
}

Status check_private(const std::string& path, int fd, uid_t uid) {
  SBX_ASSIGN(const struct stat info, sys::fstat(fd));
  if (info.st_uid != uid) {
    return Error(Errc::kDenied,
                 text::cat("use ", path, ": it belongs to user ", info.st_uid, ", not to ", uid))
        .with_hint("set SBX_STATE_DIR to a directory of your own");
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error(Errc::kDenied, text::cat("use ", path, ": others may enter it"))
        .with_hint(text::cat("chmod 700 ", path));
  }
  return {};
}

/// Makes (parents 0755, itself 0700), opens and checks the directory. A link in its place is
/// refused; links above it are the user's own business.
Result<Dir> open_private(const std::string& path, uid_t uid) {
  const fs::OwnerUmask mask;
  const std::size_t slash = path.rfind('/');
  if (slash != 0) SBX_TRY(fs::mkdirs(path.substr(0, slash), 0755));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return sys_error(text::cat("make directory ", path), errno);
  }
  SBX_ASSIGN(UniqueFd fd, sys::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_TRY(check_private(path, fd.get(), uid));
  if (::faccessat(fd.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    return sys_error(text::cat("write in ", path), errno);
  }
  return Dir{.path = path, .fd = std::move(fd)};
}

std::vector<std::string> state_candidates(const PathContext& context) {
  if (context.is_root) return {context.system_state};
  std::vector<std::string> out;
  const auto add = [&out](std::optional<std::string> base, std::string_view rest) {
    if (base) out.push_back(text::cat(*base == "/" ? "" : *base, rest));
  };
  add(absolute(context, "XDG_STATE_HOME"), "/sbx");
  add(absolute(context, "HOME"), "/.local/state/sbx");
  add(passwd_home(context), "/.local/state/sbx");
  return out;
}

/// Below XDG_RUNTIME_DIR, when that exists, is ours and is closed to others; sbx does not make it.
Result<Dir> open_session_dir(const PathContext& context) {
  const auto base = absolute(context, "XDG_RUNTIME_DIR");
  if (!base) return Error(Errc::kNotFound, "XDG_RUNTIME_DIR is not set");
  SBX_ASSIGN(const UniqueFd fd, sys::open(*base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_TRY(check_private(*base, fd.get(), context.uid));
  return open_private(text::cat(*base, "/sbx"), context.uid);
}

}  // namespace

PathContext::PathContext() : env(process_env), uid(::geteuid()), is_root(uid == 0) {}

Result<Dir> open_state_dir(const PathContext& context) {
  if (auto named = context.env("SBX_STATE_DIR"); named && !named->empty()) {
    if (named->front() != '/') {
      return Error(
          Errc::kUsage,
          text::cat("SBX_STATE_DIR: \"", text::escape(*named), "\" is not an absolute path"));
    }
    while (named->size() > 1 && named->back() == '/') {
      named->pop_back();
    }
    auto dir = open_private(*named, context.uid);
    if (!dir.ok()) return std::move(dir).error().prefixed("SBX_STATE_DIR");
    return dir;
  }
  std::optional<Error> first;
  for (const std::string& path : state_candidates(context)) {
    auto dir = open_private(path, context.uid);
    if (dir.ok()) return dir;
    if (!first) first = std::move(dir).error();
  }
  if (!first) {
    first = Error(
        Errc::kNotFound,
        text::cat(
            "find a state directory: user ", context.uid, " has no home in ", context.passwd_file));
  }
  if (!first->hint().empty()) return *std::move(first);
  return (*std::move(first)).with_hint("set SBX_STATE_DIR to a directory that you may write");
}

std::optional<std::string> existing_state_dir(const PathContext& context) {
  std::vector<std::string> places = state_candidates(context);
  if (auto named = absolute(context, "SBX_STATE_DIR")) places = {*std::move(named)};
  for (std::string& path : places) {
    const auto st = sys::fstatat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    if (st.ok() && S_ISDIR(st.value().st_mode) && st.value().st_uid == context.uid) {
      return std::move(path);
    }
  }
  return std::nullopt;
}

Result<Dir> open_runtime_dir(const PathContext& context) {
  if (auto dir = open_session_dir(context); dir.ok()) return dir;
  SBX_ASSIGN(const Dir state, open_state_dir(context));
  return open_private(text::cat(state.path, "/run"), context.uid);
}

Result<std::string> id_claim_dir(const PathContext& context) {
  if (open_private(context.system_run, context.uid).ok()) {
    return text::cat(context.system_run, "/ids");
  }
  SBX_ASSIGN(const Dir state, open_state_dir(context));
  return text::cat(state.path, "/ids");
}

Result<std::string> kept_roots_dir(const PathContext& context) {
  if (context.is_root && open_private(context.system_run, context.uid).ok()) {
    return text::cat(context.system_run, "/roots");
  }
  SBX_ASSIGN(const Dir session, open_session_dir(context));
  return text::cat(session.path, "/roots");
}

std::optional<std::string> home_dir(const PathContext& context) {
  if (auto home = absolute(context, "HOME")) return home;
  return passwd_home(context);
}

std::optional<std::string> config_dir(const PathContext& context) {
  if (const auto base = absolute(context, "XDG_CONFIG_HOME")) return text::cat(*base, "/sbx");
  const auto home = home_dir(context);
  if (!home) return std::nullopt;
  return text::cat(*home == "/" ? "" : *home, "/.config/sbx");
}

}  // namespace sbx::host
