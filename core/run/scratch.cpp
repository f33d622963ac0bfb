// Scratch: see scratch.h.
#include "core/run/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/process_identity.h"
#include "core/run/state_json.h"

#include <nlohmann/json.hpp>

namespace sbx::run {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNotes = "scratch";
constexpr std::size_t kRandom = 12;
constexpr mode_t kPrivate = 0700;

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

struct Note {
  std::string parent;
  std::string name;
  confine::ProcessIdentity process;
};

std::string note_name(const std::string& scratch) {
  return scratch.substr(1) + ".json";  // not hidden
}

/// Written without fsync: it is for kill -9, and a machine that stops loses the scratch directory's
/// content as well.
Status write_note(int dir, const std::string& parent, const std::string& name) {
  SBX_ASSIGN(const auto self, confine::identity_of(::getpid()));
  const Json object{{"format", kStateFormat},
                    {"parent", parent},
                    {"name", name},
                    {"process", identity_json<Json>(self)}};
  constexpr mode_t kOwn = 0600;
  SBX_ASSIGN(const UniqueFd file,
             sys::openat(dir, note_name(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, kOwn));
  return sys::write_all(file.get(), dump_line(object) + "\n");
}

/// The directory of notes goes with the last one; whoever writes one makes it.
void forget_note(int dir, const std::string& file) {
  static_cast<void>(sys::unlinkat(dir, file));
  static_cast<void>(sys::unlinkat(dir, text::cat("../", kNotes), AT_REMOVEDIR));
}

/// The directory of notes with the new note in it; invalid when that was not possible: without a
/// state directory, or on a full disk, a run is not worse off than without a note.
UniqueFd add_note(const std::string& state_dir,
                  const std::string& parent,
                  const std::string& name) {
  constexpr int kTries = 8;  // it may be removed between our two calls
  const auto state = state_dir.empty() ? Result<UniqueFd>(UniqueFd()) : fs::open_dir(state_dir);
  if (!state.ok() || !state.value().valid() || parent.empty() || !text::is_utf8(parent)) return {};
  const fs::OwnerUmask mask;
  for (int i = 0; i < kTries; ++i) {
    static_cast<void>(sys::mkdirat(state.value().get(), kNotes, kPrivate));
    auto notes = sys::openat(state.value().get(), kNotes, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (notes.ok() && write_note(notes.value().get(), parent, name).ok()) {
      return std::move(notes).value();
    }
  }
  return {};
}

bool is_scratch_name(std::string_view name) {
  const std::string_view prefix = kScratchPrefix;
  return name.size() == prefix.size() + kRandom && name.starts_with(prefix) &&
         name.find('/') == std::string_view::npos;
}

bool read_note(int dir, const std::string& file, Note& note) {
  constexpr Bytes kLongest{std::uint64_t{64} << 10U};
  const auto text = fs::read_file_at(dir, file, kLongest);
  if (!text.ok()) return false;
  const Json object = Json::parse(text.value(), nullptr, false);
  Reader<Json> reader(object);
  reader.text("parent", note.parent);
  reader.text("name", note.name);
  const auto process = read_identity(reader.find("process"));
  if (!reader.ok() || !process.has_value() || !is_scratch_name(note.name)) return false;
  note.process = *process;
  return true;
}

/// Whether there is a directory of ours at the noted place.
bool is_there(const UniqueFd& parent, const std::string& name) {
  const auto st = sys::fstatat(parent.get(), name, AT_SYMLINK_NOFOLLOW);
  return st.ok() && st.value().st_uid == ::geteuid();
}

/// A note that sbx was killed in the middle of: its directory was not made yet. It may also be one
/// that is being written just now.
void remove_broken(int dir, const std::string& file, Reclaim how) {
  constexpr std::int64_t kHour = 3600;
  const auto st = sys::fstatat(dir, file, AT_SYMLINK_NOFOLLOW);
  const std::int64_t now = realtime_ns() / 1'000'000'000;
  if (how == Reclaim::kRemove && st.ok() && now - st.value().st_mtim.tv_sec > kHour) {
    static_cast<void>(sys::unlinkat(dir, file));
  }
}

std::vector<std::string> notes_in(int dir) {
  std::vector<std::string> names;
  auto again = sys::openat(dir, ".", O_RDONLY | O_DIRECTORY);
  if (!again.ok()) return names;
  const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(again.value().get()));
  if (!stream) return names;
  static_cast<void>(again.value().release());
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (!name.starts_with('.')) names.emplace_back(name);
  }
  return names;
}

}  // namespace

std::string absolute_path(const std::string& path) {
  if (path.starts_with('/')) return path;
  const std::unique_ptr<char, void (*)(void*)> here(::getcwd(nullptr, 0), std::free);
  if (!here || *here != '/') return {};
  const std::string base(here.get());
  return path == "." ? base : text::cat(base == "/" ? "" : base, "/", path);
}

Result<Scratch> Scratch::reserve(const std::string& parent, const std::string& state_dir) {
  Scratch scratch;
  SBX_ASSIGN(UniqueFd base, fs::open_dir(parent));
  scratch.name_ = kScratchPrefix + fs::random_name(kRandom);
  scratch.path_ = text::cat(parent, "/", scratch.name_);
  scratch.notes_ = add_note(state_dir, absolute_path(parent), scratch.name_);
  scratch.parent_ = std::move(base);
  return scratch;
}

Result<Scratch> Scratch::create(const std::string& parent, const std::string& state_dir) {
  SBX_ASSIGN(Scratch scratch, reserve(parent, state_dir));
  const fs::OwnerUmask mask;
  const Status made = sys::mkdirat(scratch.parent_.get(), scratch.name_, kPrivate);
  if (!made.ok()) return Error(made.error()).prefixed(text::cat("in ", parent));
  SBX_ASSIGN(
      scratch.fd_,
      sys::openat(scratch.parent_.get(), scratch.name_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_ASSIGN(const struct stat st, sys::fstat(scratch.fd_.get()));
  if (st.st_uid != ::geteuid()) {
    scratch.parent_.reset();
    return Error(Errc::kDenied, text::cat(scratch.path_, " was replaced by somebody else"));
  }
  return scratch;
}

Scratch::~Scratch() {
  static_cast<void>(remove());
}

Status Scratch::remove() {
  if (!parent_.valid()) return {};
  const UniqueFd parent = std::move(parent_);
  fd_.reset();
  SBX_TRY(fs::remove_tree(parent.get(), name_));
  if (notes_.valid()) forget_note(notes_.get(), note_name(name_));
  return {};
}

std::vector<std::string> reclaim_scratch(const std::string& state_dir, Reclaim how) {
  std::vector<std::string> found;
  if (state_dir.empty()) return found;
  const auto notes =
      sys::open(text::cat(state_dir, "/", kNotes), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!notes.ok()) return found;
  for (const std::string& file : notes_in(notes.value().get())) {
    Note note;
    if (!read_note(notes.value().get(), file, note)) {
      remove_broken(notes.value().get(), file, how);
      continue;
    }
    if (confine::life_of(note.process) != confine::Life::kGone) continue;
    const auto parent = fs::open_dir(note.parent);
    const bool is_left = parent.ok() && is_there(parent.value(), note.name);
    if (is_left) found.push_back(text::cat(note.parent, "/", note.name));
    if (how == Reclaim::kDryRun) continue;
    if (is_left && !fs::remove_tree(parent.value().get(), note.name).ok()) continue;
    forget_note(notes.value().get(), file);
  }
  return found;
}

}  // namespace sbx::run
