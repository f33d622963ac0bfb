// Yaml: yaml-cpp's event stream turned into a YamlNode tree under a budget.
//
// Theory of operation
// 1. The bytes are cleaned (yaml_text): encoding, control characters, leading tabs.
// 2. yaml-cpp's event parser runs over the text; TreeBuilder takes the events, counts depth, nodes
//    and aliases, and stops the parse at the first excess. yaml-cpp's own tree is never built.
//    Its scanner reads ahead up to the whole text (256 KiB) but not more than linearly.
// 3. After a syntax error the top-level section that holds it is blanked and the parse starts
//    again, so that mistakes further down are found in the same go.
#include "core/profile/yaml.h"

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "core/base/text.h"
#include "core/profile/yaml_syntax.h"
#include "core/profile/yaml_text.h"

namespace sbx::profile {
namespace {

constexpr int kMostPasses = 20;

struct Stop {};  // thrown through yaml-cpp when the budget is spent; caught in run_parser

/// Columns in characters for positions that mostly ascend.
class Columns {
 public:
  explicit Columns(std::string_view text) : text_(text) {}

  Position at(const YAML::Mark& mark) {
    const auto column = static_cast<std::size_t>(std::max(mark.column, 0));
    const auto pos = std::min(static_cast<std::size_t>(std::max(mark.pos, 0)), text_.size());
    const std::size_t start = pos - std::min(pos, column);
    if (start != line_start_ || pos < seen_) {
      line_start_ = seen_ = start;
      characters_ = 0;
    }
    for (; seen_ < pos; ++seen_) {
      if ((static_cast<unsigned char>(text_[seen_]) & 0xC0U) != 0x80U) ++characters_;
    }
    return {mark.line + 1, characters_ + 1};
  }

 private:
  std::string_view text_;
  std::size_t line_start_ = 0;
  std::size_t seen_ = 0;
  int characters_ = 0;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const YamlBudget& budget, Diagnostics& diagnostics)
      : text_(text), budget_(budget), diagnostics_(diagnostics), columns_(text) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    stop(at(mark), "a second document starts here: a profile is one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(leaf(YamlNode::Kind::kNull, mark), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Position where = at(mark);
    const auto found = anchors_.find(anchor);
    const std::string name = anchor < names_.size() ? names_[anchor] : std::string("?");
    if (found == anchors_.end()) {
      stop(where, text::cat("alias *", name, " stands inside what it stands for"));
    }
    if (++aliases_ > budget_.aliases) {
      stop(where, text::cat("alias *", name, ": more than ", budget_.aliases, " aliases"));
    }
    count(found->second.nodes, where, text::cat("alias *", name, ": with it "));
    if (frames_.size() + found->second.depth > budget_.depth) too_deep(where);
    YamlNode copy = found->second.node;
    copy.at = where;
    note_depth(found->second.depth);
    attach(std::move(copy));
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = leaf(YamlNode::Kind::kScalar, mark);
    node.is_quoted = tag == "!";
    node.text = value;
    if (node.is_quoted) check_quote(mark, node.at);
    check_tag(tag, node.at);
    add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(YamlNode::Kind::kList, mark, anchor, style);
    check_tag(tag, frames_.back().node.at);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(YamlNode::Kind::kMap, mark, anchor, style);
    check_tag(tag, frames_.back().node.at);
  }
  void OnMapEnd() override {
    check_keys(frames_.back().node);
    close();
  }

  void OnAnchor(const YAML::Mark& /*mark*/, const std::string& name) override {
    anchor_name_ = name;
  }

  /// The outermost [ or { that is still open, when the parse ended inside one.
  std::optional<Position> open_bracket() const {
    for (const Frame& frame : frames_) {
      if (frame.is_flow) return frame.node.at;
    }
    return std::nullopt;
  }

  Position at(const YAML::Mark& mark) { return columns_.at(mark); }
  int documents() const { return documents_; }
  YamlNode take() { return std::move(root_); }

 private:
  struct Frame {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    bool is_flow = false;
    std::size_t first_node = 0;  // nodes_ when it was opened
    std::size_t depth = 1;       // levels in it, itself included
  };
  struct Anchored {
    YamlNode node;
    std::size_t nodes = 1;
    std::size_t depth = 0;
  };

