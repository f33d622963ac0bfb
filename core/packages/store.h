// Store: the sets of packages of one state directory.
//
//   packages/pip-<32 hex>/   a set: tree/ (what is mounted) and set.json (what is in it), named by
//                            its exact content; never changed. Its time of change is that of its
//                            last use. Whoever uses it holds a shared flock(2) on it
//   packages/.tmp-<random>/  one that is being made; its maker holds a flock on it
//   packages/wish-<32 hex>   which set a wish came to; locked by who makes that set, so that two
//                            with the same wish make one
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "core/packages/lock_file.h"
#include "core/run/gc.h"

namespace sbx::packages {

/// A set in use.
struct Set {
  std::string name;  ///< "pip-<32 hex>"
  std::string tree;  ///< absolute
  Locked locked;
  UniqueFd held;  ///< it cannot be removed while this is open
};

/// "pip-" or "npm-" and 32 hex digits of what the set is made of.
std::string set_name(Kind kind, std::string_view interpreter, const Locked& locked);
/// The same for a wish that is not yet known to come to one: "wish-".
std::string wish_name(Kind kind,
                      std::string_view interpreter,
                      const std::vector<std::string>& wants,
                      std::string_view source_state);
bool is_set_name(std::string_view name);

/// A set in the making; removed by the destructor unless published.
class NewSet {
 public:
  NewSet(NewSet&& other) noexcept;
  NewSet& operator=(NewSet&& other) = delete;
  NewSet(const NewSet&) = delete;
  NewSet& operator=(const NewSet&) = delete;
  ~NewSet();

  /// Absolute path of its tree, an empty directory at first.
  std::string tree() const;
  int fd() const { return fd_.get(); }

 private:
  friend class Store;
  NewSet(int packages, std::string dir, std::string name, UniqueFd fd)
      : packages_(packages), dir_(std::move(dir)), name_(std::move(name)), fd_(std::move(fd)) {}

  int packages_;
  std::string dir_;
  std::string name_;  // empty: nothing to remove
  UniqueFd fd_;
};

/// The lock of a wish, and what is known of it.
class Wish {
 public:
  /// The set that it came to, or empty.
  const std::string& set() const { return set_; }
  Status fulfil(const std::string& set);

 private:
  friend class Store;
  Wish(UniqueFd fd, std::string set) : fd_(std::move(fd)), set_(std::move(set)) {}

  UniqueFd fd_;
  std::string set_;
};

class Store {
 public:
  /// Makes packages/ below `state_dir` (absolute; exists) when missing.
  static Result<Store> open(const std::string& state_dir);

  /// nullopt when there is none of this name, or it is being removed.
  Result<std::optional<Set>> find(const std::string& name) const;
  /// The set that a wish is known to have come to; empty: none. Takes no lock.
  std::string look_up(const std::string& wish) const;
  /// Waits for whoever fulfils it now; calls `wait` first when there is somebody.
  Result<Wish> lock(const std::string& wish, const std::function<void()>& wait) const;

  Result<NewSet> begin() const;
  /// Gives it its name and flushes it to the disk; one that is there already is taken instead.
  Result<Set> publish(NewSet set, Kind kind, const std::string& name, const Locked& locked) const;

 private:
  Store(std::string dir, UniqueFd fd) : dir_(std::move(dir)), fd_(std::move(fd)) {}

  std::string dir_;
  UniqueFd fd_;
};

/// Sets that nobody used for so long go.
inline constexpr std::int64_t kUnusedSeconds = std::int64_t{30} * 24 * 3600;

/// Finds, and unless it is a dry run removes, what is half made, and what neither `used` (names of
/// sets) nor a running sandbox has and nobody used for kUnusedSeconds.
std::vector<run::GcEntry> collect_garbage(const std::string& state_dir,
                                          const std::set<std::string>& used,
                                          run::Gc how);

/// The name of the set that a mount's source lies in; empty: in none of `state_dir`.
std::string set_of_mount(const std::string& state_dir, std::string_view source);

}  // namespace sbx::packages
