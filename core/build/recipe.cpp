// Recipe: see recipe.h.
#include "core/build/recipe.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/base/text.h"
#include "core/profile/yaml.h"

namespace sbx::build {

namespace {

using profile::YamlNode;

constexpr std::size_t kMostSteps = 120;  // overlayfs and registries have such limits, too
constexpr std::size_t kLongestText = 128UL * 1024;  // what a program can be given (execve(2))

enum class Shape : std::uint8_t { kCommand, kCopy, kPairs, kWord, kWords };

struct Row {
  StepKind kind;
  std::string_view key;
  Shape shape;
};
constexpr std::array kRows{
    Row{StepKind::kRun, "run", Shape::kCommand},
    Row{StepKind::kCopy, "copy", Shape::kCopy},
    Row{StepKind::kEnv, "env", Shape::kPairs},
    Row{StepKind::kUser, "user", Shape::kWord},
    Row{StepKind::kWorkdir, "workdir", Shape::kWord},
    Row{StepKind::kEntrypoint, "entrypoint", Shape::kCommand},
    Row{StepKind::kCmd, "cmd", Shape::kCommand},
    Row{StepKind::kExpose, "expose", Shape::kWords},
    Row{StepKind::kVolume, "volume", Shape::kWords},
    Row{StepKind::kLabel, "label", Shape::kPairs},
};

const Row& row_of(StepKind kind) {
  return *std::find_if(
      kRows.begin(), kRows.end(), [kind](const Row& row) { return row.kind == kind; });
}

bool is_inside_path(std::string_view path) {
  if (!path.starts_with('/')) return false;
  const auto parts = text::split(path, '/');
  return std::none_of(parts.begin(), parts.end(), [](std::string_view part) {
    return part == "." || part == "..";
  });
}

/// A place below the recipe's directory; "." is the directory itself.
bool is_beneath(std::string_view path) {
  if (path.empty() || path.starts_with('/')) return false;
  const auto parts = text::split(path, '/');
  return std::none_of(
      parts.begin(), parts.end(), [](std::string_view part) { return part == ".."; });
}

bool is_variable(std::string_view name) {
  return !name.empty() && name.find_first_of("=\0", 0, 2) == std::string_view::npos;
}

bool is_port(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view number = text.substr(0, slash);
  const bool is_number =
      !number.empty() && number.size() <= 5 &&
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number || slash == std::string_view::npos) return is_number;
  const std::string_view protocol = text.substr(slash + 1);
  return protocol == "tcp" || protocol == "udp" || protocol == "sctp";
}

class Reader {
 public:
  explicit Reader(profile::Diagnostics& found) : found_(found) {}

  Recipe read(const YamlNode& top) {
    if (top.kind != YamlNode::Kind::kMap) {
      if (found_.empty()) found_.add(top.at, "a recipe is a map with the keys from and steps");
      return {};
    }
    for (std::size_t i = 0; i + 1 < top.items.size(); i += 2) {
      read_key(top.items[i], top.items[i + 1]);
    }
    if (recipe_.from.empty()) found_.add(top.at, "key \"from\" is missing: an image, or scratch");
    return std::move(recipe_);
  }

 private:
  void wrong(const YamlNode& node, std::string message) { found_.add(node.at, std::move(message)); }

  void read_key(const YamlNode& key, const YamlNode& value) {
    if (key.text == "from") return read_from(value);
    if (key.text == "profile") return read_word(value, recipe_.profile);
    if (key.text == "network") return read_network(value);
    if (key.text == "mounts") return read_words(value, recipe_.mounts);
    if (key.text == "steps") return read_steps(value);
    constexpr std::array<std::string_view, 5> kKeys{
        "from", "profile", "network", "mounts", "steps"};
    std::string message = text::cat("unknown key \"", key.text, "\"");
    const std::vector<std::string> keys(kKeys.begin(), kKeys.end());
    if (const auto near = text::closest(key.text, keys)) {
      message += text::cat(" (did you mean \"", *near, "\"?)");
    }
    wrong(key, std::move(message));
  }

