// Add: see add.h.
#include "core/packages/add.h"

#include <fcntl.h>
#include <linux/openat2.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/store.h"
#include "core/packages/identity.h"
#include "core/packages/lock_file.h"
#include "core/packages/make.h"
#include "core/packages/spec.h"
#include "core/packages/store.h"
#include "core/packages/tree.h"

namespace sbx::packages {

namespace {

using profile::PackagePolicy;
using profile::Profile;

constexpr Bytes kLongestLock{std::uint64_t{16} << 20U};
constexpr mode_t kLockMode = 0644;

/// The directory that the lock file is in, and its name there. A project's own stays in the
/// project, whatever links there are in it.
struct LockPlace {
  UniqueFd dir;
  std::string name;
};

Result<LockPlace> open_lock_place(const profile::HostPath& lock) {
  const std::size_t slash = lock.path.rfind('/');
  LockPlace place;
  place.name = lock.path.substr(slash + 1);
  const std::string dir = slash == 0 ? "/" : lock.path.substr(0, slash);
  if (lock.beneath.empty()) {
    SBX_ASSIGN(place.dir, sys::open(dir, O_RDONLY | O_DIRECTORY));
    return place;
  }
  SBX_ASSIGN(const UniqueFd project, sys::open(lock.beneath, O_PATH | O_DIRECTORY));
  const std::string rel =
      dir.size() <= lock.beneath.size() ? "." : dir.substr(lock.beneath.size() + 1);
  SBX_ASSIGN(
      place.dir,
      sys::openat2(
          project.get(), rel, O_RDONLY | O_DIRECTORY, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS));
  return place;
}

/// One job's wish, both kinds.
class Adder {
 public:
  Adder(const Context& context, Profile& profile, run::PackagesMode mode)
      : context_(context), profile_(profile), mode_(mode) {}

  Result<run::AddedPackages> add(const std::vector<std::string>& wanted);

 private:
  Status read_policies();
  Status read_lock();
  Status write_lock(const LockFile& now);
  Status check_policy(Kind kind, const std::vector<std::string>& names) const;
  Status check_packages(Kind kind, const Locked& locked) const;
  Result<std::optional<Set>> get(const Store& store, Kind kind);
  Result<std::optional<Set>> get_pinned(const Store& store, Kind kind, const Locked& pinned);
  Result<std::optional<Set>> get_chosen(const Store& store, Kind kind);
  Result<Set> make(const Store& store, Kind kind, const Locked* pinned) const;
  Status check_source(Kind kind) const;
  Status put(Kind kind, const Set& set);
  std::vector<std::string> wants(Kind kind) const;
  void notice(std::string_view sentence) const {
    if (context_.notice) context_.notice(sentence);
  }

