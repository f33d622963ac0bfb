// Builtin: the shipped profiles, in the binary as trees that were parsed when it was built.
//
// A shipped profile extends shipped profiles only, so that python is the same python on every host.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/profile/yaml.h"

namespace sbx::profile {

/// One node of a tree, parents before children.
struct StaticNode {
  YamlNode::Kind kind;
  bool is_quoted;
  std::uint16_t line;
  std::uint16_t column;
  std::uint16_t children;
  std::string_view text;
};

struct Builtin {
  std::string_view name;
  std::string_view text;  // the YAML as it was written
  std::span<const StaticNode> nodes;
};

/// By name.
std::span<const Builtin> builtins();
/// nullptr when there is none.
const Builtin* find_builtin(std::string_view name);
/// The items of the list `key` of the map `group`, without unfolding the tree; empty when there is
/// none. For choosing a profile, which looks at all of them.
std::vector<std::string_view> list_items(const Builtin& builtin,
                                         std::string_view group,
                                         std::string_view key);
/// The tree that parsing the text would give.
YamlNode tree_of(const Builtin& builtin);

}  // namespace sbx::profile
