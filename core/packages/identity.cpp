// Identity: see identity.h.
#include "core/packages/identity.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/program.h"

namespace sbx::packages {

namespace {

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

bool is_archive(std::string_view name) {
  constexpr std::array<std::string_view, 5> kSuffixes{
      ".whl", ".tgz", ".tar.gz", ".zip", ".tar.bz2"};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(), [name](std::string_view suffix) {
    return name.ends_with(suffix);
  });
}

/// Where the host has the program that the sandbox would find under this name.
std::string find_inside(const std::string& word) {
  if (word.starts_with('/')) return word;
  for (const std::string_view dir : text::split(run::kInsidePath, ':')) {
    std::string path = text::cat(dir, '/', word);
    if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0) return path;
  }
  return {};
}

std::string time_text(const timespec& time) {
  return text::cat(time.tv_sec, '.', time.tv_nsec);
}

}  // namespace

std::string interpreter_word(Kind kind, const profile::Language& language) {
  if (kind_of(language) == kind) return language.interpreter.front();
  return kind == Kind::kPip ? "python3" : "node";
}

Result<std::string> interpreter_identity(Kind kind,
                                         const profile::Profile& profile,
                                         const std::string& image_id) {
  const std::string word = interpreter_word(kind, profile.language);
  if (!image_id.empty()) return text::cat(image_id, ' ', word);
  const bool is_own = kind_of(profile.language) == kind && !profile.language.path.path.empty();
  const std::string path = is_own ? profile.language.path.path : find_inside(word);
  const std::unique_ptr<char, decltype(&std::free)> real(
      path.empty() ? nullptr : ::realpath(path.c_str(), nullptr), &std::free);
  if (!real) {
    const bool is_pip = kind == Kind::kPip;
    return Error(
               Errc::kUnsupported,
               text::cat("packages: this host has no ", text::escape(word), " to add packages to"))
        .with_hint(is_pip ? "apt-get install python3 python3-pip" : "apt-get install nodejs npm");
  }
  SBX_ASSIGN(const struct stat info, sys::fstatat(AT_FDCWD, real.get(), 0));
  return text::cat(path, ' ', real.get(), ' ', info.st_size, ' ', time_text(info.st_mtim));
}

Result<UniqueFd> open_source(const profile::HostPath& source) {
  const auto wrong = [&source](Error error) {
    return std::move(error)
        .prefixed("packages.source")
        .with_code(Errc::kUsage)
        .with_hint(
            text::cat("make it: mkdir ", text::escape(source.path), ", and put archives in"));
  };
  if (source.beneath.empty()) {
    auto dir = sys::open(source.path, O_RDONLY | O_DIRECTORY);
    if (!dir.ok()) return wrong(std::move(dir).error());
    return dir;
  }
  SBX_ASSIGN(const UniqueFd project, sys::open(source.beneath, O_PATH | O_DIRECTORY));
  const std::string rel = source.path.size() == source.beneath.size()
                              ? "."
                              : source.path.substr(source.beneath.size() + 1);
  auto dir = sys::openat2(
      project.get(), rel, O_RDONLY | O_DIRECTORY, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
  if (!dir.ok()) return wrong(std::move(dir).error());
  return dir;
}

Result<std::string> source_state(int dir) {
  SBX_ASSIGN(UniqueFd again, sys::openat(dir, ".", O_RDONLY | O_DIRECTORY));
  const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(again.get()));
  if (!stream) return sys_error("read packages.source");
  (void)again.release();
  std::vector<std::string> lines;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string name = static_cast<const char*>(entry->d_name);
    if (!is_archive(name)) continue;
    const auto info = sys::fstatat(dir, name, 0);
    if (!info.ok()) continue;
    lines.push_back(text::cat(name,
                              ' ',
                              info.value().st_size,
                              ' ',
                              info.value().st_ino,
                              ' ',
                              time_text(info.value().st_mtim)));
  }
  std::sort(lines.begin(), lines.end());
  return text::join(lines, "\n");
}

}  // namespace sbx::packages