  void read_from(const YamlNode& value) {
    read_word(value, recipe_.from);
    if (recipe_.from.empty() || recipe_.from == kScratch) return;
    const Status valid = image::check_name(recipe_.from);
    if (!valid.ok()) wrong(value, text::cat("from: ", valid.error().message()));
  }

  void read_network(const YamlNode& value) {
    std::string policy;
    read_word(value, policy);
    if (policy != "none") wrong(value, "network: this version of sbx knows only \"none\"");
  }

  void read_word(const YamlNode& value, std::string& into) {
    if (!value.is_scalar() || value.text.empty()) return wrong(value, "expected a text");
    if (value.text.size() > kLongestText) return wrong(value, "is too long");
    if (value.text.find('\0') != std::string::npos) return wrong(value, "must not hold a NUL byte");
    into = value.text;
  }

  void read_words(const YamlNode& value, std::vector<std::string>& into) {
    if (value.is_scalar()) return read_word(value, into.emplace_back());
    if (value.kind != YamlNode::Kind::kList) return wrong(value, "expected a list of texts");
    for (const YamlNode& item : value.items) {
      read_word(item, into.emplace_back());
    }
  }

  void read_steps(const YamlNode& value) {
    if (value.kind != YamlNode::Kind::kList) return wrong(value, "steps: expected a list");
    if (value.items.size() > kMostSteps) {
      return wrong(value, text::cat("steps: more than ", kMostSteps, "; put commands together"));
    }
    for (const YamlNode& item : value.items) {
      if (item.kind != YamlNode::Kind::kMap || item.items.size() != 2) {
        wrong(item, "a step is a map with one key, such as \"run: make\"");
        continue;
      }
      read_step(item.items[0], item.items[1]);
    }
  }

  void read_step(const YamlNode& key, const YamlNode& value) {
    const auto* row = std::find_if(
        kRows.begin(), kRows.end(), [&key](const Row& each) { return each.key == key.text; });
    if (row == kRows.end()) {
      std::vector<std::string> keys;
      for (const Row& each : kRows) {
        keys.emplace_back(each.key);
      }
      std::string message = text::cat("unknown step \"", key.text, "\"");
      if (const auto near = text::closest(key.text, keys)) {
        message += text::cat(" (did you mean \"", *near, "\"?)");
      }
      return wrong(key, std::move(message));
    }
    Step step;
    step.kind = row->kind;
    step.line = key.at.line;
    switch (row->shape) {
      case Shape::kCommand:
        read_command(value, step);
        break;
      case Shape::kCopy:
        read_copy(value, step);
        break;
      case Shape::kPairs:
        read_pairs(value, step);
        break;
      case Shape::kWord:
        read_word(value, step.words.emplace_back());
        break;
      case Shape::kWords:
        read_words(value, step.words);
        break;
    }
    if (found_.empty()) check(value, step);
    recipe_.steps.push_back(std::move(step));
  }

  /// A text is for the shell, a list is executed as it stands.
  void read_command(const YamlNode& value, Step& step) {
    read_words(value, step.words);
    if (value.is_scalar()) step.words.insert(step.words.begin(), {"/bin/sh", "-c"});
    if (step.words.empty() && step.kind == StepKind::kRun) wrong(value, "run: nothing to run");
  }

  void read_copy(const YamlNode& value, Step& step) {
    if (value.kind != YamlNode::Kind::kMap) {
      return wrong(value, "copy: expected {from: PATH, to: /PATH}");
    }
    for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const std::string& key = value.items[i].text;
      if (key == "from") {
        read_word(value.items[i + 1], step.from);
      } else if (key == "to") {
        read_word(value.items[i + 1], step.to);
      } else {
        wrong(value.items[i], text::cat("copy: unknown key \"", key, "\"; it has from and to"));
      }
    }
  }