  [[noreturn]] void stop(Position where, std::string message) {
    diagnostics_.add(where, std::move(message));
    throw Stop{};
  }
  [[noreturn]] void too_deep(Position where) {
    stop(where, text::cat("nested more than ", budget_.depth, " levels deep"));
  }

  void count(std::size_t nodes, Position where, const std::string& context = {}) {
    nodes_ += nodes;
    if (nodes_ > budget_.nodes) {
      stop(where, text::cat(context, "the profile has more than ", budget_.nodes, " values"));
    }
  }

  YamlNode leaf(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode node;
    node.kind = kind;
    node.at = at(mark);
    count(1, node.at);
    return node;
  }

  void remember_name(YAML::anchor_t anchor) {
    if (anchor == 0) return;
    names_.resize(std::max<std::size_t>(names_.size(), anchor + 1));
    names_[anchor] = text::escape(std::exchange(anchor_name_, {}));
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    remember_name(anchor);
    if (anchor != 0) anchors_[anchor] = Anchored{node, 1, 0};
    attach(std::move(node));
  }

  void attach(YamlNode node) {
    if (frames_.empty()) {
      root_ = std::move(node);
    } else {
      frames_.back().node.items.push_back(std::move(node));
    }
  }

  void open(YamlNode::Kind kind,
            const YAML::Mark& mark,
            YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    Frame frame;
    frame.first_node = nodes_;
    frame.node = leaf(kind, mark);
    frame.anchor = anchor;
    frame.is_flow = style == YAML::EmitterStyle::Flow;
    if (frames_.size() >= budget_.depth) too_deep(frame.node.at);
    remember_name(anchor);
    frames_.push_back(std::move(frame));
  }

  void note_depth(std::size_t inner) {
    if (!frames_.empty()) frames_.back().depth = std::max(frames_.back().depth, inner + 1);
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    if (frame.anchor != 0) {
      anchors_[frame.anchor] = Anchored{frame.node, nodes_ - frame.first_node, frame.depth};
    }
    note_depth(frame.depth);
    attach(std::move(frame.node));
  }

  void check_tag(const std::string& tag, Position where) {
    if (tag == "?" || tag == "!" || tag.empty()) return;
    std::string shown = tag;
    constexpr std::string_view kCore = "tag:yaml.org,2002:";
    if (shown.starts_with(kCore)) shown.replace(0, kCore.size(), "!!");
    diagnostics_.add(where,
                     text::cat("tag ", text::escape(shown), " is not understood: remove it"));
  }

  /// yaml-cpp lets a quote run over many lines, even to the end of the file.
  void check_quote(const YAML::Mark& mark, Position where) {
    const auto start = static_cast<std::size_t>(std::max(mark.pos, 0));
    if (start >= text_.size()) return;
    const char quote = text_[start];
    if (quote != '"' && quote != '\'') return;  // a block scalar
    for (std::size_t i = start + 1; i < text_.size() && text_[i] != '\n'; ++i) {
      if (text_[i] == '\\' && quote == '"') {
        ++i;
        continue;
      }
      if (text_[i] != quote) continue;
      if (quote == '"' || i + 1 >= text_.size() || text_[i + 1] != quote) return;
      ++i;  // '' is a quote inside single quotes
    }
    throw_unclosed(mark, where, quote);
  }

  [[noreturn]] static void throw_unclosed(const YAML::Mark& mark, Position where, char quote) {
    static_cast<void>(where);
    throw YAML::ParserException(
        mark,
        text::cat("the ",
                  quote,
                  " that opens here is not closed on this line (text of several "
                  "lines is written with |)"));
  }

