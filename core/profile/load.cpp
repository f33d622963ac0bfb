// Load: the layers of a profile put together: shipped base < extended < named < SBX_* < flags.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <tuple>

#include "core/base/text.h"
#include "core/profile/builtin.h"
#include "core/profile/chain.h"
#include "core/profile/check.h"
#include "core/profile/diagnostics.h"
#include "core/profile/merge.h"
#include "core/profile/profile.h"
#include "core/profile/resolve.h"
#include "core/profile/search.h"
#include "core/profile/tool.h"

namespace sbx::profile {
namespace {

void append(std::vector<Diagnostic>& all, std::vector<Diagnostic> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string current_dir() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::current_path(error);
  return error ? std::string() : path.string();
}

Source source_of(const Found& found, const Search& search, bool allow_outside) {
  Source source;
  source.layer = found.layer;
  source.file = found.file;
  source.base_dir = found.dir;
  source.home = search.home();
  if (found.is_project && !allow_outside) source.project = found.dir;
  return source;
}

/// File by file in the order of the chain, each from top to bottom.
void sort_by_place(std::vector<Diagnostic>& mistakes) {
  std::map<std::string, int> ranks;
  for (const Diagnostic& each : mistakes) {
    ranks.try_emplace(each.file, static_cast<int>(ranks.size()));
  }
  std::stable_sort(mistakes.begin(), mistakes.end(), [&](const Diagnostic& a, const Diagnostic& b) {
    return std::tuple(ranks[a.file], a.line, a.column) <
           std::tuple(ranks[b.file], b.line, b.column);
  });
}

/// language.path brings its mounts along, under its own origin; mounts that somebody asked for
/// stay.
void add_tool(const Search& search, Profile& profile, std::vector<Diagnostic>& mistakes) {
  const HostTool& tool = profile.language.path;
  if (tool.path.empty()) return;
  Result<std::vector<Mount>> mounts = tool_mounts(tool, search.home());
  if (!mounts.ok()) {
    mistakes.push_back(at_origin(
        profile,
        "language.path",
        text::cat("language.path: '", text::escape(tool.path), "' ", mounts.error().message())));
    return;
  }
  for (Mount& mount : mounts.value()) {
    const bool is_taken =
        std::any_of(profile.mounts.begin(), profile.mounts.end(), [&mount](const Mount& each) {
          return each.target == mount.target;
        });
    if (is_taken) continue;
    profile.origins.insert_or_assign(text::cat("mounts.", mount.target),
                                     profile.origins.at("language.path"));
    profile.mounts.push_back(std::move(mount));
  }
}

std::string requested(const LoadRequest& request) {
  if (request.name_or_path) return *request.name_or_path;
  return request.env("SBX_PROFILE").value_or(request.fallback);
}

}  // namespace

Resolved resolve(const Search& search, Chain chain, const LoadRequest& request) {
  Resolved resolved;
  Profile& profile = resolved.profile;
  resolved.mistakes = std::move(chain.mistakes);
  for (const Link& link : chain.links) {
    Diagnostics found(link.found.file);
    // The description is each profile's own.
    profile.description.clear();
    merge_file(link.root, source_of(link.found, search, request.allow_outside), profile, found);
    append(resolved.mistakes, found.take());
  }
  const Found& top = chain.links.back().found;
  profile.name = top.name;
  profile.file = top.builtin == nullptr ? top.file : std::string();
  merge_variables(request.env, profile, resolved.mistakes);
  if (!request.overrides.empty()) {
    Source flags;
    flags.layer = Layer::kFlag;
    flags.base_dir = current_dir();
    flags.home = search.home();
    merge_overrides(request.overrides, flags, profile, resolved.mistakes);
  }
  if (resolved.mistakes.empty()) add_tool(search, profile, resolved.mistakes);
  // Without the others, so that one mistake is not told twice.
  if (resolved.mistakes.empty()) resolved.mistakes = check_whole(profile, request.private_dirs);
  sort_by_place(resolved.mistakes);
  return resolved;
}

Result<Profile> load(const LoadRequest& request) {
  const std::string name = requested(request);
  const Search search(request);
  SBX_ASSIGN(Chain chain, read_chain(search, name));
  Resolved resolved = resolve(search, std::move(chain), request);
  if (!resolved.mistakes.empty()) return to_error(resolved.mistakes, name);
  return std::move(resolved.profile);
}

Result<std::vector<Diagnostic>> check(const LoadRequest& request) {
  const Search search(request);
  SBX_ASSIGN(Chain chain, read_chain(search, requested(request)));
  return resolve(search, std::move(chain), request).mistakes;
}

Result<std::string> source_text(const LoadRequest& request) {
  const Search search(request);
  SBX_ASSIGN(Found found, search.find(requested(request)));
  if (found.builtin != nullptr) return std::string(found.builtin->text);
  return std::move(found.text);
}

}  // namespace sbx::profile