  void read_pairs(const YamlNode& value, Step& step) {
    if (value.kind != YamlNode::Kind::kMap) return wrong(value, "expected a map of texts");
    for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
      auto& [name, text] = step.pairs.emplace_back(value.items[i].text, std::string());
      if (value.items[i + 1].is_scalar()) {
        text = value.items[i + 1].text;
      } else if (value.items[i + 1].kind != YamlNode::Kind::kNull) {
        wrong(value.items[i + 1], "expected a text");
      }
      if (step.kind == StepKind::kEnv && !is_variable(name)) {
        wrong(value.items[i], "env: no name of a variable");
      }
    }
  }

  void check(const YamlNode& value, const Step& step) {
    if (step.kind == StepKind::kCopy) {
      if (!is_beneath(step.from)) {
        wrong(value, "copy: from is a path below the recipe's directory, without \"..\"");
      }
      if (!is_inside_path(step.to)) wrong(value, "copy: to is an absolute path without \"..\"");
    }
    const bool are_paths = step.kind == StepKind::kWorkdir || step.kind == StepKind::kVolume;
    for (const std::string& word : step.words) {
      if (are_paths && !is_inside_path(word)) {
        wrong(value,
              text::cat(row_of(step.kind).key, ": expected an absolute path without \"..\""));
      }
      if (step.kind == StepKind::kExpose && !is_port(word)) {
        wrong(value, "expose: expected PORT or PORT/tcp, PORT/udp, PORT/sctp");
      }
    }
  }

  profile::Diagnostics& found_;
  Recipe recipe_;
};

template <typename Items>
void put_into(Items& sorted, const std::vector<std::string>& words) {
  std::set<std::string> all(sorted.begin(), sorted.end());
  all.insert(words.begin(), words.end());
  sorted.assign(all.begin(), all.end());
}

}  // namespace

std::string_view name(StepKind kind) {
  return row_of(kind).key;
}

std::string Step::to_text() const {
  std::string out(name(kind));
  if (kind == StepKind::kCopy) out += text::cat(" ", text::escape(from), " to ", text::escape(to));
  // The shell in front of a text says nothing.
  const bool is_shell = kind == StepKind::kRun && words.size() == 3 && words[0] == "/bin/sh";
  for (std::size_t i = is_shell ? 2 : 0; i < words.size(); ++i) {
    out += text::cat(" ", text::escape(words[i]));
  }
  for (const auto& [key, value] : pairs) {
    out += text::cat(" ", text::escape(key), "=", text::escape(value));
  }
  return out;
}

Result<Recipe> parse_recipe(std::string_view text, const std::string& file) {
  profile::Diagnostics found(file);
  const YamlNode top = profile::parse_yaml(text, found);
  Recipe recipe = Reader(found).read(top);
  if (found.empty()) return recipe;
  const std::vector<profile::Diagnostic> all = found.take();
  Error error(Errc::kUsage, text::escape(all.front().to_string()));
  if (all.size() == 1) return error;
  return std::move(error).with_hint(
      text::cat(all.size() - 1, " more, the next: ", text::escape(all[1].to_string())));
}

void apply(const Step& step, image::Config& config) {
  switch (step.kind) {
    case StepKind::kRun:
    case StepKind::kCopy:
      return;
    case StepKind::kEnv:
      for (const auto& [key, value] : step.pairs) {
        const std::string head = key + "=";
        std::erase_if(config.env,
                      [&head](const std::string& each) { return each.starts_with(head); });
        config.env.push_back(head + value);
      }
      return;
    case StepKind::kUser:
      config.user = step.words.front();
      return;
    case StepKind::kWorkdir:
      config.workdir = step.words.front();
      return;
    case StepKind::kEntrypoint:
      config.entrypoint = step.words;
      config.cmd.clear();  // it was for another program
      return;
    case StepKind::kCmd:
      config.cmd = step.words;
      return;
    case StepKind::kExpose: {
      std::vector<std::string> ports;
      for (const std::string& word : step.words) {
        ports.push_back(word.find('/') == std::string::npos ? word + "/tcp" : word);
      }
      put_into(config.exposed_ports, ports);
      return;
    }
    case StepKind::kVolume:
      put_into(config.volumes, step.words);
      return;
    case StepKind::kLabel:
      for (const auto& [key, value] : step.pairs) {
        std::erase_if(config.labels, [&key = key](const auto& each) { return each.first == key; });
        config.labels.emplace_back(key, value);
      }
      std::sort(config.labels.begin(), config.labels.end());
      return;
  }
}

}  // namespace sbx::build
