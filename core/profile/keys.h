// Keys: the one table of profile keys; parsing, errors, merging, explain, the schema and the test
// of the manual all go by it.
//
// To add a key: a field in Profile, a row in keys.cpp, a line in the manual, and its use.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/units.h"
#include "core/profile/profile.h"

namespace sbx::profile {

template <typename T>
using Get = T& (*)(Profile&);

/// Where a key's value lives; the C++ type decides how it is read, merged, shown and described.
/// monostate: `extends`, which the loader follows.
using Field = std::variant<std::monostate,
                           Get<std::string>,
                           Get<bool>,
                           Get<Isolation>,
                           Get<HostTool>,
                           Get<HostPath>,
                           Get<std::uint64_t>,
                           Get<std::optional<std::uint64_t>>,
                           Get<std::optional<Bytes>>,
                           Get<std::optional<Millis>>,
                           Get<std::optional<std::uint32_t>>,  // thousandths of a CPU
                           Get<std::vector<std::string>>,
                           Get<std::vector<EnvVar>>,
                           Get<std::vector<Mount>>,
                           Get<std::vector<Service>>,
                           Get<Labels>>;

/// Inclusive, in the unit of the field (bytes, milliseconds, thousandths).
struct Range {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
};

struct Key {
  std::string_view path;  // "limits.memory"
  Field field;
  std::string_view doc;  // one sentence, lower case, no full stop
  std::string_view env = {};
  Range range = {};
  /// For texts and the items of lists: what is wrong with one, empty when nothing is.
  std::string (*complaint)(std::string_view) = nullptr;
  /// For texts and the items of lists: a pattern for the schema, weaker than `complaint`.
  std::string_view pattern = {};
  /// The one spelling under which a valid text is kept.
  std::string (*canonical)(std::string_view) = nullptr;
};

std::span<const Key> keys();
/// nullptr when there is none.
const Key* find_key(std::string_view path);
/// Whether `path` is a key that only holds others ("limits").
bool is_group(std::string_view path);
/// "size", "list of texts" …: the word used by the manual.
std::string_view type_name(const Key& key);

/// The sentence for a key that does not exist: did you mean, belongs elsewhere, not yet supported.
/// `group` is "" or "limits".
std::string unknown_key(std::string_view group, std::string_view key);

}  // namespace sbx::profile
