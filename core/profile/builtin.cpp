// Builtin: finding the shipped profiles and unfolding their trees.
#include "core/profile/builtin.h"

#include <algorithm>

namespace sbx::profile {
namespace {

YamlNode unfold(std::span<const StaticNode>& rest) {
  const StaticNode& from = rest.front();
  rest = rest.subspan(1);
  YamlNode node;
  node.kind = from.kind;
  node.is_quoted = from.is_quoted;
  node.at = {from.line, from.column};
  node.text = std::string(from.text);
  node.items.reserve(from.children);
  for (std::uint16_t i = 0; i < from.children; ++i) {
    node.items.push_back(unfold(rest));
  }
  return node;
}

}  // namespace

const Builtin* find_builtin(std::string_view name) {
  const std::span<const Builtin> all = builtins();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Builtin& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

YamlNode tree_of(const Builtin& builtin) {
  std::span<const StaticNode> rest = builtin.nodes;
  return unfold(rest);
}

}  // namespace sbx::profile
