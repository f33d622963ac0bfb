// Apply trees: see apply_trees.h.
#include "core/session/apply_trees.h"

#include <utility>

#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/run/scratch.h"
#include "core/session/diff_text.h"

namespace sbx::session {
namespace {

std::string notes_name(const SessionTree& tree) {
  return text::cat("applied-", tree.part);
}

Result<workspace::AppliedNotes> read_notes(int session_dir, const SessionTree& tree) {
  const auto text =
      fs::read_file_at(session_dir, notes_name(tree), workspace::AppliedNotes::kMaxText);
  if (!text.ok() && text.error().code() == Errc::kNotFound) return workspace::AppliedNotes();
  if (!text.ok()) return text.error();
  return workspace::AppliedNotes::parse(text.value());
}

workspace::ApplyRequest request_of(const TreePlan& plan) {
  workspace::ApplyRequest request;
  request.host = plan.host.get();
  request.before = &plan.tree->before;
  request.after = &plan.tree->after;
  request.since = plan.tree->since;
  request.notes = &plan.notes;
  return request;
}

}  // namespace

Result<std::vector<TreePlan>> plan_trees(int session_dir,
                                         SessionTrees& trees,
                                         const workspace::PathSelection& chosen) {
  std::vector<TreePlan> plans;
  for (SessionTree& tree : trees.trees) {
    if (tree.host.empty()) continue;
    TreePlan plan;
    plan.tree = &tree;
    SBX_ASSIGN(plan.host, fs::open_dir(tree.host));
    SBX_ASSIGN(plan.notes, read_notes(session_dir, tree));
    workspace::ApplyRequest request = request_of(plan);
    request.is_chosen = [&](const std::string& path) {
      return chosen.has(std::string_view(inside_path(tree, path)).substr(1));
    };
    SBX_ASSIGN(plan.plan, workspace::plan_apply(request));
    if (!plan.plan.steps.empty()) plans.push_back(std::move(plan));
  }
  return plans;
}

Result<workspace::ApplyReport> apply_tree(int session_dir,
                                          const std::string& state_dir,
                                          TreePlan& plan) {
  SBX_ASSIGN(const run::Scratch scratch, run::Scratch::create(plan.tree->host, state_dir));
  workspace::AppliedNotes notes = plan.notes;
  SBX_ASSIGN(workspace::ApplyReport report,
             workspace::apply(request_of(plan), plan.plan, scratch.fd(), notes));
  SBX_TRY(fs::write_atomic(session_dir, notes_name(*plan.tree), notes.to_text(), 0600));
  plan.notes = std::move(notes);
  return report;
}

}  // namespace sbx::session
