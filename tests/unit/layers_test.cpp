// Tests of the layers: who may include whom, where heavy headers may stand, no threads in core/,
// and that every file core/README.md names exists. Each finding is shown as file:line.
#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace {

namespace stdfs = std::filesystem;

/// A folder and what it may include besides itself. The link dependencies in its CMakeLists.txt
/// must keep to the same row.
struct Layer {
  std::string_view folder;
  std::vector<std::string_view> may_include;
};

const std::vector<Layer>& layers() {
  static const std::vector<Layer> kLayers{
      {"base", {}},
      {"ipc", {"base"}},
      {"profile", {"base"}},
      {"archive", {"base"}},
      {"confine", {"base"}},
      {"workspace", {"base", "archive", "confine"}},
      {"host", {"base", "confine"}},
      {"image", {"base", "archive", "confine", "workspace", "host"}},
      {"agent", {"base", "ipc", "confine", "archive"}},
      {"kernel", {"base", "archive", "confine", "workspace", "host", "image"}},
      {"backend", {"base", "ipc", "profile", "confine", "host", "archive", "image", "workspace"}},
      {"backend/jail",
       {"base",
        "ipc",
        "profile",
        "confine",
        "host",
        "archive",
        "image",
        "workspace",
        "agent",
        "backend"}},
      {"backend/vm",
       {"base",
        "ipc",
        "profile",
        "confine",
        "host",
        "archive",
        "image",
        "workspace",
        "agent",
        "kernel",
        "backend",
        "backend/jail"}},
      {"supervise",
       {"base",
        "ipc",
        "profile",
        "confine",
        "host",
        "archive",
        "image",
        "workspace",
        "agent",
        "backend",
        "backend/jail"}},
      {"run",
       {"base",
        "ipc",
        "profile",
        "confine",
        "host",
        "archive",
        "image",
        "workspace",
        "agent",
        "backend",
        "backend/jail",
        "supervise"}},
      {"packages",
       {"base", "profile", "confine", "host", "archive", "image", "workspace", "backend", "run"}},
      {"session",
       {"base",
        "ipc",
        "profile",
        "confine",
        "host",
        "archive",
        "image",
        "workspace",
        "agent",
        "backend",
        "backend/jail",
        "supervise",
        "run"}},
      {"build",
       {"base",
        "ipc",
        "profile",
        "confine",
        "host",
        "archive",
        "image",
        "workspace",
        "agent",
        "backend",
        "backend/jail",
        "supervise",
        "run",
        "session"}},
  };
  return kLayers;
}

/// The table of backends names each of them; nothing else in its folder may.
bool is_registry(std::string_view file, std::string_view to) {
  const bool is_table =
      file == "core/backend/registry.cpp" || file == "core/backend/CMakeLists.txt";
  return is_table && to.starts_with("backend/");
}

/// A third-party header that costs seconds to compile, and the one file that may include it (two
/// where writing and reading are apart).
struct HeavyHeader {
  std::string_view prefix;
  std::string_view files;  // with a space between
};

constexpr std::array kHeavyHeaders{
    HeavyHeader{"CLI/", "cli/parser.cpp"},
    HeavyHeader{"yaml-cpp/", "core/profile/yaml.cpp"},
    HeavyHeader{"spdlog/", "core/base/log.cpp"},
    HeavyHeader{"fmt/", "core/base/fmt_impl.cpp"},
    HeavyHeader{
        "archive.h",
        "core/archive/archive.cpp core/archive/compress.cpp core/archive/archive_reader.cpp"},
    HeavyHeader{
        "archive_entry.h",
        "core/archive/archive.cpp core/archive/compress.cpp core/archive/archive_reader.cpp"},
    HeavyHeader{"nettle/", "core/base/sha256.cpp core/backend/vm/sealed.cpp"},
    HeavyHeader{"seccomp.h", "core/confine/gen/seccomp_rules.cpp"},
};

struct Line {
  std::string file;  // from the root of the project
  int number = 0;
  std::string text;
};