  const Context& context_;
  Profile& profile_;
  run::PackagesMode mode_;
  std::vector<PackagePolicy> policies_;
  LockFile lock_;
  bool has_lock_ = false;
  std::array<std::string, 2> interpreters_;
};

std::vector<std::string> Adder::wants(Kind kind) const {
  std::vector<std::string> list =
      kind == Kind::kPip ? profile_.packages.pip : profile_.packages.npm;
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

Status Adder::read_policies() {
  SBX_ASSIGN(policies_, profile::package_policies(context_.load));
  const profile::Packages& own = profile_.packages;
  policies_.push_back({own.allow, own.deny, text::cat("profile ", profile_.name)});
  return {};
}

Status Adder::check_policy(Kind kind, const std::vector<std::string>& names) const {
  for (const std::string& each : names) {
    const std::string complaint = policy_complaint(policies_, kind, each);
    if (complaint.empty()) continue;
    return Error(Errc::kDenied, text::cat("package ", each, ' ', complaint))
        .with_hint("change that list, or do without the package");
  }
  return {};
}

Status Adder::check_packages(Kind kind, const Locked& locked) const {
  std::vector<std::string> names;
  names.reserve(locked.packages.size());
  for (const Package& each : locked.packages) {
    names.push_back(each.name);
  }
  return check_policy(kind, names);
}

Status Adder::read_lock() {
  const profile::HostPath& path = profile_.packages.lock;
  const bool is_frozen = profile_.packages.frozen;
  if (path.path.empty()) {
    if (!is_frozen) return {};
    return Error(Errc::kUsage, "packages.frozen needs packages.lock, the file with the versions")
        .with_hint("--set packages.lock=FILE, once without packages.frozen");
  }
  auto place = open_lock_place(path);
  auto text = place.ok()
                  ? fs::read_file_at(place.value().dir.get(), place.value().name, kLongestLock)
                  : Result<std::string>(place.error());
  if (!text.ok()) {
    if (text.error().code() == Errc::kNotFound && !is_frozen) return {};
    return std::move(text)
        .error()
        .prefixed(text::cat("packages.lock ", path.path))
        .with_code(Errc::kUsage)
        .with_hint("leave out packages.frozen once to have it written");
  }
  auto lock = parse_lock_file(text.value());
  if (!lock.ok()) {
    return std::move(lock)
        .error()
        .prefixed(path.path)
        .with_code(Errc::kUsage)
        .with_hint("remove the file to have it written anew");
  }
  lock_ = std::move(lock).value();
  has_lock_ = true;
  return {};
}

/// What the user's lock file has of `now`: nothing that depends on this machine.
Status Adder::write_lock(const LockFile& now) {
  const profile::HostPath& path = profile_.packages.lock;
  if (path.path.empty() || profile_.packages.frozen) return {};
  LockFile portable = now;
  portable.pip.site.clear();
  lock_.pip.site.clear();
  const std::string content = to_json(portable);
  if (has_lock_ && to_json(lock_) == content) return {};
  const auto written = [&]() -> Status {
    SBX_ASSIGN(const LockPlace place, open_lock_place(path));
    return fs::write_atomic(place.dir.get(), place.name, content, kLockMode);
  }();
  if (!written.ok()) return Error(written.error()).prefixed(text::cat("packages.lock ", path.path));
  notice(text::cat("packages: wrote ", path.path));
  return {};
}

Status Adder::check_source(Kind kind) const {
  if (!profile_.packages.source.path.empty()) return {};
  std::string specs;
  for (const std::string& want : wants(kind)) {
    specs += text::cat(specs.empty() ? "" : " ", want);
  }
  const std::string how = kind == Kind::kPip
                              ? text::cat("pip download -d DIR '", specs, '\'')
                              : text::cat("npm pack --pack-destination DIR '", specs, '\'');
  return Error(Errc::kUsage,
               text::cat("packages: ",
                         specs,
                         " cannot be had: no packages.source says where from, and a sandbox has no "
                         "network"))
      .with_hint(text::cat(how, "; then --set packages.source=DIR, or SBX_PACKAGES_SOURCE=DIR"));
}

Result<Set> Adder::make(const Store& store, Kind kind, const Locked* pinned) const {
  SBX_TRY(check_source(kind));
  SBX_ASSIGN(NewSet fresh, store.begin());
  MakeRequest request;
  request.kind = kind;
  request.profile = &profile_;
  request.wants = wants(kind);
  request.pinned = pinned;
  request.tree = fresh.tree();
  request.state_dir = context_.load.state_dir;
  request.private_dirs = context_.load.private_dirs;
  notice(text::cat("packages: choosing and installing ", text::join(request.wants, ", ")));
  SBX_ASSIGN(Locked made, make_tree(request));
  SBX_TRY(check_packages(kind, made));
  if (pinned != nullptr && made.packages != pinned->packages) {
    return Error(Errc::kProtocol, "packages: what was made is not what the lock file names");
  }
  SBX_ASSIGN(const UniqueFd tree, sys::openat(fresh.fd(), "tree", O_RDONLY | O_DIRECTORY));
  SBX_TRY(tidy_tree(tree.get()));
  const std::string name = set_name(kind, interpreters_.at(static_cast<std::size_t>(kind)), made);
  notice(text::cat("packages: installed ", text::join(exact_specs(kind, made), ", ")));
  return store.publish(std::move(fresh), kind, name, made);
}

Result<std::optional<Set>> Adder::get_pinned(const Store& store, Kind kind, const Locked& pinned) {
  const std::string name = set_name(kind, interpreters_.at(static_cast<std::size_t>(kind)), pinned);
  SBX_ASSIGN(std::optional<Set> found, store.find(name));
  if (found.has_value() || mode_ == run::PackagesMode::kLookOnly) return found;
  SBX_TRY(check_source(kind));
  const std::string wish = text::cat("wish-", name.substr(name.find('-') + 1));
  SBX_ASSIGN(Wish held, store.lock(wish, [this] {
    notice("packages: waiting for another sbx to make them");
  }));
  SBX_ASSIGN(found, store.find(name));
  if (found.has_value()) return found;
  SBX_ASSIGN(Set made, make(store, kind, &pinned));
  SBX_TRY(held.fulfil(made.name));
  return std::optional<Set>(std::move(made));
}

Result<std::optional<Set>> Adder::get_chosen(const Store& store, Kind kind) {
  SBX_TRY(check_source(kind));
  SBX_ASSIGN(const UniqueFd source, open_source(profile_.packages.source));
  SBX_ASSIGN(const std::string state, source_state(source.get()));
  const std::string wish =
      wish_name(kind, interpreters_.at(static_cast<std::size_t>(kind)), wants(kind), state);
  const std::string known = store.look_up(wish);
  std::optional<Set> found;
  if (!known.empty()) {
    SBX_ASSIGN(found, store.find(known));
  }
  if (found.has_value() || mode_ == run::PackagesMode::kLookOnly) return found;
  SBX_ASSIGN(Wish held, store.lock(wish, [this] {
    notice("packages: waiting for another sbx to make them");
  }));
  if (!held.set().empty()) {
    SBX_ASSIGN(found, store.find(held.set()));
  }
  if (found.has_value()) return found;
  SBX_ASSIGN(Set made, make(store, kind, nullptr));
  SBX_TRY(held.fulfil(made.name));
  return std::optional<Set>(std::move(made));
}

Result<std::optional<Set>> Adder::get(const Store& store, Kind kind) {
  std::string& interpreter = interpreters_.at(static_cast<std::size_t>(kind));
  std::string image_id;
  if (!profile_.image.empty()) {
    SBX_ASSIGN(const image::Store images, image::Store::open(context_.load.state_dir));
    SBX_ASSIGN(const image::Record record, images.find(profile_.image));
    image_id = record.id;
  }
  SBX_ASSIGN(interpreter, interpreter_identity(kind, profile_, image_id));
  const Locked& locked = lock_.of(kind);
  if (has_lock_ && !locked.packages.empty() && locked.wants == wants(kind)) {
    SBX_TRY(check_packages(kind, locked));
    return get_pinned(store, kind, locked);
  }
  if (profile_.packages.frozen) {
    return Error(Errc::kUsage,
                 text::cat("packages.lock ",
                           profile_.packages.lock.path,
                           " was written for other ",
                           name(kind),
                           " packages, and packages.frozen is set"))
        .with_hint("run once with --set packages.frozen=false to have it written anew");
  }
  return get_chosen(store, kind);
}

Status Adder::put(Kind kind, const Set& set) {
  const bool is_pip = kind == Kind::kPip;
  const std::string target(is_pip ? kPipTarget : kNpmTarget);
  for (const profile::Mount& mount : profile_.mounts) {
    if (mount.target != target) continue;
    return Error(Errc::kUsage,
                 text::cat("packages are shown at ", target, ", where something is mounted"))
        .with_hint("mount that at another place");
  }
  const std::string bin = target + (is_pip ? "/bin" : "/.bin");
  profile_.mounts.push_back(
      {is_pip ? set.tree : set.tree + "/node_modules", target, profile::MountMode::kReadOnly, {}});
  profile_.list_items.push_back({"PATH", bin, true});
  if (is_pip) {
    profile_.list_items.push_back({"PYTHONPATH", text::cat(target, '/', set.locked.site), false});
  } else {
    profile_.list_items.push_back({"NODE_PATH", target, false});
  }
  return {};
}

Result<run::AddedPackages> Adder::add(const std::vector<std::string>& wanted) {
  SBX_TRY(add_wanted(wanted, profile_));
  run::AddedPackages added;
  if (!profile_.packages.any()) return added;
  if (context_.load.state_dir.empty()) {
    return Error(Errc::kUnsupported, "packages need a state directory to be kept in")
        .with_hint("set SBX_STATE_DIR to a directory of your own");
  }
  SBX_TRY(read_policies());
  SBX_TRY(read_lock());
  SBX_ASSIGN(const Store store, Store::open(context_.load.state_dir));
  LockFile now;
  bool is_whole = true;
  for (const Kind kind : {Kind::kPip, Kind::kNpm}) {
    const std::vector<std::string> specs = wants(kind);
    if (specs.empty()) continue;
    std::vector<std::string> names;
    names.reserve(specs.size());
    for (const std::string& spec : specs) {
      names.emplace_back(spec_name(kind, spec));
    }
    SBX_TRY(check_policy(kind, names));
    SBX_ASSIGN(std::optional<Set> set, get(store, kind));
    if (!set.has_value()) {
      is_whole = false;
      notice(text::cat("packages: ", text::join(specs, ", "), " would be installed first"));
      continue;
    }
    SBX_TRY(check_packages(kind, set->locked));
    SBX_TRY(put(kind, *set));
    (kind == Kind::kPip ? added.pip : added.npm) = exact_specs(kind, set->locked);
    now.of(kind) = set->locked;
    now.of(kind).wants = specs;
    added.held.push_back(std::move(set->held));
  }
  if (is_whole && mode_ == run::PackagesMode::kMake) SBX_TRY(write_lock(now));
  return added;
}

}  // namespace

run::PackagesHook hook(Context context) {
  return [context = std::move(context)](
             Profile& profile, const std::vector<std::string>& wanted, run::PackagesMode mode) {
    return Adder(context, profile, mode).add(wanted);
  };
}

}  // namespace sbx::packages
