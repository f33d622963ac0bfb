// Yaml: the text of a profile as a small tree with positions; the only user of yaml-cpp.
//
// It knows YAML and nothing of profile keys. Size, depth, node and alias budgets are checked while
// the text streams by, before any tree exists, so that no input costs more than the budget.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/profile/diagnostics.h"

namespace sbx::profile {

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  bool is_quoted = false;  // 'a', "a" or a block scalar: never a number or a boolean
  Position at;
  std::string text;             // kScalar
  std::vector<YamlNode> items;  // kList: the items; kMap: key, value, key, value …

  bool is_scalar() const { return kind == Kind::kScalar; }
};

/// Hard limits; nobody's profile comes near them.
struct YamlBudget {
  std::size_t bytes = 256UL * 1024;
  std::size_t depth = 16;
  std::size_t nodes = 10000;  // aliases count as what they stand for
  std::size_t aliases = 100;
};

/// The tree of the one document in `text`, or what of it could be read: every mistake goes to
/// `diagnostics`, and after a syntax error the other top-level keys are still read. Duplicate keys,
/// tags, merge keys and keys that are no plain text are mistakes. An empty text gives a kNull node
/// and a mistake.
YamlNode parse_yaml(std::string_view text, Diagnostics& diagnostics, const YamlBudget& budget = {});

/// A value in flow form, as after `--set KEY=`: "[a, b]" or "{a: b}". Positions are 0.
YamlNode parse_yaml_flow(std::string_view text, Diagnostics& diagnostics);

}  // namespace sbx::profile