/// One #include line.
struct Include {
  Line line;
  std::string target;
  bool is_quoted = false;
};

stdfs::path root() {
  return SBX_SOURCE_DIR;
}

std::vector<Line> lines_of(const std::string& file) {
  std::vector<Line> lines;
  std::ifstream in(root() / file);
  std::string text;
  while (std::getline(in, text)) {
    lines.push_back({file, static_cast<int>(lines.size()) + 1, text});
  }
  return lines;
}

/// All C++ files below `folder`, from the root of the project.
std::vector<std::string> sources_below(std::string_view folder) {
  std::vector<std::string> files;
  for (const auto& entry : stdfs::recursive_directory_iterator(root() / folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp") continue;
    files.push_back(stdfs::relative(entry.path(), root()));
  }
  std::ranges::sort(files);
  return files;
}

std::vector<Include> includes_of(const std::string& file) {
  std::vector<Include> includes;
  for (const Line& line : lines_of(file)) {
    constexpr std::string_view kDirective = "#include ";
    if (!line.text.starts_with(kDirective) || line.text.size() < kDirective.size() + 3) continue;
    const char open = line.text[kDirective.size()];
    const std::size_t end = line.text.find(open == '"' ? '"' : '>', kDirective.size() + 1);
    if (end == std::string::npos) continue;
    const std::size_t begin = kDirective.size() + 1;
    includes.push_back({line, line.text.substr(begin, end - begin), open == '"'});
  }
  return includes;
}

/// All includes of all files below `folder`.
std::vector<Include> includes_below(std::string_view folder) {
  std::vector<Include> all;
  for (const std::string& file : sources_below(folder)) {
    const std::vector<Include> some = includes_of(file);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// All includes of our own code.
std::vector<Include> all_includes() {
  std::vector<Include> all = includes_below("core");
  const std::vector<Include> some = includes_below("cli");
  all.insert(all.end(), some.begin(), some.end());
  return all;
}

const Layer* layer_named(std::string_view folder) {
  const auto at = std::ranges::find(layers(), folder, &Layer::folder);
  return at == layers().end() ? nullptr : &*at;
}

/// The layer that a file of core/ belongs to: its folder, or the nearest one above that is a layer
/// ("confine/gen" belongs to "confine"). Empty when there is none.
std::string layer_of(std::string_view file) {
  constexpr std::string_view kCore = "core/";
  std::string folder = stdfs::path(file.substr(kCore.size())).parent_path();
  while (!folder.empty() && layer_named(folder) == nullptr) {
    folder = stdfs::path(folder).parent_path();
  }
  return folder;
}

void report(const Line& line, const std::string& what) {
  ADD_FAIL_CHECK_AT(line.file.c_str(), line.number, what);
}

/// The code of a line without its // comment.
std::string_view code_of(const Line& line) {
  const std::string_view text = line.text;
  return text.substr(0, text.find("//"));
}

/// Whether the build makes this header: then a CMakeLists.txt of core/ names it.
bool is_generated(const std::string& target) {
  const std::string name = stdfs::path(target).filename();
  for (const auto& entry : stdfs::recursive_directory_iterator(root() / "core")) {
    if (entry.path().filename() != "CMakeLists.txt") continue;
    for (const Line& line : lines_of(stdfs::relative(entry.path(), root()))) {
      if (line.text.find(name) != std::string::npos) return true;
    }
  }
  return false;
}

void check_include(const Include& include) {
  if (!include.target.starts_with("core/")) {
    report(include.line, "core/ includes its own files by their path from the root, and no others");
    return;
  }
  const std::string from = layer_of(include.line.file);
  const std::string to = layer_of(include.target);
  if (from == to) return;
  const Layer* layer = layer_named(from);
  if (is_registry(include.line.file, to)) return;
  const bool is_allowed =
      layer != nullptr && std::ranges::find(layer->may_include, to) != layer->may_include.end();
  if (!is_allowed) report(include.line, "core/" + from + " may not include core/" + to);
}

/// "sbx_jail" is core/backend/jail; nothing for targets that are no folder.
std::string layer_of_target(const std::string& target) {
  const std::string folder = target.substr(std::string_view("sbx_").size());
  if (folder == "jail") return "backend/jail";
  return layer_named(folder) == nullptr ? "" : folder;
}

/// All words of `text` that begin with "sbx_".
std::vector<std::string> target_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(text) + " ") {
    const bool is_part = c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_part) {
      word += c;
      continue;
    }
    if (word.starts_with("sbx_")) words.push_back(word);
    word.clear();
  }
  return words;
}

