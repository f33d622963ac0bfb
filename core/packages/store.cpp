// Store: see store.h.
#include "core/packages/store.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::packages {

namespace {

constexpr int kMaking = 1;  // raised when the way that sets are made changes
constexpr std::size_t kDigits = 32;
constexpr mode_t kOwnDir = 0700;
constexpr mode_t kShownDir = 0755;
constexpr mode_t kOwnFile = 0600;
constexpr Bytes kLongestSet{std::uint64_t{64} << 20U};
constexpr const char* kRecord = "set.json";

/// A digest of texts, none of which can run into the next one.
class Digest {
 public:
  void add(std::string_view text) {
    sha_.update(text::cat(text.size(), ':'));
    sha_.update(text);
  }
  std::string end() { return sha_.hex().substr(0, kDigits); }

 private:
  Sha256 sha_;
};

bool is_name(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && name.size() == prefix.size() + kDigits &&
         name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string_view::npos;
}

Status flock_fd(int fd, int how, const std::string& what) {
  while (::flock(fd, how) != 0) {
    if (errno != EINTR) return sys_error(text::cat("lock ", what));
  }
  return {};
}

/// What stands in a wish's file; empty when that is no set's name.
std::string read_wish(int fd) {
  std::string text(kDigits + 8, '\0');
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  if (size <= 0) return {};
  text.resize(static_cast<std::size_t>(size));
  if (!text.ends_with('\n')) return {};
  text.pop_back();
  return is_set_name(text) ? text : std::string();
}

}  // namespace

std::string set_name(Kind kind, std::string_view interpreter, const Locked& locked) {
  Digest digest;
  digest.add(text::cat(kMaking));
  digest.add(interpreter);
  for (const Package& each : locked.packages) {
    for (const std::string& part : {each.name, each.version, each.file, each.digest, each.place}) {
      digest.add(part);
    }
  }
  return text::cat(name(kind), '-', digest.end());
}

std::string wish_name(Kind kind,
                      std::string_view interpreter,
                      const std::vector<std::string>& wants,
                      std::string_view source_state) {
  Digest digest;
  digest.add(text::cat(kMaking));
  digest.add(name(kind));
  digest.add(interpreter);
  digest.add(source_state);
  for (const std::string& want : wants) {
    digest.add(want);
  }
  return text::cat("wish-", digest.end());
}

bool is_set_name(std::string_view name) {
  return is_name(name, "pip-") || is_name(name, "npm-");
}

std::string set_of_mount(const std::string& state_dir, std::string_view source) {
  const std::string prefix = state_dir + "/packages/";
  if (!source.starts_with(prefix)) return {};
  source.remove_prefix(prefix.size());
  const std::string_view name = source.substr(0, source.find('/'));
  return is_set_name(name) ? std::string(name) : std::string();
}

// --- a set in the making ---

NewSet::NewSet(NewSet&& other) noexcept
    : packages_(other.packages_),
      dir_(std::move(other.dir_)),
      name_(std::exchange(other.name_, {})),
      fd_(std::move(other.fd_)) {}

NewSet::~NewSet() {
  if (!name_.empty()) (void)fs::remove_tree(packages_, name_);
}

std::string NewSet::tree() const {
  return text::cat(dir_, '/', name_, "/tree");
}

