// Tree diff: a walk down both trees at once, in the order of their names.
#include "core/workspace/tree_diff.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/workspace/beneath.h"

namespace sbx::workspace {
namespace {

constexpr std::size_t kChunk = std::size_t{128} << 10U;

bool is_gone(const Error& error) {
  const int err = error.sys_errno();
  return err == ENOENT || err == ENOTDIR || err == ELOOP;
}

/// Where the next data of a file begins; `size` when there is none.
std::uint64_t next_data(int fd, std::uint64_t at, std::uint64_t size) {
  const off64_t data = ::lseek64(fd, static_cast<off64_t>(at), SEEK_DATA);
  if (data == -1) return errno == ENXIO ? size : at;
  return std::min(static_cast<std::uint64_t>(data), size);
}

/// Reads until the buffer is full or the file ends.
Result<std::size_t> read_full(int fd, std::string& buffer, std::size_t want, std::uint64_t at) {
  std::size_t done = 0;
  while (done < want) {
    const ssize_t n =
        ::pread(fd, buffer.data() + done, want - done, static_cast<off64_t>(at + done));
    if (n == -1 && errno == EINTR) continue;
    if (n == -1) return sys_error("read content");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

class Differ {
 public:
  Differ(MergedTree& before, MergedTree& after, const DiffOptions& options, const OnChange& tell)
      : before_(before), after_(after), options_(options), tell_(tell) {}

  Status run() {
    SBX_TRY(enter(before_.root(), after_.root()));
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (frame.next == frame.names.size()) {
        held_ -= frame.names.size();
        frames_.pop_back();
        continue;
      }
      const std::string name = std::move(frame.names[frame.next++]);
      Status done = visit(frame.before, frame.after, name);
      if (!done.ok()) return done;
    }
    return {};
  }

 private:
  /// A directory that is being walked; one of both sides may have none.
  struct Frame {
    MergedDir before;
    MergedDir after;
    std::vector<std::string> names;
    std::size_t next = 0;
  };

  /// The layers of a directory that both stacks have, bit 0 the highest of them.
  LayerSet common(const MergedTree& tree, const MergedDir& dir) const {
    const std::size_t above = tree.size() - options_.shared;
    return above >= MergedTree::kMaxLayers ? 0 : dir.layers >> above;
  }

  /// Steps into a directory unless nothing can be different in it.
  Status enter(MergedDir before, MergedDir after) {
    const bool is_same_below =
        before.layers != 0 && after.layers != 0 && common(before_, before) == common(after_, after);
    LayerSet from = before_.above(0);
    LayerSet to = after_.above(0);
    if (is_same_below) {
      from = before_.above(options_.shared);
      to = after_.above(options_.shared);
      if ((before.layers & from) == 0 && (after.layers & to) == 0) return {};
    }
    SBX_ASSIGN(std::vector<std::string> names, before_.stored_names(before, from));
    SBX_ASSIGN(const std::vector<std::string> more, after_.stored_names(after, to));
    std::vector<std::string> all;
    std::ranges::set_union(names, more, std::back_inserter(all));
    held_ += all.size();
    if (held_ > kMaxNames) return Error(Errc::kLimit, "the tree has too many names");
    frames_.push_back({std::move(before), std::move(after), std::move(all), 0});
    return {};
  }

  Status visit(const MergedDir& before, const MergedDir& after, const std::string& name) {
    Change change;
    const MergedDir& where = after.layers != 0 ? after : before;
    change.path = join_path(where.path, name);
    if (options_.skip && options_.skip(change.path)) return {};
    change.before.parent = before;
    change.after.parent = after;
    SBX_ASSIGN(change.before.entry, before_.look(before, name));
    SBX_ASSIGN(change.after.entry, after_.look(after, name));
    Status told = compare(change);
    if (!told.ok()) return std::move(told).error().prefixed(change.path);
    return descend(change);
  }

  Status compare(Change& change) {
    if (!change.before.is_there() && !change.after.is_there()) return {};
    if (!change.before.is_there() || !change.after.is_there()) {
      change.kind = change.after.is_there() ? Change::Kind::kAdded : Change::Kind::kDeleted;
      return tell_(change);
    }
    const struct stat& a = change.before.entry.st;
    const struct stat& b = change.after.entry.st;
    if (a.st_dev == b.st_dev && a.st_ino == b.st_ino) return {};
    change.has_type = change.before.type() != change.after.type();
    change.has_mode = !S_ISLNK(b.st_mode) && change.before.mode() != change.after.mode();
    change.has_owner = options_.has_owners && (a.st_uid != b.st_uid || a.st_gid != b.st_gid);
    if (!change.has_type) {
      Status compared = compare_inside(change);
      if (!compared.ok() && is_gone(compared.error())) return {};  // removed meanwhile
      SBX_TRY(std::move(compared));
    }
    const bool is_changed = change.has_type || change.has_content || change.has_mode ||
                            change.has_owner || change.has_attributes;
    return is_changed ? tell_(change) : Status();
  }

  /// Two objects of one type.
  Status compare_inside(Change& change) {
    const DiffSide& a = change.before;
    const DiffSide& b = change.after;
    switch (b.type()) {
      case S_IFREG:
        return compare_files(change);
      case S_IFDIR: {
        SBX_ASSIGN(const UniqueFd x, before_.open_dir(MergedTree::enter(a.parent, a.entry)));
        SBX_ASSIGN(const UniqueFd y, after_.open_dir(MergedTree::enter(b.parent, b.entry)));
        return compare_attributes(x.get(), y.get(), change);
      }
      case S_IFLNK: {
        SBX_ASSIGN(const std::string x, before_.read_link(a.parent, a.entry));
        SBX_ASSIGN(const std::string y, after_.read_link(b.parent, b.entry));
        change.has_content = x != y;
        return {};
      }
      default:
        change.has_content = a.entry.st.st_rdev != b.entry.st.st_rdev;
        return {};
    }
  }

  Status compare_files(Change& change) {
    const DiffSide& a = change.before;
    const DiffSide& b = change.after;
    SBX_ASSIGN(const UniqueFd x, before_.open_file(a.parent, a.entry));
    SBX_ASSIGN(const UniqueFd y, after_.open_file(b.parent, b.entry));
    change.has_content = a.size() != b.size();
    if (!change.has_content) {
      SBX_ASSIGN(const bool is_same, same_content(x.get(), y.get(), a.size()));
      change.has_content = !is_same;
    }
    return compare_attributes(x.get(), y.get(), change);
  }

  static Status compare_attributes(int before, int after, Change& change) {
    SBX_ASSIGN(const std::vector<Xattr> x, content_xattrs(before));
    SBX_ASSIGN(const std::vector<Xattr> y, content_xattrs(after));
    change.has_attributes = x != y;
    return {};
  }

  Status descend(const Change& change) {
    const bool has_before = change.before.entry.is_dir();
    const bool has_after = change.after.entry.is_dir();
    if (!has_before && !has_after) return {};
    MergedDir none;
    none.path = change.path;
    return enter(has_before ? MergedTree::enter(change.before.parent, change.before.entry) : none,
                 has_after ? MergedTree::enter(change.after.parent, change.after.entry) : none);
  }

  MergedTree& before_;
  MergedTree& after_;
  const DiffOptions& options_;
  const OnChange& tell_;
  std::vector<Frame> frames_;
  std::size_t held_ = 0;  // names in all frames
};

}  // namespace

std::uint64_t DiffSide::size() const {
  return type() == S_IFREG ? static_cast<std::uint64_t>(entry.st.st_size) : 0;
}

Status diff_trees(MergedTree& before,
                  MergedTree& after,
                  const DiffOptions& options,
                  const OnChange& on_change) {
  return Differ(before, after, options, on_change).run();
}

Result<bool> same_content(int a, int b, std::uint64_t size) {
  std::string x(std::min<std::uint64_t>(size, kChunk), '\0');
  std::string y = x;
  std::uint64_t at = 0;
  while (at < size) {
    at = std::min(next_data(a, at, size), next_data(b, at, size));
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(size - at, kChunk));
    SBX_ASSIGN(const std::size_t n, read_full(a, x, want, at));
    SBX_ASSIGN(const std::size_t m, read_full(b, y, want, at));
    if (n != m || std::memcmp(x.data(), y.data(), n) != 0) return false;
    if (n < want) return true;  // both got shorter meanwhile
    at += n;
  }
  return true;
}

}  // namespace sbx::workspace
