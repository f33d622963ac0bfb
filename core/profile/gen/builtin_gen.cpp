// Builtin_gen: a build-time tool: writes shipped profiles as C++ tables, already parsed.
// Usage: builtin_gen OUTPUT.cpp NAME.yaml…
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/profile/diagnostics.h"
#include "core/profile/yaml.h"

namespace {

using sbx::profile::Diagnostics;
using sbx::profile::YamlNode;

std::string literal(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n\"\n    \"";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte > 0x7E) {
      // Closing and opening the literal ends the hex escape.
      out += "\\x";
      out += kHex[byte >> 4U];
      out += kHex[byte & 0xFU];
      out += "\" \"";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string_view kind_name(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::kNull:
      return "kNull";
    case YamlNode::Kind::kScalar:
      return "kScalar";
    case YamlNode::Kind::kList:
      return "kList";
    case YamlNode::Kind::kMap:
      return "kMap";
  }
  return "?";
}

void write_node(std::ostream& out, const YamlNode& node) {
  out << "    {YamlNode::Kind::" << kind_name(node.kind) << ", "
      << (node.is_quoted ? "true" : "false") << ", " << node.at.line << ", " << node.at.column
      << ", " << node.items.size() << ", " << literal(node.text) << "},\n";
  for (const YamlNode& item : node.items) {
    write_node(out, item);
  }
}

struct Input {
  std::string name;
  std::string text;
};

/// "python" and the content of "…/python.yaml".
bool read_input(const std::string& path, Input& input) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  if (!file) return false;
  input.text = content.str();
  const std::string_view base = std::string_view(path).substr(path.find_last_of('/') + 1);
  input.name = std::string(base.substr(0, base.rfind('.')));
  return true;
}

bool write_table(std::ostream& out, const Input& input) {
  Diagnostics diagnostics(input.name + ".yaml");
  const YamlNode root = sbx::profile::parse_yaml(input.text, diagnostics);
  if (!diagnostics.empty()) {
    for (const auto& mistake : diagnostics.take()) {
      std::fprintf(stderr, "%s\n", mistake.to_string().c_str());
    }
    return false;
  }
  out << "constexpr StaticNode kNodes_" << input.name << "[] = {\n";
  write_node(out, root);
  out << "};\nconstexpr std::string_view kText_" << input.name << " =\n    " << literal(input.text)
      << ";\n\n";
  return true;
}

int generate(const std::vector<std::string>& args) {
  if (args.size() < 2) {
    std::fputs("usage: builtin_gen OUTPUT.cpp NAME.yaml...\n", stderr);
    return 2;
  }
  std::ostringstream out;
  out << "// Made by builtin_gen from the shipped profiles.\n"
         "#include \"core/profile/builtin.h\"\n\nnamespace sbx::profile {\nnamespace {\n\n";
  std::string rows;
  for (std::size_t i = 1; i < args.size(); ++i) {
    Input input;
    if (!read_input(args[i], input)) {
      std::fprintf(stderr, "%s: cannot be read\n", args[i].c_str());
      return 1;
    }
    if (!write_table(out, input)) return 1;
    rows += "    {\"" + input.name + "\", kText_" + input.name + ", kNodes_" + input.name + "},\n";
  }
  out << "constexpr Builtin kBuiltins[] = {\n"
      << rows
      << "};\n\n}  // namespace\n\nstd::span<const Builtin> builtins() {\n  return "
         "kBuiltins;\n}\n\n"
         "}  // namespace sbx::profile\n";
  std::ofstream file(args[0], std::ios::binary | std::ios::trunc);
  file << out.str();
  file.close();
  return file ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return generate(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "builtin_gen: %s\n", e.what());
    return 1;
  }
}
