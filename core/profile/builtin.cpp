// Builtin: finding the shipped profiles and unfolding their trees.
#include "core/profile/builtin.h"

#include <algorithm>
#include <cstddef>

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

/// The node and everything below it.
std::size_t size_of(std::span<const StaticNode> nodes) {
  std::size_t size = 1;
  for (std::uint16_t i = 0; i < nodes.front().children; ++i) {
    size += size_of(nodes.subspan(size));
  }
  return size;
}

/// The value of `key` in the map that `nodes` begins with; empty when there is none.
std::span<const StaticNode> value_in(std::span<const StaticNode> nodes, std::string_view key) {
  if (nodes.empty() || nodes.front().kind != YamlNode::Kind::kMap) return {};
  std::size_t at = 1;
  for (std::uint16_t i = 0; i < nodes.front().children; i += 2) {
    if (nodes[at].text == key) return nodes.subspan(at + 1);
    at += 1 + size_of(nodes.subspan(at + 1));
  }
  return {};
}

}  // namespace

std::vector<std::string_view> list_items(const Builtin& builtin,
                                         std::string_view group,
                                         std::string_view key) {
  std::vector<std::string_view> items;
  const std::span<const StaticNode> list = value_in(value_in(builtin.nodes, group), key);
  if (list.empty() || list.front().kind != YamlNode::Kind::kList) return items;
  for (std::uint16_t i = 0; i < list.front().children; ++i) {
    items.push_back(list[std::size_t{i} + 1].text);  // items are texts: nothing is below them
  }
  return items;
}

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
