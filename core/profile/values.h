// Values: a YAML value read into the field of its key, and written back as text.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "core/profile/diagnostics.h"
#include "core/profile/keys.h"
#include "core/profile/yaml.h"

namespace sbx::profile {

/// Where values come from, as far as reading them depends on it.
struct Source {
  Layer layer = Layer::kFile;
  std::string file;      // as shown in messages; for a flag or variable its name
  std::string base_dir;  // absolute: relative mount sources start here
  std::string home;      // for "~/…"; may be empty
  /// Not empty: a project's own profile, which may reach nothing outside this directory.
  std::string project;
};

/// For messages: "'…'", escaped and cut.
std::string quoted(std::string_view s);
/// For messages: "a list".
std::string_view kind_name(const YamlNode& node);

enum class Put { kReplace, kAdd };  // kAdd: to a list

/// Reads the values of one source into a profile. Whatever cannot be read is a diagnostic and
/// leaves the field as it was.
class Reader {
 public:
  Reader(Source source, Profile& profile, Diagnostics& diagnostics)
      : source_(std::move(source)), profile_(profile), diagnostics_(&diagnostics) {}

  /// From now on values come from `file` (the next flag), and mistakes go to `diagnostics`.
  void switch_to(std::string file, Diagnostics& diagnostics);

  void read(const Key& key, const YamlNode& node, Put put);
  void read_variable(std::string_view name, Position name_at, const YamlNode& value);
  void read_label(std::string_view name, Position name_at, const YamlNode& value);
  /// A service whose command is empty is taken away.
  void read_service(std::string_view name, Position name_at, const YamlNode& value);

 private:
  struct ReadField;

  void complain(const YamlNode& node, std::string_view path, std::string_view what);
  bool wants_scalar(const Key& key, const YamlNode& node, std::string_view wants);
  bool in_range(const Key& key, const YamlNode& node, std::uint64_t value);
  std::string range_sentence(const Key& key, const YamlNode& node, std::uint64_t value) const;
  bool read_item(const Key& key, const YamlNode& node, std::string& out);
  void read_mount(const YamlNode& node);
  /// A map whose keys are names: `read_one` for each. `empty` is what to write for none.
  void read_named(const Key& key,
                  const YamlNode& node,
                  void (Reader::*read_one)(std::string_view, Position, const YamlNode&),
                  std::string_view wants);
  /// The value of a variable, or nothing and a complaint about `path`.
  bool read_env_value(const std::string& path, const YamlNode& value, std::string& out);
  bool read_service_command(const std::string& path, const YamlNode& value, Service& service);
  bool read_service_restart(const std::string& path, const YamlNode& value, Service& service);
  bool read_service_env(const std::string& path, const YamlNode& value, Service& service);
  void set_origin(std::string path, Position at);

  Source source_;
  Profile& profile_;
  Diagnostics* diagnostics_;
  std::set<std::string, std::less<>> targets_;  // of this source, to find duplicates
};

}  // namespace sbx::profile
