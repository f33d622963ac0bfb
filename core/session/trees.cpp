// Trees: stacks of layer parts for each mounted tree.
#include "core/session/trees.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/backend/jail/layered_plan.h"
#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/profile/saved.h"
#include "core/session/layers.h"
#include "core/workspace/layer_copy.h"
#include "core/workspace/layer_store.h"

namespace sbx::session {
namespace {

constexpr std::string_view kAside = ".sbx-displaced-";
/// Mounts of every sandbox.
constexpr auto kForeign = std::to_array<std::string_view>({"dev", "proc", "sys", "tmp"});

bool is_at_or_below(std::string_view path, std::string_view dir) {
  return path == dir ||
         (path.size() > dir.size() && path.starts_with(dir) && path[dir.size()] == '/');
}

/// One stack of layers: what is opened of it for each part.
class Stack {
 public:
  /// `ids`: lowest first.
  Stack(int layers, std::vector<std::string> ids) : layers_(layers), ids_(std::move(ids)) {}

  const std::vector<std::string>& ids() const { return ids_; }

  /// Opens `part` of all layers that have it, the highest first; adds their `since`.
  Result<std::vector<UniqueFd>> open(const std::string& part,
                                     std::vector<std::int64_t>* since) const {
    std::vector<UniqueFd> opened;
    const std::vector<std::string> highest_first(ids_.rbegin(), ids_.rend());
    for (const std::string& id : highest_first) {
      Result<UniqueFd> dir = workspace::open_layer(layers_, id, part);
      if (!dir.ok()) {
        // A layer without this part is no failure; a layer that is gone is.
        SBX_ASSIGN([[maybe_unused]] const UniqueFd whole, workspace::open_layer(layers_, id));
        if (dir.error().code() != Errc::kNotFound) return std::move(dir).error();
        continue;
      }
      opened.push_back(std::move(dir).value());
      if (since != nullptr) since->push_back(workspace::layer_since(layers_, id));
    }
    return opened;
  }

 private:
  int layers_;
  std::vector<std::string> ids_;
};

/// How many of the lowest layers with `part` two stacks have in common.
Result<std::size_t> count_shared(const Stack& a,
                                 const Stack& b,
                                 int layers,
                                 const std::string& part) {
  const auto& x = a.ids();
  const auto& y = b.ids();
  const auto end = std::ranges::mismatch(x, y).in1;
  SBX_ASSIGN(const std::vector<UniqueFd> common,
             Stack(layers, std::vector<std::string>(x.begin(), end)).open(part, nullptr));
  return common.size();
}

Result<Stack> stack_before(int layers, const Record& record, const std::string& since) {
  if (record.lowers.empty()) return Error(Errc::kProtocol, "the session's record names no layers");
  if (since.empty()) {  // the image and the base
    const auto own = std::min(base_index(record.lowers) + 1, record.lowers.size());
    return Stack(
        layers,
        std::vector<std::string>(record.lowers.begin(),
                                 record.lowers.begin() + static_cast<std::ptrdiff_t>(own)));
  }
  const Checkpoint* checkpoint = record.find_checkpoint(since);
  if (checkpoint == nullptr) {
    std::vector<std::string> known;
    for (const Checkpoint& each : record.checkpoints) {
      known.push_back(each.tag);
    }
    Error error(Errc::kNotFound,
                text::cat("session ", record.name, " has no checkpoint ", text::escape(since)));
    if (const auto near = text::closest(since, known)) {
      return std::move(error).with_hint(text::cat("did you mean ", *near, "?"));
    }
    return std::move(error).with_hint(
        text::cat("sbx session checkpoints ", record.name, " lists them"));
  }
  std::vector<std::string> ids = checkpoint->layers;
  // The base is of the host, not of the user: a newer one is no change.
  const std::size_t old_base = base_index(ids);
  const std::size_t base = base_index(record.lowers);
  if (old_base < ids.size() && base < record.lowers.size()) ids[old_base] = record.lowers[base];
  return Stack(layers, std::move(ids));
}

class Opener {
 public:
  Opener(int layers, Stack before, Stack after)
      : layers_(layers), before_(std::move(before)), after_(std::move(after)) {}

