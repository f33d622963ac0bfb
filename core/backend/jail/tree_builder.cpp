// Tree builder: see tree_builder.h.
#include "core/backend/jail/tree_builder.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/text.h"

namespace sbx::jail {

using confine::Bind;
using confine::BindKind;
using confine::MakeDir;
using confine::MakeFile;
using confine::MakeLink;

namespace {

constexpr uint32_t kDirMode = 0755;
constexpr uint32_t kFileMode = 0444;

}  // namespace

bool is_below(std::string_view path, std::string_view dir) {
  return path.size() > dir.size() && path.starts_with(dir) && path[dir.size()] == '/';
}

void TreeBuilder::add_dir(const std::string& path) {
  if (!made_.insert(path).second) return;
  add(MakeDir{path, kDirMode, is_jobs(path) ? job_owner_ : confine::kKeepOwner});
}

bool TreeBuilder::is_jobs(std::string_view path) const {
  return std::any_of(scratch_.begin(), scratch_.end(), [path](const std::string& dir) {
    return is_below(path, dir);
  });
}

const std::string* TreeBuilder::covering_bind(const std::string& path) const {
  const auto found = std::find_if(binds_.begin(), binds_.end(), [&path](const std::string& bind) {
    return is_below(path, bind);
  });
  return found == binds_.end() ? nullptr : &*found;
}

std::string TreeBuilder::through_links(const std::string& path) const {
  for (const confine::Step& step : steps_) {
    const auto* link = std::get_if<MakeLink>(&step);
    if (link == nullptr || !is_below(path, link->path)) continue;
    const std::string rest = path.substr(link->path.size());
    if (link->target.starts_with('/')) return link->target + rest;
    return text::cat(link->path.substr(0, link->path.rfind('/') + 1), link->target, rest);
  }
  return path;
}

void TreeBuilder::add_parents(const std::string& path) {
  if (covering_bind(path) != nullptr) return;
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    add_dir(path.substr(0, slash));
  }
}

Status TreeBuilder::add_file(const std::string& path, std::string content) {
  if (const std::string* bind = covering_bind(path); bind != nullptr) {
    return Error(Errc::kUsage, text::cat(path, " would have to be made in the host's ", *bind));
  }
  add_parents(path);
  if (!made_.insert(path).second) {
    return Error(Errc::kUsage, text::cat(path, " exists inside already"));
  }
  add(MakeFile{path, std::move(content), kFileMode});
  return {};
}

void TreeBuilder::add_link(const std::string& path, std::string target) {
  add_parents(path);
  if (made_.insert(path).second) add(MakeLink{path, std::move(target)});
}

/// What a mount at `path` covers.
Status TreeBuilder::add_place(const std::string& path, confine::PlaceKind kind) {
  if (covering_bind(path) != nullptr || exists(path)) return {};
  if (is_unknown_ && !is_jobs(path)) {
    made_.insert(path);
    add(confine::Lead{path, kind, false});
    return {};
  }
  if (kind == confine::PlaceKind::kFile) return add_file(path, {});
  add_parents(path);
  add_dir(path);
  return {};
}

Status TreeBuilder::add_bind(Bind bind) {
  const bool is_dir = bind.kind == BindKind::kDir;
  SBX_TRY(add_place(bind.path, is_dir ? confine::PlaceKind::kDir : confine::PlaceKind::kFile));
  if (bind.kind != BindKind::kDevice) binds_.push_back(bind.path);
  add(std::move(bind));
  return {};
}

void TreeBuilder::add_overlay(confine::Overlay overlay) {
  (void)add_place(overlay.path, confine::PlaceKind::kDir);  // fails for files only
  binds_.push_back(overlay.path);
  add(std::move(overlay));
}

void TreeBuilder::add_scratch(confine::Scratch scratch) {
  for (const confine::ScratchDir& dir : scratch.dirs) {
    scratch_.push_back(dir.path);
  }
  add(std::move(scratch));
}

}  // namespace sbx::jail
