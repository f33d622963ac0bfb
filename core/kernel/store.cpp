// Store: see store.h.
#include "core/kernel/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/kernel/place.h"
#include "core/workspace/beneath.h"

namespace sbx::kernel {

namespace {

constexpr std::size_t kLongestName = 100;
constexpr mode_t kOthersWrite = 022;

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Whether nobody but root can have put there what lies there.
Status check_is_roots(int fd, const std::string& what) {
  SBX_ASSIGN(const struct stat st, sys::fstat(fd));
  if (st.st_uid == 0 && (st.st_mode & kOthersWrite) == 0) return {};
  return Error(Errc::kDenied, text::cat(what, ": somebody but root can write there"));
}

/// One kernel of the directory `dir`, which is open as `fd`.
Result<Kernel> read_kernel(int fd,
                           const std::string& dir,
                           const std::string& name,
                           bool is_system) {
  SBX_ASSIGN(const UniqueFd own, workspace::open_entry(fd, name, O_RDONLY | O_DIRECTORY));
  const std::string path = text::cat(dir, "/", name);
  if (is_system) SBX_TRY(check_is_roots(own.get(), path));
  auto text = fs::read_file_at(own.get(), "record.json", kLongestRecord);
  if (!text.ok()) return std::move(text).error().prefixed(path);
  auto record = parse_record(text.value());
  if (!record.ok()) return std::move(record).error().prefixed(path + "/record.json");
  SBX_ASSIGN(const UniqueFd image, workspace::open_regular(own.get(), "vmlinux"));
  if (is_system) SBX_TRY(check_is_roots(image.get(), path + "/vmlinux"));
  Kernel kernel;
  kernel.record = std::move(record).value();
  kernel.record.name = name;
  kernel.vmlinux = path + "/vmlinux";
  kernel.modules_dir = path + "/modules";
  kernel.is_system = is_system;
  return kernel;
}

void list_dir(const std::string& dir,
              bool is_system,
              std::vector<Kernel>& out,
              std::vector<std::string>& problems) {
  const auto fd = sys::open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd.ok()) {
    const int err = fd.error().sys_errno();
    // A user cannot look into root's own.
    const bool is_nothing = err == ENOENT || err == ENOTDIR || (is_system && err == EACCES);
    if (!is_nothing) problems.push_back(fd.error().message());
    return;
  }
  if (is_system) {
    if (const Status roots = check_is_roots(fd.value().get(), dir); !roots.ok()) {
      problems.push_back(roots.error().message());
      return;
    }
  }
  const auto names = workspace::read_names(fd.value().get());
  if (!names.ok()) {
    problems.push_back(names.error().message());
    return;
  }
  for (const std::string& name : names.value()) {
    if (!check_name(name).ok() || is_reserved(name)) continue;
    const bool is_known =
        std::ranges::any_of(out, [&](const Kernel& other) { return other.name() == name; });
    if (is_known) continue;
    auto kernel = read_kernel(fd.value().get(), dir, name, is_system);
    if (kernel.ok()) {
      out.push_back(std::move(kernel).value());
    } else {
      problems.push_back(kernel.error().message());
    }
  }
}

bool is_before(const Kernel& a, const Kernel& b) {
  if (const int order = compare_releases(a.record.release, b.record.release); order != 0) {
    return order > 0;
  }
  if (const int more = count(a.features()) - count(b.features()); more != 0) return more > 0;
  return a.name() < b.name();
}

/// The numbers that a release begins with: 6.1.0-57 of "6.1.0-57-amd64", as texts.
std::vector<std::string_view> numbers_of(std::string_view release) {
  std::vector<std::string_view> out;
  std::size_t at = 0;
  while (at < release.size() && is_digit(release[at])) {
    std::size_t end = at;
    while (end < release.size() && is_digit(release[end])) {
      ++end;
    }
    std::string_view number = release.substr(at, end - at);
    while (number.size() > 1 && number.front() == '0') {
      number.remove_prefix(1);
    }
    out.push_back(number);
    if (end == release.size() || (release[end] != '.' && release[end] != '-')) break;
    at = end + 1;
  }
  return out;
}

Error no_kernel(const std::string& wanted, const std::vector<std::string>& problems) {
  const std::string more = problems.empty() ? std::string() : text::cat("; ", problems.front());
  if (wanted.empty()) {
    return Error(Errc::kNotFound, text::cat("there is no kernel for virtual machines", more))
        .with_hint("sbx kernel install");
  }
  return Error(Errc::kNotFound,
               text::cat("there is no kernel \"", text::escape(wanted), "\"", more));
}

}  // namespace

