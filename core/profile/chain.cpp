// Chain: follows `extends`, finds cycles and unknown names.
#include "core/profile/chain.h"

#include <algorithm>
#include <iterator>

#include "core/base/text.h"
#include "core/profile/merge.h"
#include "core/profile/rules.h"

namespace sbx::profile {
namespace {

constexpr std::size_t kMostLinks = 8;
constexpr std::string_view kBase = "base";

bool is_shipped_base(const Found& found) {
  return found.layer == Layer::kBuiltin && found.name == kBase;
}

/// The profile that `link` starts from: what it names, else base. A mistake ends the chain.
std::optional<Found> next_of(const Search& search,
                             const Link& link,
                             const std::vector<Link>& before,
                             Diagnostics& diagnostics) {
  const YamlNode* extends = find_value(link.root, "extends");
  std::string name(kBase);
  Position at{1, 1};
  if (extends != nullptr) {
    at = extends->at;
    if (!extends->is_scalar()) {
      diagnostics.add(at, "extends: expected the name of one profile");
      return std::nullopt;
    }
    name = extends->text;
    const std::string complaint = name_complaint(name);
    if (!complaint.empty()) {
      diagnostics.add(at, text::cat("extends: \"", text::escape(name), "\" ", complaint));
      return std::nullopt;
    }
  }
  // A profile may extend the one that it shadows; shipped ones extend shipped ones only.
  std::optional<Layer> above;
  if (link.found.layer == Layer::kBuiltin) {
    above = Layer::kBuiltin;
  } else if (name == link.found.name && !link.found.is_project) {
    above = link.found.layer;
  } else if (extends == nullptr) {
    above = Layer::kSystem;
  }
  Result<Found> found = search.find_name(name, above);
  if (!found.ok()) {
    std::string message = text::cat("extends: ", found.error().message());
    if (!found.error().hint().empty()) message += text::cat(" (", found.error().hint(), ')');
    diagnostics.add(at, std::move(message));
    return std::nullopt;
  }
  const auto same = [&](const Link& other) {
    return other.found.file == found.value().file && other.found.layer == found.value().layer;
  };
  if (same(link) || std::any_of(before.begin(), before.end(), same)) {
    diagnostics.add(at, text::cat("extends: ", name, " extends this profile in turn: a circle"));
    return std::nullopt;
  }
  if (before.size() + 1 >= kMostLinks) {
    diagnostics.add(at, text::cat("extends: more than ", kMostLinks, " profiles in a row"));
    return std::nullopt;
  }
  return std::move(found).value();
}

}  // namespace

Chain read_chain(const Search& search, Found top) {
  Chain chain;
  std::optional<Found> next = std::move(top);
  while (next) {
    Link link{std::move(*next), {}};
    next.reset();
    Diagnostics diagnostics(link.found.file);
    link.root = link.found.builtin != nullptr ? tree_of(*link.found.builtin)
                                              : parse_yaml(link.found.text, diagnostics);
    if (!is_shipped_base(link.found)) {
      next = next_of(search, link, chain.links, diagnostics);
    }
    std::vector<Diagnostic> mistakes = diagnostics.take();
    chain.mistakes.insert(chain.mistakes.end(),
                          std::make_move_iterator(mistakes.begin()),
                          std::make_move_iterator(mistakes.end()));
    chain.links.push_back(std::move(link));
  }
  std::reverse(chain.links.begin(), chain.links.end());
  return chain;
}

Result<Chain> read_chain(const Search& search, const std::string& name_or_path) {
  SBX_ASSIGN(Found top, search.find(name_or_path));
  return read_chain(search, std::move(top));
}

}  // namespace sbx::profile