/// The lines of all target_link_libraries() calls, without comments.
std::vector<Line> link_lines(const std::string& file) {
  std::vector<Line> found;
  bool is_link_call = false;
  for (const Line& line : lines_of(file)) {
    const std::string code = line.text.substr(0, line.text.find('#'));
    if (code.find("target_link_libraries(") != std::string::npos) is_link_call = true;
    if (is_link_call) found.push_back({line.file, line.number, code});
    if (code.find(')') != std::string::npos) is_link_call = false;
  }
  return found;
}

void check_link(const Layer& layer, const std::string& target, const Line& line) {
  const std::string to = layer_of_target(target);
  if (to.empty() || to == layer.folder || is_registry(line.file, to)) return;
  if (std::ranges::find(layer.may_include, to) != layer.may_include.end()) return;
  report(line, std::string(layer.folder) + " may not link " + target);
}

const HeavyHeader* heavy_header(std::string_view target) {
  const auto at = std::ranges::find_if(
      kHeavyHeaders, [&](const HeavyHeader& heavy) { return target.starts_with(heavy.prefix); });
  return at == kHeavyHeaders.end() ? nullptr : &*at;
}

/// "a/{b,c}.h" becomes "a/b.h" and "a/c.h".
std::vector<std::string> expand_braces(const std::string& path) {
  const std::size_t open = path.find('{');
  const std::size_t close = path.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {path};
  std::vector<std::string> paths;
  std::stringstream choices(path.substr(open + 1, close - open - 1));
  std::string choice;
  while (std::getline(choices, choice, ',')) {
    paths.push_back(path.substr(0, open) + choice + path.substr(close + 1));
  }
  return paths;
}

/// What stands between backquotes in a line.
std::vector<std::string> quoted_spans(const std::string& text) {
  std::vector<std::string> spans;
  std::size_t open = text.find('`');
  while (open != std::string::npos) {
    const std::size_t close = text.find('`', open + 1);
    if (close == std::string::npos) break;
    spans.push_back(text.substr(open + 1, close - open - 1));
    open = text.find('`', close + 1);
  }
  return spans;
}

/// Whether a span of a document names a file of the tree. Placeholders ("<name>") do not.
bool is_path(const std::string& span) {
  constexpr std::array<std::string_view, 8> kTops{
      "core/", "cli/", "tests/", "profiles/", "man/", "completions/", ".ci/", ".clang"};
  if (span.find_first_of(" <>*()") != std::string::npos) return false;
  return std::ranges::any_of(kTops, [&](std::string_view top) { return span.starts_with(top); });
}

}  // namespace

TEST_CASE("layers: each file of core/ includes only what its folder may") {
  std::size_t count = 0;
  for (const Include& include : includes_below("core")) {
    if (!include.is_quoted) continue;
    ++count;
    check_include(include);
  }
  CHECK(count > 100);  // or this test reads the wrong tree
}

TEST_CASE("layers: each folder of core/ has a row") {
  for (const std::string& file : sources_below("core")) {
    if (layer_of(file).empty()) report({file, 1, ""}, "no layer is known for this file's folder");
  }
}

TEST_CASE("layers: cli/ includes its own files and core/ by their path from the root") {
  for (const Include& include : includes_below("cli")) {
    const bool is_known = !include.is_quoted || include.target.starts_with("cli/") ||
                          include.target.starts_with("core/");
    if (!is_known) report(include.line, "not a path from the root");
  }
}