std::vector<std::string> system_dirs() {
  return {"/var/lib/sbx/kernels", "/usr/local/share/sbx/kernels", "/usr/share/sbx/kernels"};
}

Status check_name(std::string_view name) {
  constexpr std::string_view kAlso = "._+~-";
  const bool is_name = !name.empty() && is_alnum(name.front()) && name.size() <= kLongestName &&
                       std::ranges::all_of(name, [kAlso](char c) {
                         return is_alnum(c) || kAlso.find(c) != std::string_view::npos;
                       });
  if (is_name && !is_reserved(name)) return {};
  return Error(Errc::kUsage, text::cat("\"", text::escape(name), "\" is no name for a kernel"))
      .with_hint("a letter or digit, then letters, digits and . _ + ~ -, e.g. 6.1.0-57-amd64");
}

int compare_releases(std::string_view a, std::string_view b) {
  const auto left = numbers_of(a);
  const auto right = numbers_of(b);
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i].size() != right[i].size()) return left[i].size() < right[i].size() ? -1 : 1;
    if (const int order = left[i].compare(right[i]); order != 0) return order;
  }
  if (left.size() == right.size()) return 0;
  return left.size() < right.size() ? -1 : 1;
}

std::vector<Kernel> list(const std::string& state_dir, std::vector<std::string>& problems) {
  return list(state_dir, system_dirs(), problems);
}

std::vector<Kernel> list(const std::string& state_dir,
                         const std::vector<std::string>& system,
                         std::vector<std::string>& problems) {
  std::vector<Kernel> out;
  const std::string own = kernels_dir(state_dir);
  list_dir(own, false, out, problems);
  for (const std::string& dir : system) {
    if (dir != own) list_dir(dir, true, out, problems);
  }
  std::ranges::sort(out, is_before);
  return out;
}

Result<Kernel> find(const std::string& state_dir, const std::string& wanted) {
  if (!wanted.empty()) SBX_TRY(check_name(wanted));
  std::vector<std::string> problems;
  const std::vector<Kernel> all = list(state_dir, problems);
  std::vector<std::string> names;
  for (const Kernel& kernel : all) {
    if (wanted.empty() || kernel.name() == wanted) return kernel;
    names.push_back(kernel.name());
  }
  Error error = no_kernel(wanted, problems);
  if (wanted.empty()) return error;
  if (names.empty()) return std::move(error).with_hint("sbx kernel install");
  return std::move(error).with_hint(text::cat("there are ", text::join(names, ", ")));
}

Status remove(const std::string& state_dir, const std::string& name) {
  SBX_TRY(check_name(name));
  const std::string dir = kernels_dir(state_dir);
  const Error none(Errc::kNotFound, text::cat("there is no kernel \"", name, "\" in ", dir));
  const auto fd = sys::open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const bool is_there = fd.ok() && sys::fstatat(fd.value().get(), name, AT_SYMLINK_NOFOLLOW).ok();
  if (is_there) {
    SBX_ASSIGN(const UniqueFd lock, take_lock(fd.value().get()));
    return remove_whole(fd.value().get(), name);
  }
  std::vector<std::string> problems;
  for (const Kernel& kernel : list(state_dir, problems)) {
    if (kernel.name() != name) continue;
    return Error(Errc::kDenied, text::cat(kernel.vmlinux, " is the host's, for all users"))
        .with_hint("its administrator can remove the directory");
  }
  return Error(none).with_hint("sbx kernel ls");
}

}  // namespace sbx::kernel
