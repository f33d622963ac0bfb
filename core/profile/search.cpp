// Search: opening profile files, and what to say when there is none.
#include "core/profile/search.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/profile/rules.h"
#include "core/profile/trust.h"

namespace sbx::profile {
namespace {

constexpr std::string_view kSuffix = ".yaml";
constexpr Bytes kReadCap{1024UL * 1024};  // the YAML budget is smaller and has better words
constexpr Bytes kPasswdCap{16UL * 1024 * 1024};

/// The home directory of our uid in passwd(5). Static programs must not use getpwuid.
std::string home_from_passwd() {
  const Result<std::string> passwd = fs::read_file("/etc/passwd", kPasswdCap);
  if (!passwd.ok()) return {};
  const std::string uid = std::to_string(::geteuid());
  for (const std::string_view line : text::split(passwd.value(), '\n')) {
    const std::vector<std::string_view> fields = text::split(line, ':');
    if (fields.size() >= 7 && fields[2] == uid && fields[5].starts_with('/')) {
      return std::string(fields[5]);
    }
  }
  return {};
}

/// `path` absolute and without links; as it is when that fails.
std::string canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// The content of an open profile file. Only an explicit path may be a pipe (`-p <(…)`).
Result<std::string> read_open(const UniqueFd& fd, const std::string& path, bool may_be_pipe) {
  SBX_ASSIGN(const struct stat info, sys::fstat(fd.get()));
  if (S_ISDIR(info.st_mode)) return Error(Errc::kUsage, text::cat(path, " is a directory"));
  if (!S_ISREG(info.st_mode) && !(may_be_pipe && S_ISFIFO(info.st_mode))) {
    return Error(Errc::kUsage, text::cat(path, " is no regular file"));
  }
  SBX_TRY(sys::set_nonblocking(fd.get(), false));
  Result<std::string> content = sys::read_all(fd.get(), kReadCap);
  if (content.ok()) return content;
  Error error = std::move(content).error();
  if (error.code() == Errc::kLimit) {
    return Error(Errc::kUsage, text::cat(path, ": a profile is at most ", to_string(kReadCap)));
  }
  return std::move(error).prefixed(text::cat("read ", path));
}

bool is_same_directory(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  const Result<struct stat> one = sys::fstatat(AT_FDCWD, a, 0);
  const Result<struct stat> two = sys::fstatat(AT_FDCWD, b, 0);
  return one.ok() && two.ok() && one.value().st_dev == two.value().st_dev &&
         one.value().st_ino == two.value().st_ino;
}

}  // namespace

bool is_path(std::string_view name_or_path) {
  return name_or_path.find('/') != std::string_view::npos || name_or_path.ends_with(kSuffix) ||
         name_or_path.ends_with(".yml");
}

std::string name_of_path(std::string_view path) {
  std::string_view base = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  for (const std::string_view suffix : {kSuffix, std::string_view(".yml")}) {
    if (base.ends_with(suffix) && base.size() > suffix.size()) base.remove_suffix(suffix.size());
  }
  return std::string(base);
}

std::string home_dir(const EnvLookup& env) {
  const std::optional<std::string> home = env("HOME");
  if (home && home->starts_with('/')) return normal_path(*home);
  return home_from_passwd();
}

SearchDirs search_dirs(const EnvLookup& env) {
  SearchDirs dirs;
  dirs.system = "/etc/sbx/profiles";
  const std::optional<std::string> config = env("XDG_CONFIG_HOME");
  if (config && config->starts_with('/')) {  // relative ones are to be ignored, says the standard
    dirs.user = text::cat(*config, "/sbx/profiles");
  } else if (const std::string home = home_dir(env); !home.empty()) {
    dirs.user = text::cat(home, "/.config/sbx/profiles");
  }
  return dirs;
}

Search::Search(const LoadRequest& request)
    : dirs_(request.dirs ? *request.dirs : search_dirs(request.env)),
      home_(home_dir(request.env)),
      state_dir_(request.state_dir),
      allow_outside_(request.allow_outside) {}

Result<Found> Search::find_in(Layer layer, const std::string& name) const {
  const std::string& dir = dir_of(layer);
  const Error none(Errc::kNotFound, text::cat("no profile ", name, " in ", dir));
  if (dir.empty()) return none;
  // A directory that cannot be entered is as good as none: HOME may be another user's.
  const Result<UniqueFd> dirfd = sys::open(dir, O_PATH | O_DIRECTORY);
  if (!dirfd.ok()) return none;
  const std::string file = text::cat(name, kSuffix);
  const std::string path = text::cat(dir, '/', file);
  Result<UniqueFd> fd = sys::openat(dirfd.value().get(), file, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!fd.ok() && fd.error().sys_errno() == ENOENT) return none;
  if (!fd.ok()) {
    const bool may_search = sys::openat(dirfd.value().get(), ".", O_PATH).ok();
    if (!may_search) return none;
    return sys_error(text::cat("open ", path), fd.error().sys_errno());
  }
  Found found;
  SBX_ASSIGN(found.text, read_open(fd.value(), path, false));
  found.name = name;
  found.layer = layer;
  found.file = path;
  found.dir = dir;
  return found;
}

Result<Found> Search::find_name(const std::string& name, std::optional<Layer> above) const {
  const std::string complaint = name_complaint(name);
  if (!complaint.empty()) {
    return Error(Errc::kUsage, text::cat("profile \"", text::escape(name), "\" ", complaint));
  }
  for (const Layer layer : {Layer::kUser, Layer::kSystem}) {
    const bool is_below =
        !above || (*above == Layer::kUser && layer == Layer::kSystem) || *above == Layer::kFile;
    if (!is_below) continue;
    Result<Found> found = find_in(layer, name);
    if (found.ok() || found.error().code() != Errc::kNotFound) return found;
  }
  if (const Builtin* builtin = find_builtin(name); builtin != nullptr) {
    Found found;
    found.name = name;
    found.layer = Layer::kBuiltin;
    found.file = text::cat(name, kSuffix);
    found.builtin = builtin;
    return found;
  }
  return unknown(name);
}

Result<Found> Search::find_path(const std::string& path) const {
  SBX_ASSIGN(const UniqueFd fd, sys::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  Found found;
  SBX_ASSIGN(found.text, read_open(fd, path, true));
  found.name = name_of_path(path);
  found.file = path;
  // Through a link the file's own directory counts, not the link's. What was read must be the file
  // there: somebody who may write to a part of the path could exchange it meanwhile.
  const std::string real = canonical(path);
  SBX_ASSIGN(const struct stat opened, sys::fstat(fd.get()));
  if (S_ISREG(opened.st_mode)) {
    const Result<struct stat> named = sys::fstatat(AT_FDCWD, real, AT_SYMLINK_NOFOLLOW);
    if (!named.ok() || named.value().st_dev != opened.st_dev ||
        named.value().st_ino != opened.st_ino) {
      return Error(Errc::kDenied, text::cat(path, " was exchanged while it was read"));
    }
  }
  found.dir = parent_of(real);
  if (is_same_directory(found.dir, dirs_.user)) {
    found.layer = Layer::kUser;
  } else if (is_same_directory(found.dir, dirs_.system)) {
    found.layer = Layer::kSystem;
  } else {
    found.is_project = true;
  }
  return found;
}

Result<Found> Search::find(const std::string& name_or_path) const {
  if (name_or_path.empty()) return Error(Errc::kUsage, "the profile's name is empty");
  if (is_path(name_or_path)) return find_path(name_or_path);
  Result<Found> found = find_name(name_or_path, std::nullopt);
  if (found.ok() || found.error().code() != Errc::kNotFound || state_dir_.empty()) return found;
  Result<TrustRecord> record = read_trust(state_dir_, name_or_path);
  if (!record.ok()) {
    return record.error().code() == Errc::kNotFound ? std::move(found)
                                                    : Result<Found>(std::move(record).error());
  }
  const std::string& path = record.value().path;
  Result<Found> trusted = find_path(path);
  if (!trusted.ok()) {
    return std::move(trusted).error().prefixed(text::cat("trusted profile ", name_or_path));
  }
  SBX_TRY(check_trust(record.value(), trusted.value().text));
  trusted.value().name = name_or_path;
  trusted.value().is_project = true;
  trusted.value().layer = Layer::kFile;
  return trusted;
}

std::vector<std::string> Search::names_in(Layer layer) const {
  std::vector<std::string> names;
  const std::string& dir = dir_of(layer);
  if (dir.empty()) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(dir.c_str()), ::closedir);
  if (stream == nullptr) return names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view file = entry->d_name;
    if (!file.ends_with(kSuffix)) continue;
    std::string name(file.substr(0, file.size() - kSuffix.size()));
    if (name_complaint(name).empty()) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Search::all_names() const {
  std::vector<std::string> names = names_in(Layer::kUser);
  for (std::string& name : names_in(Layer::kSystem)) {
    names.push_back(std::move(name));
  }
  for (const Builtin& builtin : builtins()) {
    names.emplace_back(builtin.name);
  }
  for (TrustRecord& record : all_trust(state_dir_)) {
    names.push_back(std::move(record.name));
  }
  return names;
}

Error Search::unknown(const std::string& name) const {
  Error error(Errc::kNotFound, text::cat("there is no profile \"", text::escape(name), '"'));
  if (const auto close = text::closest(name, all_names())) {
    return std::move(error).with_hint(text::cat("did you mean ", *close, "?"));
  }
  for (const std::string_view suffix : {kSuffix, std::string_view(".yml")}) {
    const std::string file = text::cat(name, suffix);
    if (!sys::fstatat(AT_FDCWD, file, 0).ok()) continue;
    return std::move(error).with_hint(text::cat("the file here is given as a path: -p ./", file));
  }
  return std::move(error).with_hint(
      "\"sbx profile ls\" lists them; a file is given as a path, ./NAME.yaml");
}

}  // namespace sbx::profile