TEST_CASE("layers: what is included exists") {
  for (const Include& include : all_includes()) {
    if (!include.is_quoted || stdfs::exists(root() / include.target)) continue;
    if (!is_generated(include.target)) report(include.line, include.target + " does not exist");
  }
}

TEST_CASE("layers: each folder's library links only what the folder may include") {
  for (const Layer& layer : layers()) {
    const std::string file = "core/" + std::string(layer.folder) + "/CMakeLists.txt";
    for (const Line& line : link_lines(file)) {
      for (const std::string& target : target_words(line.text)) {
        check_link(layer, target, line);
      }
    }
  }
}

TEST_CASE("layers: a heavy third-party header is included by its own source file only") {
  std::map<std::string_view, std::set<std::string>> users;
  for (const Include& include : all_includes()) {
    if (include.is_quoted) continue;
    const HeavyHeader* heavy = heavy_header(include.target);
    if (heavy == nullptr) continue;
    users[heavy->prefix].insert(include.line.file);
    if (heavy->files.find(include.line.file) == std::string_view::npos) {
      report(include.line,
             include.target + " belongs into " + std::string(heavy->files) + " alone");
    }
  }
  for (const HeavyHeader& heavy : kHeavyHeaders) {
    CAPTURE(std::string(heavy.prefix));
    CHECK(!users[heavy.prefix].empty());  // else the row is out of date
  }
}

TEST_CASE("layers: no header of ours includes the JSON library") {
  // It costs 2 s in every file that sees it.
  for (const Include& include : all_includes()) {
    if (include.target.starts_with("nlohmann/") && !include.line.file.ends_with(".cpp")) {
      report(include.line, include.target + " is for .cpp files");
    }
  }
}

TEST_CASE("layers: core/ starts no thread") {
  // One thread: clone and unshare act on one, and after a fork with others only async-signal-safe
  // calls are allowed.
  constexpr std::array<std::string_view, 5> kThreads{
      "std::thread", "std::jthread", "std::async", "pthread_create", "thrd_create"};
  for (const std::string& file : sources_below("core")) {
    for (const Line& line : lines_of(file)) {
      for (const std::string_view thread : kThreads) {
        if (code_of(line).find(thread) == std::string_view::npos) continue;
        report(line, "core/ is single-threaded, but this names " + std::string(thread));
      }
    }
  }
}

TEST_CASE("layers: base costs nothing at start") {
  constexpr std::array<std::string_view, 6> kCostly{
      "iostream", "locale", "regex", "filesystem", "fstream", "sstream"};
  for (const std::string& file : sources_below("core/base")) {
    for (const Include& include : includes_of(file)) {
      if (std::ranges::find(kCostly, include.target) != kCostly.end()) {
        report(include.line, "base does without <" + include.target + ">");
      }
    }
  }
}

TEST_CASE("layers: every file begins with a comment that says what it is") {
  for (const std::string_view top : {"core", "cli"}) {
    for (const std::string& file : sources_below(top)) {
      const std::vector<Line> lines = lines_of(file);
      const bool is_described = !lines.empty() && lines.front().text.starts_with("// ") &&
                                lines.front().text.find(": ") != std::string::npos;
      if (!is_described) report({file, 1, ""}, "line 1 is not '// Name: what it is'");
    }
  }
}

TEST_CASE("layers: every file that core/README.md names exists, every folder is in it") {
  const std::string readme = "core/README.md";
  const std::vector<Line> lines = lines_of(readme);
  REQUIRE(!lines.empty());
  std::size_t count = 0;
  std::string all;
  for (const Line& line : lines) {
    all += line.text + "\n";
    for (const std::string& span : quoted_spans(line.text)) {
      if (!is_path(span)) continue;
      for (const std::string& path : expand_braces(span)) {
        ++count;
        if (!stdfs::exists(root() / path)) report(line, path + " does not exist");
      }
    }
  }
  CHECK(count > 20);  // or the spans are written in another way
  for (const Layer& layer : layers()) {
    const std::string name = "`core/" + std::string(layer.folder) + "/`";
    if (all.find(name) == std::string::npos) report(lines.front(), name + " is not described");
  }
}
