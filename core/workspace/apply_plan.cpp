// Apply plan: what a session's changes mean for the host directory, and where they meet others'.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/apply.h"
#include "core/workspace/beneath.h"

namespace sbx::workspace {
namespace {

constexpr std::size_t kMaxSteps = std::size_t{1} << 20U;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

class Planner {
 public:
  explicit Planner(const ApplyRequest& request) : request_(request) {}

  Result<ApplyPlan> run() {
    DiffOptions options;
    options.shared = 1;
    options.has_owners = false;  // the host's are not the session's
    SBX_TRY(diff_trees(*request_.before, *request_.after, options, [this](const Change& change) {
      return add(change);
    }));
    ApplyPlan plan;
    std::ranges::reverse(deletions_);
    plan.steps = std::move(deletions_);
    std::ranges::move(rest_, std::back_inserter(plan.steps));
    plan.conflicts = static_cast<std::size_t>(
        std::ranges::count_if(plan.steps, [](const ApplyStep& step) { return step.is_conflict; }));
    return plan;
  }

 private:
  Status add(const Change& change) {
    if (request_.is_chosen && !request_.is_chosen(change.path)) return {};
    if (deletions_.size() + rest_.size() >= kMaxSteps) {
      return Error(Errc::kLimit, text::cat("more than ", kMaxSteps, " changes"))
          .with_hint("name some of the paths");
    }
    ApplyStep step;
    step.change = change;
    step.action = action_of(change, step.reason);
    if (step.action != ApplyAction::kSkip) SBX_TRY(find_conflict(step));
    // A directory that becomes something else, or something that becomes a directory, goes first.
    const bool was_dir = change.before.entry.is_dir();
    const bool is_dir = change.after.entry.is_dir();
    const bool makes_room = change.has_type && (was_dir || is_dir);
    if (makes_room && step.action != ApplyAction::kSkip) {
      ApplyStep room = step;
      room.action = ApplyAction::kDelete;
      step.is_conflict = false;  // told once
      deletions_.push_back(std::move(room));
    }
    auto& list = step.action == ApplyAction::kDelete ? deletions_ : rest_;
    list.push_back(std::move(step));
    return {};
  }

  static ApplyAction action_of(const Change& change, std::string& reason) {
    if (change.kind == Change::Kind::kDeleted) return ApplyAction::kDelete;
    const bool is_new = change.kind == Change::Kind::kAdded || change.has_type;
    switch (change.after.type()) {
      case S_IFREG:
        return is_new || change.has_content || change.has_attributes ? ApplyAction::kWrite
                                                                     : ApplyAction::kSetMode;
      case S_IFDIR:
        return is_new ? ApplyAction::kMakeDir : ApplyAction::kSetMode;
      case S_IFLNK:
        return ApplyAction::kLink;
      default:
        reason = "a FIFO, socket or device is not applied";
        return ApplyAction::kSkip;
    }
  }

  Status find_conflict(ApplyStep& step) {
    const Change& change = step.change;
    const bool is_settled = change.before.entry.is_dir() && step.action != ApplyAction::kDelete;
    if (is_settled) return {};
    if (!change.before.is_there()) return {};
    if (change.before.entry.is_dir()) return {};  // what is in it decides, then rmdir
    const struct stat& host = change.before.entry.st;
    const std::int64_t changed = host.st_ctim.tv_sec * kNsPerSecond + host.st_ctim.tv_nsec;
    if (request_.notes != nullptr && request_.notes->is_as_left(change.path, host)) return {};
    SBX_ASSIGN(const std::int64_t taken, taken_at(change));
    if (changed <= taken) return {};
    step.is_conflict = true;
    step.reason = "changed on the host after the session took it";
    return {};
  }

  /// When the session took the object, in nanoseconds since 1970; 0 when that is not known, so that
  /// everything is later. Below a directory that it deleted or made again, that is what counts.
  Result<std::int64_t> taken_at(const Change& change) {
    const std::string parent = split_path(change.path).first;
    if (!is_cut_known_ || parent != cut_parent_) {
      SBX_ASSIGN(cut_, find_cut(parent));
      cut_parent_ = parent;
      is_cut_known_ = true;
    }
    if (cut_.has_value()) return *cut_;
    return birth(change.after.parent, change.after.entry);
  }

  /// When the topmost directory on the way to (and of) `path` that hides the host's was made, or
  /// what stands in place of it; nullopt when there is none.
  Result<std::optional<std::int64_t>> find_cut(const std::string& path) {
    if (path.empty()) return std::optional<std::int64_t>();
    MergedDir dir = request_.after->root();
    for (const std::string_view part : text::split(path, '/')) {
      SBX_ASSIGN(const MergedEntry entry, request_.after->look(dir, std::string(part)));
      if (!entry.is_dir() || entry.is_cut) {
        SBX_ASSIGN(const std::int64_t born, birth(dir, entry));
        return std::optional(born);
      }
      dir = MergedTree::enter(dir, entry);
    }
    return std::optional<std::int64_t>();
  }

  Result<std::int64_t> birth(const MergedDir& dir, const MergedEntry& entry) {
    SBX_ASSIGN(const std::optional<int> fd, request_.after->stored_dir(dir, entry.top));
    struct statx stx {};
    const bool is_known =
        fd.has_value() && entry.kind != MergedEntry::Kind::kNone &&
        ::statx(*fd, entry.name.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BTIME, &stx) == 0 &&
        (stx.stx_mask & STATX_BTIME) != 0;
    if (!is_known) return std::int64_t{0};
    const std::int64_t born = stx.stx_btime.tv_sec * kNsPerSecond + stx.stx_btime.tv_nsec;
    const std::int64_t since = entry.top < request_.since.size() ? request_.since[entry.top] : 0;
    return since == 0 ? born : std::min(born, since);
  }

  const ApplyRequest& request_;
  std::string cut_parent_;  // the directory that cut_ is of
  std::optional<std::int64_t> cut_;
  bool is_cut_known_ = false;
  std::vector<ApplyStep> deletions_;
  std::vector<ApplyStep> rest_;
};

}  // namespace

Result<ApplyPlan> plan_apply(const ApplyRequest& request) {
  return Planner(request).run();
}

}  // namespace sbx::workspace
