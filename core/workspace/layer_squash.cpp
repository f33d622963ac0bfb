// Layer squash: a walk over the merged names of the layers that keeps what hides things below.
#include "core/workspace/layer_squash.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/beneath.h"
#include "core/workspace/layer_store.h"
#include "core/workspace/merged_tree.h"

namespace sbx::workspace {
namespace {

/// Merges one part of all layers.
class Squasher {
 public:
  Squasher(MergedTree tree, int to, CopyReport& report, const OnProgress& progress)
      : tree_(std::move(tree)), to_(to), report_(report), progress_(progress) {}

  Status run() {
    pending_.push_back({tree_.root(), false, false, false});
    while (!pending_.empty()) {
      const Pending next = std::move(pending_.back());
      pending_.pop_back();
      Status done = next.is_left ? leave(next) : enter(next);
      if (!done.ok()) return std::move(done).error().prefixed(next.dir.path);
    }
    return {};
  }

 private:
  struct Pending {
    MergedDir dir;
    bool is_opaque = false;  // to be marked: hides what lies below all these layers
    bool is_bare = false;    // it or a directory above is opaque: no whiteout in it hides anything
    bool is_left = false;    // its content is there: only its own metadata is to be set
  };

  Status enter(const Pending& at) {
    pending_.push_back({at.dir, at.is_opaque, at.is_bare, true});
    SBX_ASSIGN(const std::vector<std::string> names, tree_.stored_names(at.dir, at.dir.layers));
    for (const std::string& name : names) {
      SBX_ASSIGN(const MergedEntry entry, tree_.look(at.dir, name));
      SBX_ASSIGN(const int copy, to_.open(at.dir.path));
      SBX_TRY(add(at, entry, copy));
    }
    return {};
  }

  Status add(const Pending& at, const MergedEntry& entry, int copy) {
    switch (entry.kind) {
      case MergedEntry::Kind::kNone:
        return {};
      case MergedEntry::Kind::kWhiteout:
        // Where nothing lies below, the kernel lists a whiteout as a name (without an object).
        return at.is_bare ? Status() : make_whiteout(copy, entry.name);
      case MergedEntry::Kind::kObject:
        break;
    }
    if (entry.is_dir()) {
      const bool is_bare = at.is_bare || entry.is_cut;
      pending_.push_back({MergedTree::enter(at.dir, entry), entry.is_cut, is_bare, false});
      return sys::mkdirat(copy, entry.name, S_IRWXU);
    }
    ++report_.files;
    SBX_TRY(link(at.dir, entry, copy));
    return progress_ ? progress_({report_.bytes, report_.files}) : Status();
  }

  static Status make_whiteout(int copy, const std::string& name) {
    if (::mknodat(copy, name.c_str(), S_IFCHR, 0) == -1) {  // no privilege: Linux 5.8
      return sys_error(text::cat("make whiteout ", name));
    }
    return {};
  }

  Status link(const MergedDir& dir, const MergedEntry& entry, int copy) {
    SBX_ASSIGN(const std::optional<int> stored, tree_.stored_dir(dir, entry.top));
    if (!stored.has_value()) return sys_error(text::cat("link ", entry.name), ENOENT);
    const char* name = entry.name.c_str();
    if (::linkat(*stored, name, copy, name, 0) == 0) return {};  // a link itself, not its target
    const int err = errno;
    const bool can_copy = S_ISREG(entry.st.st_mode) && (err == EMLINK || err == EPERM);
    if (!can_copy) return sys_error(text::cat("link ", entry.name), err);
    return copy_file(*stored, entry, copy);
  }

