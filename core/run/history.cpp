// History: see history.h.
#include "core/run/history.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::run {

namespace {

constexpr std::string_view kEnding = ".json";
constexpr Bytes kLongest{std::uint64_t{8} << 20U};
constexpr mode_t kOwnFile = 0600;
constexpr mode_t kOwnDirectory = 0700;

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

/// What the name of a record's file says.
struct Key {
  std::uint64_t sequence = 0;
  std::string id;
};

std::string file_name(const Key& key) {
  constexpr std::size_t kDigits = 8;  // so that `ls` sorts them for the first hundred million
  std::string digits = text::cat(key.sequence);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return text::cat(digits, "-", key.id, kEnding);
}

std::optional<Key> parse_name(std::string_view name) {
  if (!name.ends_with(kEnding)) return std::nullopt;
  name.remove_suffix(kEnding.size());
  Key key;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), key.sequence);
  if (error != std::errc()) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(stop - name.data()));
  if (name.size() < 2 || name.front() != '-') return std::nullopt;
  key.id = name.substr(1);
  return key;
}

/// Names in the directory: records, and temporary files.
struct Names {
  std::vector<Key> keys;
  std::vector<std::string> temporary;
};

Result<Names> read_names(int dir) {
  SBX_ASSIGN(UniqueFd again, sys::openat(dir, ".", O_RDONLY | O_DIRECTORY));
  const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(again.get()));
  if (!stream) return sys_error("read the records of runs");
  static_cast<void>(again.release());
  Names names;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name.starts_with(".sbx-")) {
      names.temporary.emplace_back(name);
    } else if (auto key = parse_name(name)) {
      names.keys.push_back(*std::move(key));
    }
  }
  return names;
}

/// A temporary file lives for milliseconds; one of an hour ago has no writer any more.
void remove_old(int dir, const std::string& name) {
  constexpr std::int64_t kHour = 3600;
  const auto st = sys::fstatat(dir, name, AT_SYMLINK_NOFOLLOW);
  const std::int64_t now = realtime_ns() / 1'000'000'000;
  if (st.ok() && now - st.value().st_mtim.tv_sec > kHour) {
    static_cast<void>(sys::unlinkat(dir, name));
  }
}

/// Nullopt when it was removed meanwhile.
std::optional<HistoryEntry> read_entry(int dir, const Key& key) {
  HistoryEntry entry;
  const auto fail = [&](const Error& error) {
    entry.record = RunRecord{};
    entry.record.id = key.id;
    entry.record.sequence = key.sequence;
    entry.problem = error.message();
    return entry;
  };
  const auto text = fs::read_file_at(dir, file_name(key), kLongest);
  if (!text.ok() && text.error().code() == Errc::kNotFound) return std::nullopt;
  if (!text.ok()) return fail(text.error());
  auto record = parse_record(text.value());
  if (!record.ok()) return fail(record.error());
  entry.record = std::move(record).value();
  entry.record.sequence = key.sequence;
  if (entry.record.id != key.id) {
    return fail(Error(Errc::kProtocol, "the file has another run's record"));
  }
  return entry;
}

}  // namespace

Result<History> History::open(const std::string& state_dir) {
  const fs::OwnerUmask mask;
  SBX_ASSIGN(const UniqueFd state, fs::open_dir(state_dir));
  const Status made = sys::mkdirat(state.get(), "runs", kOwnDirectory);
  if (!made.ok() && made.error().code() != Errc::kExists) {
    return Error(made.error()).prefixed(text::cat("in ", state_dir));
  }
  SBX_ASSIGN(UniqueFd dir, sys::openat(state.get(), "runs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return History(std::move(dir));
}

Status History::write(const RunRecord& record) const {
  Status written = fs::write_atomic(
      dir_.get(), file_name({record.sequence, record.id}), record_text(record), kOwnFile);
  if (written.ok()) return {};
  return std::move(written).error().prefixed("record the run");
}

Result<std::vector<HistoryEntry>> History::list() const {
  SBX_ASSIGN(const Names names, read_names(dir_.get()));
  for (const std::string& name : names.temporary) {
    remove_old(dir_.get(), name);
  }
  std::vector<HistoryEntry> all;
  for (const Key& key : names.keys) {
    if (auto entry = read_entry(dir_.get(), key)) all.push_back(*std::move(entry));
  }
  std::sort(all.begin(), all.end(), [](const HistoryEntry& a, const HistoryEntry& b) {
    if (a.record.sequence != b.record.sequence) return a.record.sequence > b.record.sequence;
    return a.record.id < b.record.id;
  });
  return all;
}

Result<std::uint64_t> History::next_sequence() const {
  SBX_ASSIGN(const Names names, read_names(dir_.get()));
  std::uint64_t last = 0;
  for (const Key& key : names.keys) {
    last = std::max(last, key.sequence);
  }
  return last + 1;
}

Status History::remove(const RunRecord& record) const {
  Status removed = sys::unlinkat(dir_.get(), file_name({record.sequence, record.id}));
  if (removed.ok() || removed.error().sys_errno() == ENOENT) return {};
  return removed;
}

std::string new_run_id() {
  constexpr std::size_t kLength = 10;  // 50 bits
  return fs::random_name(kLength);
}

Result<const HistoryEntry*> find_run(const std::vector<HistoryEntry>& all,
                                     std::string_view prefix) {
  const HistoryEntry* found = nullptr;
  std::size_t matches = 0;
  for (const HistoryEntry& entry : all) {
    if (entry.record.id == prefix) return &entry;
    if (prefix.empty() || !entry.record.id.starts_with(prefix)) continue;
    found = &entry;
    ++matches;
  }
  if (matches == 1) return found;
  if (matches == 0) {
    return Error(Errc::kNotFound, text::cat("no recorded run \"", text::escape(prefix), "\""))
        .with_hint("sbx runs ls");
  }
  return Error(Errc::kUsage,
               text::cat(matches, " recorded runs begin with \"", text::escape(prefix), "\""))
      .with_hint("give more letters of the id: sbx runs ls");
}

}  // namespace sbx::run