Status Wish::fulfil(const std::string& set) {
  set_ = set;
  SBX_TRY(sys::ftruncate(fd_.get(), Bytes{0}));
  const std::string line = set + "\n";
  if (::pwrite(fd_.get(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size())) {
    return sys_error("note what a wish for packages came to");
  }
  return {};
}

// --- the store ---

Result<Store> Store::open(const std::string& state_dir) {
  SBX_ASSIGN(const UniqueFd state, fs::open_dir(state_dir));
  if (const Status made = sys::mkdirat(state.get(), "packages", kOwnDir);
      !made.ok() && made.error().code() != Errc::kExists) {
    return Error(made.error()).prefixed(text::cat("in ", state_dir));
  }
  std::string dir = state_dir + "/packages";
  SBX_ASSIGN(UniqueFd fd,
             sys::openat(state.get(), "packages", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return Store(std::move(dir), std::move(fd));
}

Result<std::optional<Set>> Store::find(const std::string& name) const {
  auto opened = sys::openat(fd_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!opened.ok()) {
    if (opened.error().code() == Errc::kNotFound) return std::optional<Set>();
    return std::move(opened).error();
  }
  Set set;
  set.held = std::move(opened).value();
  if (::flock(set.held.get(), LOCK_SH | LOCK_NB) != 0) return std::optional<Set>();
  SBX_ASSIGN(const struct stat held, sys::fstat(set.held.get()));
  const auto now = sys::fstatat(fd_.get(), name, AT_SYMLINK_NOFOLLOW);
  if (!now.ok() || now.value().st_ino != held.st_ino) return std::optional<Set>();
  SBX_ASSIGN(const std::string text, fs::read_file_at(set.held.get(), kRecord, kLongestSet));
  auto lock = parse_lock_file(text);
  if (!lock.ok()) return std::move(lock).error().prefixed(text::cat(dir_, '/', name));
  set.locked = std::move(lock.value().of(name.starts_with("pip-") ? Kind::kPip : Kind::kNpm));
  set.name = name;
  set.tree = text::cat(dir_, '/', name, "/tree");
  (void)::futimens(set.held.get(), nullptr);  // used now
  return std::optional<Set>(std::move(set));
}

std::string Store::look_up(const std::string& wish) const {
  const auto file = sys::openat(fd_.get(), wish, O_RDONLY | O_NOFOLLOW);
  if (!file.ok()) return {};
  (void)::futimens(file.value().get(), nullptr);
  return read_wish(file.value().get());
}

Result<Wish> Store::lock(const std::string& wish, const std::function<void()>& wait) const {
  SBX_ASSIGN(UniqueFd file, sys::openat(fd_.get(), wish, O_RDWR | O_CREAT | O_NOFOLLOW, kOwnFile));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (wait) wait();
    SBX_TRY(flock_fd(file.get(), LOCK_EX, text::cat(dir_, '/', wish)));
  }
  std::string set = read_wish(file.get());
  return Wish(std::move(file), std::move(set));
}

Result<NewSet> Store::begin() const {
  constexpr std::size_t kRandom = 16;
  std::string name = text::cat(".tmp-", fs::random_name(kRandom));
  SBX_TRY(sys::mkdirat(fd_.get(), name, kOwnDir));
  SBX_ASSIGN(UniqueFd fd, sys::openat(fd_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_TRY(flock_fd(fd.get(), LOCK_EX, name));
  NewSet set(fd_.get(), dir_, std::move(name), std::move(fd));
  SBX_TRY(sys::mkdirat(set.fd(), "tree", kOwnDir));
  SBX_ASSIGN(const UniqueFd tree, sys::openat(set.fd(), "tree", O_RDONLY | O_DIRECTORY));
  SBX_TRY(sys::fchmod(tree.get(), kShownDir));  // whatever the umask
  return set;
}

Result<Set> Store::publish(NewSet set,
                           Kind kind,
                           const std::string& name,
                           const Locked& locked) const {
  LockFile record;
  record.of(kind) = locked;
  SBX_TRY(fs::write_atomic(set.fd(), kRecord, to_json(record), kOwnFile));
  if (::syncfs(set.fd()) != 0) return sys_error("write packages to the disk");
  Status renamed = sys::renameat(fd_.get(), set.name_, fd_.get(), name, RENAME_NOREPLACE);
  if (renamed.ok()) {
    set.name_.clear();
    set.fd_.reset();
    SBX_TRY(sys::fsync(fd_.get()));
  } else if (renamed.error().code() != Errc::kExists) {
    return std::move(renamed).error();
  }
  SBX_ASSIGN(std::optional<Set> published, find(name));
  if (!published.has_value()) {
    return Error(Errc::kSystem,
                 text::cat("packages: ", name, " was removed as soon as it was made"));
  }
  return std::move(*published);
}

}  // namespace sbx::packages
