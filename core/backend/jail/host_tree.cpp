// Host tree: see host_tree.h.
#include "core/backend/jail/host_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::jail {

namespace {

// Names in /etc that programs need and that hold no secret. A trailing '*' matches any rest.
// passwd, group, hosts, hostname, nsswitch.conf and resolv.conf are made by the plan.
// Each costs a few system calls a start, so what no program misses is left out as well.
constexpr auto kEtcAllowed = std::to_array<std::string_view>({
    // dynamic linker, locale, time
    "ld.so.cache",
    "locale.alias",
    "locale.conf",
    "localtime",
    "timezone",
    // databases that libc reads
    "protocols",
    "services",
    // what system this is
    "debian_version",
    "fedora-release",
    "lsb-release",
    "os-release",
    "redhat-release",
    "system-release",
    // shells
    "bash.bashrc",
    "profile",
    // Debian's choices of commands
    "alternatives",
    // certificates of public authorities; never private keys
    "pki",
    "ssl",
    // languages
    "R",
    "java*",
    "lua*",
    "maven",
    "perl",
    "php*",
    "python*",
    "ruby*",
    "tcl*",
    // files by kind, fonts, pictures, documents
    "ImageMagick-*",
    "fonts",
    "mailcap",
    "matplotlibrc",
    "mime.types",
    "texmf",
});

// Directories of which only some entries are shown.
struct Partial {
  std::string_view dir;
  std::array<std::string_view, 4> names;
};
constexpr auto kEtcPartial = std::to_array<Partial>({
    {"ssl", {"certs", "openssl.cnf", "", ""}},
    {"pki", {"ca-trust", "tls/certs", "tls/cert.pem", "java"}},
});

constexpr auto kTop =
    std::to_array<std::string_view>({"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"});

// A file up to this size is copied into the plan; a bind mount would cost more.
constexpr off_t kCopyBelow = off_t{4} << 10;

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) {
    pattern.remove_suffix(1);
    return name.starts_with(pattern);
  }
  return pattern == name;
}

const Partial* partial(std::string_view dir) {
  const auto* found = std::find_if(
      kEtcPartial.begin(), kEtcPartial.end(), [dir](const Partial& p) { return p.dir == dir; });
  return found == kEtcPartial.end() ? nullptr : found;
}

/// One read: the file was just seen to be small, and what it grew by since is not missed.
Result<std::string> read_small(int dirfd, const std::string& name) {
  SBX_ASSIGN(const UniqueFd file, sys::openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  std::string content(static_cast<size_t>(kCopyBelow), '\0');
  SBX_ASSIGN(const size_t got, sys::read(file.get(), content.data(), content.size()));
  content.resize(got);
  return content;
}

/// Adds `path` below `dirfd` as what it is; a name that is not there, or of another kind (socket,
/// device), adds nothing.
Status add_entry(int dirfd,
                 const std::string& name,
                 std::string path,
                 std::vector<HostEntry>& out) {
  const Result<struct stat> info = sys::fstatat(dirfd, name, AT_SYMLINK_NOFOLLOW);
  if (!info.ok()) return {};
  HostEntry entry{std::move(path), EntryKind::kDir, {}, false};
  if (S_ISLNK(info.value().st_mode)) {
    entry.kind = EntryKind::kLink;
    SBX_ASSIGN(entry.text, sys::readlinkat(dirfd, name));
  } else if (S_ISREG(info.value().st_mode)) {
    entry.kind = EntryKind::kFile;
    // What others may not read is not for the job either.
    if ((info.value().st_mode & S_IROTH) == 0) return {};
    if (info.value().st_size < kCopyBelow) {
      Result<std::string> content = read_small(dirfd, name);
      if (!content.ok()) return {};
      entry.text = std::move(content).value();
      entry.is_copied = true;
    }
  } else if (!S_ISDIR(info.value().st_mode)) {
    return {};
  }
  out.push_back(std::move(entry));
  return {};
}

Status add_etc_name(int etc, const std::string& name, std::vector<HostEntry>& out) {
  const Partial* part = partial(name);
  if (part == nullptr) return add_entry(etc, name, text::cat("/etc/", name), out);
  for (const std::string_view inner : part->names) {
    if (inner.empty()) continue;
    const std::string below = text::cat(name, "/", inner);
    SBX_TRY(add_entry(etc, below, text::cat("/etc/", below), out));
  }
  return {};
}

}  // namespace

bool is_etc_allowed(std::string_view name) {
  return std::any_of(kEtcAllowed.begin(), kEtcAllowed.end(), [name](std::string_view pattern) {
    return matches(pattern, name);
  });
}

Result<HostTree> read_host_tree() {
  HostTree tree;
  tree.top.push_back({"/usr", EntryKind::kDir, {}, false});
  for (const std::string_view path : kTop) {
    SBX_TRY(add_entry(AT_FDCWD, std::string(path), std::string(path), tree.top));
  }
  Result<UniqueFd> etc = fs::open_dir("/etc");
  if (!etc.ok()) return tree;  // a host without /etc: everything needed is made
  std::vector<std::string> names;
  const int list = ::fcntl(etc.value().get(), F_DUPFD_CLOEXEC, 3);
  DIR* stream = ::fdopendir(list);
  if (stream == nullptr) return sys_error("list /etc");
  while (const dirent* entry = ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string_view name(static_cast<const char*>(entry->d_name));
    if (is_etc_allowed(name)) names.emplace_back(name);
  }
  (void)::closedir(stream);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    SBX_TRY(add_etc_name(etc.value().get(), name, tree.etc));
  }
  return tree;
}

}  // namespace sbx::jail