  void check_keys(YamlNode& map) {
    std::vector<const YamlNode*> keys;
    for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
      const YamlNode& key = map.items[i];
      // yaml-cpp places a missing value at what comes next.
      if (map.items[i + 1].kind == YamlNode::Kind::kNull) map.items[i + 1].at = key.at;
      if (key.kind == YamlNode::Kind::kNull) {
        diagnostics_.add(key.at, "a key is missing before the colon");
      } else if (!key.is_scalar()) {
        diagnostics_.add(key.at, "a key must be plain text, not a list or a map");
      } else if (key.text == "<<" && !key.is_quoted) {
        diagnostics_.add(key.at,
                         "merge keys (<<) are not supported: use extends, or repeat the keys");
      } else {
        keys.push_back(&key);
      }
    }
    std::stable_sort(keys.begin(), keys.end(), [](const YamlNode* a, const YamlNode* b) {
      return a->text < b->text;
    });
    for (std::size_t i = 1; i < keys.size(); ++i) {
      if (keys[i]->text != keys[i - 1]->text) continue;
      diagnostics_.add(keys[i]->at,
                       text::cat("duplicate key \"",
                                 text::escape(keys[i]->text),
                                 "\" (also at line ",
                                 keys[i - 1]->at.line,
                                 ')'));
    }
  }

  std::string_view text_;
  const YamlBudget& budget_;
  Diagnostics& diagnostics_;
  Columns columns_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::vector<std::string> names_;
  std::string anchor_name_;
  std::size_t nodes_ = 0;
  std::size_t aliases_ = 0;
  int documents_ = 0;
  YamlNode root_;
};

struct SyntaxError {
  Position at;
  std::string message;
  bool is_unknown_alias = false;
};

SyntaxError explain_syntax(const YAML::Exception& e, std::string_view text, TreeBuilder& tree) {
  SyntaxError error{tree.at(e.mark), e.msg, e.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR};
  if (e.mark.is_null()) error.at = {1, 1};
  error.message = syntax_sentence(e.msg);
  if (e.msg == YAML::ErrorMsg::END_OF_MAP_FLOW || e.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW) {
    error.at = tree.open_bracket().value_or(error.at);
  }
  const std::string_view line = line_of(text, error.at.line);
  const std::string_view indent = line.substr(0, line.find_first_not_of(" \t"));
  if (indent.find('\t') != std::string_view::npos) {
    error.at.column = static_cast<int>(indent.find('\t')) + 1;
    error.message = "indented with a tab: YAML wants spaces here";
  }
  return error;
}

/// One run over `text`: the tree, or the syntax error that ended it. Budget excesses end it too,
/// with a diagnostic and no error.
std::optional<SyntaxError> run_parser(const std::string& text, TreeBuilder& tree) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(tree)) {
    }
    return std::nullopt;
  } catch (const Stop&) {
    return std::nullopt;
  } catch (const YAML::Exception& e) {
    return explain_syntax(e, text, tree);
  } catch (const std::exception& e) {
    return SyntaxError{{1, 1}, text::cat("cannot be read as YAML: ", e.what())};
  }
}

void clear_positions(YamlNode& node) {
  node.at = {};
  for (YamlNode& item : node.items) {
    clear_positions(item);
  }
}

}  // namespace

YamlNode parse_yaml(std::string_view text, Diagnostics& diagnostics, const YamlBudget& budget) {
  if (text.size() > budget.bytes) {
    diagnostics.add({}, text::cat("larger than ", budget.bytes / 1024, " KiB: this is no profile"));
    return {};
  }
  std::string rest = clean_yaml_text(text, diagnostics);
  if (rest.empty() && !diagnostics.empty()) return {};
  bool had_error = false;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    Diagnostics found(diagnostics.file());
    TreeBuilder tree(rest, budget, found);
    const std::optional<SyntaxError> error = run_parser(rest, tree);
    if (!error) {
      YamlNode root = tree.take();
      for (Diagnostic& each : found.take()) {
        diagnostics.add({each.line, each.column}, std::move(each.message));
      }
      if (root.kind == YamlNode::Kind::kNull && !had_error && diagnostics.empty()) {
        diagnostics.add({1, 1}, "the profile is empty: write at least \"extends: base\"");
      }
      return root;
    }
    // What stood for an alias may be in a section that was blanked because of its own mistake.
    if (!(error->is_unknown_alias && had_error)) diagnostics.add(error->at, error->message);
    had_error = true;
    if (!blank_section(rest, error->at.line)) break;
  }
  return {};
}

YamlNode parse_yaml_flow(std::string_view text, Diagnostics& diagnostics) {
  Diagnostics found(diagnostics.file());
  YamlNode root = parse_yaml(text, found);
  for (Diagnostic& each : found.take()) {
    diagnostics.add({}, std::move(each.message));
  }
  clear_positions(root);
  return root;
}

}  // namespace sbx::profile
