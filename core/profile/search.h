// Search: from a profile's name or path to its text.
//
// Names are looked for in the user's directory, the system's, the shipped profiles, and last among
// trusted project profiles. A project's directory is never searched.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/profile/builtin.h"
#include "core/profile/profile.h"

namespace sbx::profile {

struct Found {
  std::string name;
  Layer layer = Layer::kFile;
  std::string file;         // as shown; "python.yaml" for a shipped one
  std::string text;         // empty for a shipped one
  std::string dir;          // absolute, without links; empty for a shipped one
  bool is_project = false;  // a project's own file, by path or trusted
  const Builtin* builtin = nullptr;
};

/// What a search goes by; made once per load.
class Search {
 public:
  explicit Search(const LoadRequest& request);

  /// A path when it has a slash or ends in .yaml or .yml, else a name.
  Result<Found> find(const std::string& name_or_path) const;
  /// By name, below `above` only when given: user, then system, then shipped. Never a project's.
  Result<Found> find_name(const std::string& name, std::optional<Layer> above) const;
  Result<Found> find_path(const std::string& path) const;
  /// A file of the user's or the system's directory. kNotFound when there is none.
  Result<Found> find_in(Layer layer, const std::string& name) const;

  /// Names of the files in a directory, sorted.
  std::vector<std::string> names_in(Layer layer) const;
  /// All names, for did you mean.
  std::vector<std::string> all_names() const;

  const SearchDirs& dirs() const { return dirs_; }
  const std::string& home() const { return home_; }
  const std::string& state_dir() const { return state_dir_; }
  bool allow_outside() const { return allow_outside_; }

 private:
  const std::string& dir_of(Layer layer) const {
    return layer == Layer::kUser ? dirs_.user : dirs_.system;
  }
  Error unknown(const std::string& name) const;

  SearchDirs dirs_;
  std::string home_;
  std::string state_dir_;
  bool allow_outside_;
};

bool is_path(std::string_view name_or_path);
/// "python" for "dir/python.yaml".
std::string name_of_path(std::string_view path);
/// $HOME when it is absolute, else from the password file; empty when there is none.
std::string home_dir(const EnvLookup& env);

}  // namespace sbx::profile
