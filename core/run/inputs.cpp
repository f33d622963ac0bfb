// Inputs: names, conflicts and readability of what goes in.
#include "core/run/inputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::run {

namespace {

constexpr std::string_view kWork = "/work/";
constexpr std::string_view kProc = "/proc";
constexpr Bytes kLongestProcFile{std::uint64_t{64} << 20U};

bool exists(const std::string& path) {
  return !path.empty() && sys::fstatat(AT_FDCWD, path, 0).ok();
}

/// Absolute, without links, dots and doubled slashes.
Result<std::string> real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                             &std::free);
  if (!resolved) return sys_error(text::cat("input ", path));
  return std::string(resolved.get());
}

std::string base_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

bool is_below(std::string_view path, std::string_view dir) {
  if (dir == "/") return true;
  return path == dir || (path.starts_with(dir) && path[dir.size()] == '/');
}

Status check_name(const std::string& name, const std::string& spec) {
  const bool is_bad = name.empty() || name == "." || name == ".." || name.size() > NAME_MAX ||
                      name.find('/') != std::string::npos;
  if (!is_bad) return {};
  return Error(Errc::kUsage, text::cat("input ", spec, ": \"", name, "\" is no name for /work"))
      .with_hint("give it one name without a slash: -i HOST=NAME");
}

/// A file of /proc has no size and no content but what reads make of it; one that would make us
/// wait for more (kmsg) has no more.
Result<std::string> read_proc_file(const std::string& path) {
  SBX_ASSIGN(const UniqueFd fd, sys::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  constexpr std::size_t kChunk = std::size_t{64} << 10U;
  std::vector<char> buffer(kChunk);
  std::string content;
  for (;;) {
    const auto size = sys::read(fd.get(), buffer.data(), buffer.size());
    if (!size.ok() && size.error().sys_errno() != EAGAIN) return size.error();
    if (!size.ok() || size.value() == 0) return content;
    content.append(buffer.data(), size.value());
    if (content.size() > kLongestProcFile.v) {
      return Error(Errc::kLimit, text::cat("is longer than ", to_string(kLongestProcFile)));
    }
  }
}

std::string kind_name(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISDIR(mode)) return "a directory";
  return "a device";
}

}  // namespace

Status Inputs::add(const std::string& spec) {
  if (spec.empty()) {
    return Error(Errc::kUsage, "input: the name is empty").with_hint("-i HOST or -i HOST=NAME");
  }
  if (exists(spec)) return add_path(spec, {}, Wanted::kAny);
  std::size_t cut = spec.rfind('=');
  const std::size_t last = cut;
  while (cut != std::string::npos && cut > 0 && !exists(spec.substr(0, cut))) {
    cut = spec.rfind('=', cut - 1);
  }
  if (cut == std::string::npos || cut == 0) cut = last;
  if (cut == std::string::npos) return add_path(spec, {}, Wanted::kAny);
  std::string name = spec.substr(cut + 1);
  if (name.starts_with(kWork)) name.erase(0, kWork.size());
  SBX_TRY(check_name(name, spec));
  return add_path(spec.substr(0, cut), std::move(name), Wanted::kAny);
}

Status Inputs::add_script(const std::string& path, std::string name) {
  return add_path(path, std::move(name), Wanted::kRegularFile);
}

Status Inputs::add_path(const std::string& host, std::string name, Wanted wanted) {
  SBX_ASSIGN(const std::string real, real_path(host));
  if (name.empty()) {
    // The name that was given, not that of the link's target; "." and ".." have none of their own.
    name = base_name(host);
    if (name == "." || name == "..") name = base_name(real);
    SBX_TRY(check_name(name, host));
  }
  SBX_ASSIGN(const struct stat st, sys::fstatat(AT_FDCWD, real, AT_SYMLINK_NOFOLLOW));
  const bool is_dir = S_ISDIR(st.st_mode);
  const bool is_live = is_below(real, kProc);
  if (is_live && (is_dir || wanted == Wanted::kRegularFile)) {
    return Error(Errc::kUsage, text::cat("input ", host, ": is in the host's /proc"))
        .with_hint("only single files of /proc can be inputs; their content is copied");
  }
  if (!S_ISREG(st.st_mode) && (!is_dir || wanted == Wanted::kRegularFile)) {
    return Error(Errc::kUsage, text::cat("input ", host, ": is ", kind_name(st.st_mode)))
        .with_hint(wanted == Wanted::kRegularFile ? "name a script file, or - for one on stdin"
                                                  : "only files and directories can be inputs");
  }
  if (::faccessat(AT_FDCWD, real.c_str(), is_dir ? R_OK | X_OK : R_OK, AT_EACCESS) != 0) {
    return sys_error(text::cat("input ", host))
        .with_hint(text::cat("make it readable: chmod ", is_dir ? "u+rx " : "u+r ", host));
  }
  SBX_TRY(check_private(real, is_dir));
  if (is_live) {
    auto content = read_proc_file(real);
    if (!content.ok()) return std::move(content).error().prefixed(text::cat("input ", host));
    SBX_TRY(claim(name, host));
    files_.push_back({.path = text::cat(kWork, name), .content = std::move(content).value()});
    return {};
  }
  SBX_TRY(claim(name, host));
  mounts_.push_back({.host_path = real, .name = std::move(name), .is_dir = is_dir});
  return {};
}

Status Inputs::check_private(const std::string& real, bool is_dir) const {
  for (const std::string& dir : private_dirs_) {
    if (is_below(real, dir) || (is_dir && is_below(dir, real))) {
      return Error(Errc::kUsage, text::cat("input ", real, ": holds or lies in sbx's own ", dir))
          .with_hint("choose a directory below it, or set SBX_STATE_DIR to another place");
    }
  }
  return {};
}

Status Inputs::add_text(const std::string& name, std::string content) {
  const bool is_absolute = name.starts_with('/');
  if (!is_absolute) {
    SBX_TRY(check_name(name, name));
    SBX_TRY(claim(name, "the program's code"));
  }
  files_.push_back(
      {.path = is_absolute ? name : text::cat(kWork, name), .content = std::move(content)});
  return {};
}

Status Inputs::claim(const std::string& name, const std::string& what) {
  const auto taken = std::find_if(
      claims_.begin(), claims_.end(), [&](const Claim& claim) { return claim.name == name; });
  if (taken != claims_.end()) {
    return Error(Errc::kUsage,
                 text::cat("input ", what, ": /work/", name, " is already taken by ", taken->what))
        .with_hint("give one of them another name: -i HOST=NAME");
  }
  claims_.push_back({.name = name, .what = what});
  return {};
}

std::vector<std::string> Inputs::names() const {
  std::vector<std::string> names;
  names.reserve(claims_.size());
  for (const Claim& claim : claims_) {
    names.push_back(claim.name);
  }
  return names;
}

}  // namespace sbx::run