  Result<SessionTree> open_root() {
    const std::string part(jail::kRootPart);
    std::vector<std::int64_t> since;
    SBX_ASSIGN(std::vector<UniqueFd> low, before_.open(part, nullptr));
    SBX_ASSIGN(std::vector<UniqueFd> high, after_.open(part, &since));
    SBX_ASSIGN(const std::size_t shared, count_shared(before_, after_, layers_, part));
    return make({}, part, {}, {std::move(low), std::move(high), shared, std::move(since)});
  }

  /// nullopt when no layer has changes of it.
  Result<std::optional<SessionTree>> open_mount(const std::string& target,
                                                const std::string& host) {
    const std::string part = jail::overlay_part(target);
    std::vector<std::int64_t> since;
    SBX_ASSIGN(std::vector<UniqueFd> high, after_.open(part, &since));
    SBX_ASSIGN(std::vector<UniqueFd> low, before_.open(part, nullptr));
    if (high.empty() && low.empty()) return std::optional<SessionTree>();
    SBX_ASSIGN(UniqueFd below, fs::open_dir(host));
    SBX_ASSIGN(UniqueFd again, fs::open_dir(host));
    low.push_back(std::move(below));
    high.push_back(std::move(again));
    since.push_back(0);
    SBX_ASSIGN(const std::size_t shared, count_shared(before_, after_, layers_, part));
    SBX_ASSIGN(SessionTree tree,
               make(target.substr(1),
                    part,
                    host,
                    {std::move(low), std::move(high), shared + 1, std::move(since)}));
    return std::optional(std::move(tree));
  }

 private:
  struct Opened {
    std::vector<UniqueFd> before;
    std::vector<UniqueFd> after;
    std::size_t shared = 0;
    std::vector<std::int64_t> since;
  };

  static Result<SessionTree> make(std::string target,
                                  std::string part,
                                  std::string host,
                                  Opened opened) {
    SBX_ASSIGN(workspace::MergedTree before, workspace::MergedTree::open(std::move(opened.before)));
    SBX_ASSIGN(workspace::MergedTree after, workspace::MergedTree::open(std::move(opened.after)));
    return SessionTree{std::move(target),
                       std::move(part),
                       std::move(host),
                       std::move(before),
                       std::move(after),
                       opened.shared,
                       std::move(opened.since)};
  }

  int layers_;
  Stack before_;
  Stack after_;
};

}  // namespace

Result<SessionTrees> open_trees(const Store& store,
                                const Record& record,
                                const std::string& since) {
  SBX_TRY(check_layers(record));
  SBX_ASSIGN(const UniqueFd layers, fs::open_dir(store.layers_dir()));
  SBX_ASSIGN(Stack before, stack_before(layers.get(), record, since));
  std::vector<std::string> ids = record.lowers;
  if (!record.upper.empty()) ids.push_back(record.upper);
  Opener opener(layers.get(), std::move(before), Stack(layers.get(), std::move(ids)));
  SessionTrees found;
  SBX_ASSIGN(SessionTree root, opener.open_root());
  found.trees.push_back(std::move(root));
  found.foreign.assign(kForeign.begin(), kForeign.end());
  SBX_ASSIGN(const profile::Profile profile, profile::restore(record.saved_profile));
  for (const profile::Mount& mount : profile.mounts) {
    found.foreign.push_back(mount.target.substr(1));
    Result<std::optional<SessionTree>> tree = opener.open_mount(mount.target, mount.source);
    if (!tree.ok()) {
      found.problems.push_back(text::cat(mount.target, ": ", tree.error().message()));
    } else if (tree.value().has_value()) {
      found.trees.push_back(*std::move(tree).value());
    }
  }
  std::ranges::sort(found.trees, {}, &SessionTree::target);
  return found;
}

bool is_own(const SessionTrees& trees, const SessionTree& tree, std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (name.starts_with(kAside)) return true;
  const std::string inside =
      tree.target.empty() ? std::string(path) : text::cat(tree.target, "/", path);
  return std::ranges::any_of(trees.foreign, [&](const std::string& foreign) {
    const bool is_itself = foreign == tree.target;
    return !is_itself && is_at_or_below(inside, foreign) && !is_at_or_below(tree.target, foreign);
  });
}

}  // namespace sbx::session
