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

/// A project's own file that may not use what is the user's.
bool is_fenced(const Search& search, const Link& link) {
  return link.found.is_project && !search.allow_outside();
}

/// Where to look for what `link` extends: in the layers above the answer, or in all.
std::optional<Layer> layer_above(const Search& search,
                                 const Link& link,
                                 const std::string& name,
                                 bool is_implied) {
  const bool shipped_only =
      link.found.layer == Layer::kBuiltin || is_implied || is_fenced(search, link);
  if (shipped_only) return Layer::kSystem;
  // A profile may extend the one that it hides.
  if (name == link.found.name && !link.found.is_project) return link.found.layer;
  return std::nullopt;
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
  Result<Found> found = search.find_name(name, layer_above(search, link, name, extends == nullptr));
  if (!found.ok() && is_fenced(search, link) && search.find_name(name, std::nullopt).ok()) {
    // Else a checkout could pick a profile with the user's mounts and variables for its own code.
    diagnostics.add(at,
                    text::cat("extends: ",
                              name,
                              " is not a shipped profile: a project's profile needs "
                              "--allow-outside to start from it"));
    return std::nullopt;
  }
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