  Status copy_file(int stored, const MergedEntry& entry, int copy) {
    SBX_ASSIGN(const UniqueFd in, open_regular(stored, entry.name));
    SBX_ASSIGN(const UniqueFd out,
               sys::openat(copy, entry.name, O_WRONLY | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR));
    const auto size = static_cast<std::uint64_t>(entry.st.st_size);
    SBX_ASSIGN(const ContentCopy done, copy_content(in.get(), out.get(), size, reflink_));
    report_.bytes += done.bytes;
    if (done.bytes > 0 && !done.reflinked) report_.reflinked = false;
    return copy_metadata(in.get(), out.get(), entry.st, Attributes::kAll);
  }

  Status leave(const Pending& at) {
    SBX_ASSIGN(const UniqueFd from, tree_.open_dir(at.dir));
    SBX_ASSIGN(const int copy, to_.open(at.dir.path));
    // Before the metadata: the mode may forbid its own user to set an attribute.
    if (at.is_opaque && ::fsetxattr(copy, "user.overlay.opaque", "y", 1, 0) == -1) {
      return sys_error("set attribute user.overlay.opaque");
    }
    SBX_ASSIGN(const struct stat st, sys::fstat(from.get()));
    return copy_metadata(from.get(), copy, st, Attributes::kMerged);
  }

  MergedTree tree_;
  DirCursor to_;
  CopyReport& report_;
  const OnProgress& progress_;
  std::vector<Pending> pending_;
  Reflink reflink_ = Reflink::kTry;
};

Result<std::set<std::string>> parts_of(int layers, std::span<const std::string> ids) {
  std::set<std::string> parts;
  for (const std::string& id : ids) {
    SBX_ASSIGN(const std::vector<std::string> some, layer_parts(layers, id));
    parts.insert(some.begin(), some.end());
  }
  return parts;
}

/// The part of all layers that have it, the highest first.
Result<MergedTree> open_part(int layers,
                             std::span<const std::string> ids,
                             const std::string& part) {
  std::vector<UniqueFd> stack;
  const std::vector<std::string> highest_first(ids.rbegin(), ids.rend());
  for (const std::string& id : highest_first) {
    Result<UniqueFd> dir = open_layer(layers, id, part);
    if (!dir.ok() && dir.error().code() == Errc::kNotFound) continue;
    if (!dir.ok()) return std::move(dir).error();
    stack.push_back(std::move(dir).value());
  }
  return MergedTree::open(std::move(stack));
}

std::int64_t since_of(int layers, std::span<const std::string> ids) {
  std::int64_t since = 0;
  for (const std::string& id : ids) {
    const std::int64_t ns = layer_since(layers, id);
    if (ns != 0 && (since == 0 || ns < since)) since = ns;
  }
  return since;
}

}  // namespace

Result<CopyReport> squash(int layers,
                          std::span<const std::string> ids,
                          const OnProgress& progress) {
  constexpr int kDirFlags = O_RDONLY | O_DIRECTORY;
  CopyReport report;
  report.reflinked = true;
  SBX_ASSIGN(const std::set<std::string> parts, parts_of(layers, ids));
  SBX_ASSIGN(NewLayer layer, NewLayer::begin(layers));
  SBX_TRY(sys::mkdirat(layer.fd(), "fs", 0755));
  SBX_ASSIGN(const UniqueFd content, open_entry(layer.fd(), "fs", kDirFlags));
  SBX_TRY(sys::fchmod(content.get(), 0755));
  for (const std::string& part : parts) {
    SBX_TRY(sys::mkdirat(content.get(), part, S_IRWXU));
    SBX_ASSIGN(const UniqueFd to, open_entry(content.get(), part, kDirFlags));
    SBX_ASSIGN(MergedTree tree, open_part(layers, ids, part));
    Status done = Squasher(std::move(tree), to.get(), report, progress).run();
    if (!done.ok()) return std::move(done).error().prefixed("squash layers");
  }
  SBX_TRY(write_layer_since(layer.fd(), since_of(layers, ids)));
  if (::syncfs(content.get()) == -1) return sys_error("sync the squashed layer");
  SBX_ASSIGN(report.id, layer.publish());
  return report;
}

}  // namespace sbx::workspace
