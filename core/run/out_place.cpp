// Out place: see out_place.h.
#include "core/run/out_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/artifact_tree.h"
#include "core/run/artifacts.h"
#include "core/run/scratch.h"
#include "core/run/state_json.h"

#include <nlohmann/json.hpp>

namespace sbx::run {

namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kLongestManifest{std::uint64_t{32} << 20U};
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// A name as a manifest shows it.
std::string shown(const std::string& path) {
  return text::is_utf8(path) ? path : text::escape(path);
}

/// The files that a manifest says are beside it. False when it is no complete one.
bool read_manifest(const std::string& text, std::set<std::string>& files) {
  const Json manifest = Json::parse(text, nullptr, false);
  if (!manifest.is_object()) return false;
  const auto complete = manifest.find("complete");
  const auto artifacts = manifest.find("artifacts");
  if (complete == manifest.end() || !complete->is_boolean() || !complete->get<bool>()) return false;
  if (artifacts == manifest.end() || !artifacts->is_array()) return false;
  for (const Json& item : *artifacts) {
    Reader<Json> reader(item);
    if (reader.find("sha256") == nullptr) continue;  // not copied
    std::string path;
    reader.text(reader.find("saved_as") != nullptr ? "saved_as" : "path", path);
    if (!reader.ok()) return false;
    files.insert(std::move(path));
  }
  return true;
}

Removal left(std::string why) {
  return {.end = Removal::End::kLeft, .why = std::move(why)};
}

Removal failed(const Error& error) {
  return {.end = Removal::End::kFailed, .why = error.message()};
}

struct Found {
  UniqueFd parent;
  std::string parent_path;
  std::string name;
  struct stat st {};
};

Removal remove_archive(const Found& found, const OutPlace& place) {
  const std::int64_t mtime_ns = found.st.st_mtim.tv_sec * kNsPerSecond + found.st.st_mtim.tv_nsec;
  const bool is_same = S_ISREG(found.st.st_mode) && found.st.st_ino == place.inode &&
                       static_cast<std::uint64_t>(found.st.st_size) == place.bytes &&
                       mtime_ns == place.mtime_ns;
  if (!is_same) return left("it is not the file that the run made any more");
  const Status removed = sys::unlinkat(found.parent.get(), found.name);
  return removed.ok() ? Removal{.end = Removal::End::kRemoved, .why = {}} : failed(removed.error());
}

Removal remove_directory(const Found& found, const OutPlace& place, const std::string& state_dir) {
  const std::string other = "it is not the directory that the run made any more";
  if (!S_ISDIR(found.st.st_mode) || found.st.st_ino != place.inode) return left(other);
  const auto dir = sys::openat(found.parent.get(), found.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!dir.ok()) return failed(dir.error());
  const auto opened = sys::fstat(dir.value().get());
  if (!opened.ok() || opened.value().st_ino != place.inode) return left(other);
  if (std::string why = why_not_ours(dir.value().get(), place.digest); !why.empty()) {
    return left(std::move(why));
  }
  // Out of sight first, so that nobody ever sees half of it.
  auto scratch = Scratch::reserve(found.parent_path, state_dir);
  if (!scratch.ok()) return failed(scratch.error());
  const Status moved = sys::renameat(
      found.parent.get(), found.name, found.parent.get(), scratch.value().name(), RENAME_NOREPLACE);
  if (!moved.ok()) return failed(moved.error());
  const Status removed = scratch.value().remove();
  return removed.ok() ? Removal{.end = Removal::End::kRemoved, .why = {}} : failed(removed.error());
}

}  // namespace

std::string why_not_ours(int dir, const std::string& manifest_sha256) {
  const auto st = sys::fstat(dir);
  if (!st.ok() || st.value().st_uid != ::geteuid()) return "it belongs to somebody else";
  const auto manifest = fs::read_file_at(dir, kManifestName, kLongestManifest);
  if (!manifest.ok()) return text::cat("no manifest: ", manifest.error().message());
  if (!manifest_sha256.empty()) {
    Sha256 hash;
    hash.update(manifest.value());
    if (hash.hex() != manifest_sha256) return "its manifest.json is another one";
  }
  std::set<std::string> files{kManifestName};
  if (!read_manifest(manifest.value(), files)) return "its manifest.json is not a complete one";
  ArtifactRequest request;
  request.work_dir = dir;
  const auto there = find_artifacts(request);
  if (!there.ok()) return there.error().message();
  if (!there.value().is_complete) return "it holds too much";
  for (const Artifact& item : there.value().items) {
    if (item.type == ArtifactType::kDirectory) continue;
    if (item.type != ArtifactType::kFile || !files.contains(shown(item.path))) {
      return text::cat("it holds ", item.path, ", which the run did not make");
    }
  }
  return {};
}

bool is_there(const OutPlace& place) {
  const auto st = sys::fstatat(AT_FDCWD, place.path, AT_SYMLINK_NOFOLLOW);
  return st.ok() && st.value().st_ino == place.inode;
}

Removal remove_place(const OutPlace& place, const std::string& state_dir) {
  if (place.kind == OutPlace::Kind::kShared || !place.path.starts_with('/')) return left("shared");
  const std::size_t slash = place.path.rfind('/');
  Found found;
  found.parent_path = slash == 0 ? "/" : place.path.substr(0, slash);
  found.name = place.path.substr(slash + 1);
  if (found.name.empty() || found.name == "." || found.name == "..") return left("no name");
  auto parent = fs::open_dir(found.parent_path);
  if (!parent.ok()) {
    return parent.error().code() == Errc::kNotFound ? Removal{} : failed(parent.error());
  }
  found.parent = std::move(parent).value();
  const auto st = sys::fstatat(found.parent.get(), found.name, AT_SYMLINK_NOFOLLOW);
  if (!st.ok()) return st.error().code() == Errc::kNotFound ? Removal{} : failed(st.error());
  found.st = st.value();
  if (found.st.st_uid != ::geteuid()) return left("it belongs to somebody else");
  return place.kind == OutPlace::Kind::kArchive ? remove_archive(found, place)
                                                : remove_directory(found, place, state_dir);
}

}  // namespace sbx::run
