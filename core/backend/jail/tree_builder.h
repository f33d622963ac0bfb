// Tree builder: collects mount steps and knows what exists inside, so that parents are made exactly
// once and nothing is ever made inside a host tree. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/confine/mount_op.h"

namespace sbx::jail {

/// Whether `path` lies strictly below `dir`.
bool is_below(std::string_view path, std::string_view dir);

class TreeBuilder {
 public:
  /// `job_owner` owns directories made in the job's own space.
  explicit TreeBuilder(int32_t job_owner) : job_owner_(job_owner) {}

  void add(confine::Step step) { steps_.push_back(std::move(step)); }
  /// From here on the tree is an image's, of which nothing is known: what lies outside the job's
  /// own directories and is not made yet is found by PID 1 (confine::Lead).
  void begin_unknown() { is_unknown_ = true; }
  /// A directory, once; its parent exists.
  void add_dir(const std::string& path);
  /// The missing directories above `path`.
  void add_parents(const std::string& path);
  /// kUsage when it would lie in a host tree, or exists.
  Status add_file(const std::string& path, std::string content);
  void add_link(const std::string& path, std::string target);
  /// A bind and the empty object that it covers. In a host tree nothing is made: there its place
  /// must exist already.
  Status add_bind(confine::Bind bind);
  /// The same for an overlay of a host directory.
  void add_overlay(confine::Overlay overlay);
  /// The job's own directories, all on one tmpfs.
  void add_scratch(confine::Scratch scratch);
  /// A directory that is the job's own without a mount of its own.
  void add_jobs_dir(const std::string& path) { scratch_.push_back(path); }

  bool exists(const std::string& path) const { return made_.contains(path); }
  /// Whether `path` lies below one of the job's own directories.
  bool is_jobs(std::string_view path) const;
  /// Where `path` lies when a link that was added (/lib, /var/tmp) leads the way.
  std::string through_links(const std::string& path) const;

  size_t size() const { return steps_.size(); }
  std::span<const confine::Step> steps() const { return steps_; }
  std::vector<confine::Step> take() { return std::move(steps_); }

 private:
  const std::string* covering_bind(const std::string& path) const;
  Status add_place(const std::string& path, confine::PlaceKind kind);

  bool is_unknown_ = false;
  int32_t job_owner_;
  std::vector<confine::Step> steps_;
  std::set<std::string, std::less<>> made_;
  std::vector<std::string> binds_;    // targets of host trees
  std::vector<std::string> scratch_;  // directories the job owns
};

}  // namespace sbx::jail
