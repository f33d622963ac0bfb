// Java class: a lexer that skips comments and literals, and a count of braces.
#include "core/run/java_class.h"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace sbx::run {

namespace {

constexpr std::string_view kBlockQuotes = R"(""")";

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || byte >= 0x80;
}

/// Words and single signs, one after the other; "" at the end.
class Lexer {
 public:
  explicit Lexer(std::string_view source) : rest_(source) {}

  std::string_view next() {
    while (!rest_.empty()) {
      if (rest_.starts_with("//")) {
        skip_past("\n", 2);
      } else if (rest_.starts_with("/*")) {
        skip_past("*/", 2);
      } else if (rest_.starts_with(kBlockQuotes)) {
        skip_literal(kBlockQuotes);
      } else if (rest_.front() == '"' || rest_.front() == '\'') {
        skip_literal(rest_.substr(0, 1));
      } else if (is_word(rest_.front())) {
        std::size_t size = 1;
        while (size < rest_.size() && is_word(rest_[size])) {
          ++size;
        }
        return take(size);
      } else if (static_cast<unsigned char>(rest_.front()) <= ' ') {
        rest_.remove_prefix(1);
      } else {
        return take(1);
      }
    }
    return {};
  }

 private:
  std::string_view take(std::size_t size) {
    const std::string_view token = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return token;
  }

  void skip_past(std::string_view end, std::size_t from) {
    const std::size_t at = rest_.find(end, from);
    rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at + end.size());
  }

  /// A literal ends at its own quotes; a short one also with its line, as the compiler would say.
  void skip_literal(std::string_view quotes) {
    const bool is_block = quotes.size() > 1;
    std::size_t at = quotes.size();
    while (at < rest_.size()) {
      if (rest_[at] == '\\') {
        at += 2;
      } else if (rest_.substr(at).starts_with(quotes)) {
        at += quotes.size();
        break;
      } else if (!is_block && rest_[at] == '\n') {
        break;
      } else {
        ++at;
      }
    }
    rest_.remove_prefix(at < rest_.size() ? at : rest_.size());
  }

  std::string_view rest_;
};

bool is_type_word(std::string_view token) {
  constexpr std::array<std::string_view, 4> kWords{"class", "interface", "enum", "record"};
  for (const std::string_view word : kWords) {
    if (token == word) return true;
  }
  return false;
}

struct Type {
  std::string name;
  bool is_public = false;
  bool has_main = false;
};

/// Takes the source in, token by token.
class Scan {
 public:
  void run(std::string_view source) {
    Lexer lexer(source);
    for (std::string_view token = lexer.next(); !token.empty(); token = lexer.next()) {
      if (token == "{" || token == "(" || token == "[") {
        if (token == "(" && depth_ == 1 && previous_ == "main" && !types.empty()) {
          types.back().has_main = true;
        }
        ++depth_;
      } else if (token == "}" || token == ")" || token == "]") {
        if (depth_ > 0) --depth_;
        if (depth_ == 0 && token == "}") is_public_ = false;
      } else if (depth_ == 0) {
        top_level(token);
      }
      previous_ = token;
    }
  }

  std::string package;
  std::vector<Type> types;

 private:
  void top_level(std::string_view token) {
    if (is_in_package_) {
      is_in_package_ = token != ";";
      if (is_in_package_) package += token;
    } else if (token == "package" && package.empty()) {
      is_in_package_ = true;
    } else if (token == ";") {
      is_public_ = false;
    } else if (token == "public") {
      is_public_ = true;
    } else if (is_type_word(previous_) && is_word(token.front()) && !is_type_word(token)) {
      types.push_back({std::string(token), is_public_, false});
      is_public_ = false;
    }
  }

  std::size_t depth_ = 0;
  std::string_view previous_;
  bool is_public_ = false;
  bool is_in_package_ = false;
};

}  // namespace

std::optional<JavaClass> java_class_of(std::string_view source) {
  Scan scan;
  scan.run(source);
  if (scan.types.empty()) return std::nullopt;
  const Type* file = &scan.types.front();
  const Type* main = nullptr;
  for (const Type& type : scan.types) {
    if (type.is_public && !file->is_public) file = &type;
    if (type.has_main && main == nullptr) main = &type;
  }
  if (main == nullptr || file->has_main) main = file;
  return JavaClass{std::move(scan.package), file->name, main->name};
}

}  // namespace sbx::run
