// Store: see store.h.
#include "core/image/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/storage_ids.h"
#include "core/workspace/beneath.h"

namespace sbx::image {

namespace {

constexpr mode_t kOwnDirectory = 0700;
constexpr mode_t kOwnFile = 0600;
constexpr std::string_view kSuffix = ".json";

std::string file_of(std::string_view name) {
  std::string file;
  for (const char c : name) {
    if (c == '/') {
      file += "%2F";
    } else if (c == '%') {
      file += "%25";
    } else {
      file += c;
    }
  }
  return file.append(kSuffix);
}

/// The name of the image that a file of images/ belongs to; nullopt for other files.
std::optional<std::string> name_of(std::string_view file) {
  if (!file.ends_with(kSuffix)) return std::nullopt;
  file.remove_suffix(kSuffix.size());
  std::string name;
  while (!file.empty()) {
    if (file.starts_with("%2F")) {
      name += '/';
      file.remove_prefix(3);
    } else if (file.front() == '%') {
      return std::nullopt;  // no name has one
    } else {
      name += file.front();
      file.remove_prefix(1);
    }
  }
  if (!check_name(name).ok()) return std::nullopt;
  return name;
}

Status make_dir(int parent, const std::string& name) {
  Status made = sys::mkdirat(parent, name, kOwnDirectory);
  if (!made.ok() && made.error().code() == Errc::kExists) return {};
  return made;
}

Result<std::vector<std::string>> files_of(int images) {
  SBX_ASSIGN(const UniqueFd again, sys::openat(images, ".", O_RDONLY | O_DIRECTORY));
  SBX_ASSIGN(std::vector<std::string> files, workspace::read_names(again.get()));
  // Those with a dot in front are being written.
  std::erase_if(files, [](const std::string& file) {
    return file.starts_with('.') || !file.ends_with(kSuffix);
  });
  std::ranges::sort(files);
  return files;
}

Result<Record> read_record(int images, const std::string& file) {
  SBX_ASSIGN(const std::string text, fs::read_file_at(images, file, kLongestRecord));
  return parse_record(text);
}

Result<std::vector<std::string>> used_in(int images) {
  SBX_ASSIGN(const std::vector<std::string> files, files_of(images));
  std::vector<std::string> used;
  for (const std::string& file : files) {
    auto record = read_record(images, file);
    if (!record.ok()) {
      if (record.error().sys_errno() == ENOENT) continue;  // removed meanwhile
      return std::move(record).error().prefixed(text::cat("images/", text::escape(file)));
    }
    for (LayerRef& layer : record.value().layers) {
      used.push_back(std::move(layer.id));
    }
  }
  std::ranges::sort(used);
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

Error no_such(std::string_view name, const std::vector<std::string>& names) {
  Error error(Errc::kNotFound, text::cat("no image \"", text::escape(name), "\""));
  if (const auto near = text::closest(name, names)) {
    return std::move(error).with_hint(text::cat("did you mean ", *near, "?"));
  }
  return std::move(error).with_hint(
      text::cat("sbx image ls lists them; sbx image import FILE ",
                check_name(name).ok() ? name : std::string_view("NAME"),
                " makes one"));
}

Error layer_gone(const Record& record, const std::string& id) {
  return Error(Errc::kNotFound, text::cat("image ", record.name, ": its layer ", id, " is gone"))
      .with_hint(text::cat("get the image anew under the same name; it came from: ",
                           text::escape(record.source)));
}

/// A hold on a layer that nobody removes: nullopt when it is on its way out or was replaced.
Result<std::optional<UniqueFd>> hold(int layers, const std::string& id) {
  SBX_ASSIGN(UniqueFd dir, sys::openat(layers, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  int done = -1;
  do {
    done = ::flock(dir.get(), LOCK_SH | LOCK_NB);
  } while (done != 0 && errno == EINTR);
  if (done != 0 && errno == EWOULDBLOCK) return std::optional<UniqueFd>();
  if (done != 0) return sys_error(text::cat("lock layer ", id));
  // Removed between the opening and the lock?
  SBX_ASSIGN(const struct stat held, sys::fstat(dir.get()));
  const auto now = sys::fstatat(layers, id, AT_SYMLINK_NOFOLLOW);
  const bool is_same =
      now.ok() && now.value().st_ino == held.st_ino && now.value().st_dev == held.st_dev;
  if (!is_same) return std::optional<UniqueFd>();
  return std::optional(std::move(dir));
}

/// Takes hold of every layer of `into.record`; false when one of them is being removed.
Result<bool> hold_all(const Store& store, Opened& into) {
  for (const LayerRef& layer : into.record.layers) {
    if (!workspace::is_layer_id(layer.id)) {
      return Error(Errc::kProtocol,
                   text::cat("image ", into.record.name, ": its record names a strange layer"));
    }
    auto held = hold(store.layers(), layer.id);
    if (!held.ok()) {
      if (held.error().code() != Errc::kNotFound) return std::move(held).error();
      return layer_gone(into.record, layer.id);
    }
    if (!held.value().has_value()) return false;
    into.held.push_back(*std::move(held).value());
    into.layer_dirs.push_back(text::cat(store.layers_dir(), "/", layer.id, "/fs/root"));
  }
  return true;
}

}  // namespace

Result<Store> Store::open(const std::string& state_dir) {
  const fs::OwnerUmask mask;
  SBX_ASSIGN(const UniqueFd state, fs::open_dir(state_dir));
  for (const char* name : {"images", "layers", "sessions"}) {
    SBX_TRY(make_dir(state.get(), name));
  }
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
  SBX_ASSIGN(UniqueFd images, sys::openat(state.get(), "images", kFlags));
  SBX_ASSIGN(UniqueFd layers, sys::openat(state.get(), "layers", kFlags));
  return Store(state_dir, std::move(images), std::move(layers));
}

std::string Store::layers_dir() const {
  return state_dir_ + "/layers";
}

std::vector<std::string> Store::names() const {
  const auto files = files_of(images_.get());
  std::vector<std::string> names;
  if (!files.ok()) return names;
  for (const std::string& file : files.value()) {
    if (auto name = name_of(file)) names.push_back(*std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

Result<Record> Store::find(std::string_view name) const {
  if (!check_name(name).ok()) return no_such(name, names());
  auto record = read_record(images_.get(), file_of(name));
  if (record.ok()) {
    record.value().name = name;
    return record;
  }
  if (record.error().sys_errno() == ENOENT) return no_such(name, names());
  return std::move(record).error().prefixed(text::cat("image ", name));
}

Result<std::vector<Record>> Store::list(std::vector<std::string>& problems) const {
  SBX_ASSIGN(const std::vector<std::string> files, files_of(images_.get()));
  std::vector<std::pair<Record, std::string>> found;
  for (const std::string& file : files) {
    const std::optional<std::string> name = name_of(file);
    if (!name.has_value()) continue;
    auto record = read_record(images_.get(), file);
    if (!record.ok() && record.error().sys_errno() == ENOENT) continue;  // removed meanwhile
    found.emplace_back(record.ok() ? std::move(record).value() : Record(),
                       record.ok() ? std::string() : record.error().message());
    found.back().first.name = *name;
  }
  std::ranges::sort(found, {}, [](const auto& each) { return each.first.name; });
  std::vector<Record> records;
  problems.clear();
  for (auto& [record, problem] : found) {
    records.push_back(std::move(record));
    problems.push_back(std::move(problem));
  }
  return records;
}

Status Store::put(const Record& record, const workspace::LayersLock& /*lock*/) const {
  SBX_TRY(check_name(record.name));
  if (record.layers.size() > kMostLayers) {
    return Error(Errc::kLimit,
                 text::cat("image ",
                           record.name,
                           " has ",
                           record.layers.size(),
                           " layers; more than ",
                           kMostLayers,
                           " cannot be stacked"));
  }
  for (const LayerRef& layer : record.layers) {
    const bool is_there = workspace::is_layer_id(layer.id) &&
                          sys::fstatat(layers_.get(), layer.id, AT_SYMLINK_NOFOLLOW).ok();
    if (!is_there) return layer_gone(record, text::escape(layer.id));
  }
  const std::string text = to_json(record);
  if (text.size() > kLongestRecord.v) {
    return Error(Errc::kLimit,
                 text::cat("image ",
                           record.name,
                           ": its settings have more than ",
                           sbx::to_string(kLongestRecord)));
  }
  const fs::OwnerUmask mask;
  Status written = fs::write_atomic(images_.get(), file_of(record.name), text, kOwnFile);
  if (written.ok()) return {};
  return std::move(written).error().prefixed(text::cat("image ", record.name));
}

Status Store::remove(std::string_view name) const {
  if (!check_name(name).ok()) return no_such(name, names());
  Status removed = sys::unlinkat(images_.get(), file_of(name));
  if (!removed.ok()) {
    if (removed.error().sys_errno() == ENOENT) return no_such(name, names());
    return std::move(removed).error().prefixed(text::cat("image ", name));
  }
  return sys::fsync(images_.get());
}

Result<std::vector<std::string>> Store::used_layers() const {
  return used_in(images_.get());
}

Result<std::vector<std::string>> layers_of_images(const std::string& state_dir) {
  const auto images = sys::open(state_dir + "/images", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (images.ok()) return used_in(images.value().get());
  if (images.error().sys_errno() == ENOENT) return std::vector<std::string>();
  return images.error();
}

Result<Opened> open_image(const std::string& state_dir, std::string_view name) {
  constexpr int kTries = 100;
  SBX_ASSIGN(const confine::StorageIds ids, confine::storage_ids());
  static_cast<void>(ids);
  SBX_ASSIGN(const Store store, Store::open(state_dir));
  for (int i = 0; i < kTries; ++i) {
    Opened opened;
    SBX_ASSIGN(opened.record, store.find(name));
    SBX_ASSIGN(const bool is_whole, hold_all(store, opened));
    if (is_whole) return opened;
    // A layer that a name has is never removed: the name was taken away, or given to another
    // image, after it was read.
  }
  return Error(Errc::kTimeout, text::cat("image ", text::escape(name), " changes all the time"))
      .with_hint("try again");
}

}  // namespace sbx::image
