// Values: one small reader and writer per C++ type of a field.
#include "core/profile/values.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/text.h"
#include "core/profile/mounts.h"
#include "core/profile/rules.h"
#include "core/profile/show.h"

namespace sbx::profile {
namespace {

constexpr std::string_view kUnlimited = "unlimited";
constexpr std::size_t kShown = 64;

bool is_digits(std::string_view s) {
  return !s.empty() && s.find_first_not_of("0123456789") == std::string_view::npos;
}

/// "1.5" as 1500; at most three decimals.
std::optional<std::uint32_t> parse_cpus(std::string_view text) {
  const std::size_t dot = text.find('.');
  const std::string_view whole = text.substr(0, dot);
  std::string decimals = dot == std::string_view::npos ? "0" : std::string(text.substr(dot + 1));
  if (!is_digits(whole) || !is_digits(decimals)) return std::nullopt;
  if (whole.size() > 6 || decimals.size() > 3) return std::nullopt;
  if (whole.size() > 1 && whole.front() == '0') return std::nullopt;
  decimals.resize(3, '0');
  std::uint32_t value = 0;
  const std::string digits = text::cat(whole, decimals);
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// What a project's profile may take from the caller's environment: nothing that could be a secret.
constexpr std::array<std::string_view, 8> kHarmless{
    "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "TZ", "COLUMNS", "LINES"};

bool is_harmless(std::string_view variable) {
  return variable.starts_with("LC_") ||
         std::find(kHarmless.begin(), kHarmless.end(), variable) != kHarmless.end();
}

}  // namespace

std::string quoted(std::string_view s) {
  return text::cat('\'', text::escape(s.substr(0, kShown)), s.size() > kShown ? "..." : "", '\'');
}

std::string_view kind_name(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "a single value";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
  }
  return "?";
}

/// The value of `node` into the field that `get` names.
struct Reader::ReadField {
  Reader& reader;
  const Key& key;
  const YamlNode& node;
  Put put;

  void operator()(std::monostate /*extends*/) const {}

  void operator()(Get<std::string> get) const {
    std::string text;
    if (!reader.wants_scalar(key, node, "a text")) return;
    if (reader.read_item(key, node, text)) get(reader.profile_) = std::move(text);
  }

  void operator()(Get<bool> get) const {
    if (!reader.wants_scalar(key, node, "true or false")) return;
    if (node.is_quoted) {
      return reader.complain(
          node,
          key.path,
          text::cat("expected true or false without quotes, not the text ", quoted(node.text)));
    }
    if (node.text != "true" && node.text != "false") {
      return reader.complain(
          node, key.path, text::cat("expected true or false, not ", quoted(node.text)));
    }
    get(reader.profile_) = node.text == "true";
  }

  void operator()(Get<Isolation> get) const {
    if (!reader.wants_scalar(key, node, "jail, vm or auto")) return;
    for (const Isolation isolation : {Isolation::kJail, Isolation::kVm, Isolation::kAuto}) {
      if (node.text != name(isolation)) continue;
      get(reader.profile_) = isolation;
      return;
    }
    reader.complain(
        node, key.path, text::cat("expected jail, vm or auto, not ", quoted(node.text)));
  }

  void operator()(Get<HostTool> get) const {
    if (!reader.wants_scalar(key, node, "the path of a program")) return;
    const Source& source = reader.source_;
    Result<HostTool> tool = make_tool(node.text, {source.base_dir, source.home, source.project});
    if (!tool.ok()) return reader.complain(node, key.path, tool.error().message());
    get(reader.profile_) = std::move(tool).value();
  }

  void operator()(Get<HostPath> get) const {
    if (!reader.wants_scalar(key, node, "a path")) return;
    const Source& source = reader.source_;
    Result<HostPath> path =
        make_host_path(node.text, {source.base_dir, source.home, source.project});
    if (!path.ok()) return reader.complain(node, key.path, path.error().message());
    get(reader.profile_) = std::move(path).value();
  }

  void operator()(Get<std::uint64_t> get) const {
    if (const std::optional<std::uint64_t> count = read_count("a number")) {
      get(reader.profile_) = *count;
    }
  }

  void operator()(Get<std::optional<std::uint64_t>> get) const {
    if (is_unlimited()) {
      get(reader.profile_).reset();
    } else if (const auto count = read_count("a number or unlimited")) {
      get(reader.profile_) = *count;
    }
  }

  void operator()(Get<std::optional<Bytes>> get) const {
    if (is_unlimited()) return get(reader.profile_).reset();
    if (!reader.wants_scalar(key, node, "a size such as 512M, or unlimited")) return;
    const Result<Bytes> bytes = parse_bytes(node.text);
    if (!bytes.ok()) return reader.complain(node, key.path, bytes.error().message());
    if (reader.in_range(key, node, bytes.value().v)) get(reader.profile_) = bytes.value();
  }

  void operator()(Get<std::optional<Millis>> get) const {
    if (is_unlimited()) return get(reader.profile_).reset();
    if (!reader.wants_scalar(key, node, "a duration such as 30s, or unlimited")) return;
    const Result<Millis> time = parse_duration(node.text);
    if (!time.ok()) return reader.complain(node, key.path, time.error().message());
    if (reader.in_range(key, node, static_cast<std::uint64_t>(time.value().v))) {
      get(reader.profile_) = time.value();
    }
  }

  void operator()(Get<std::optional<std::uint32_t>> get) const {
    if (is_unlimited()) return get(reader.profile_).reset();
    if (!reader.wants_scalar(key, node, "a number such as 1.5, or unlimited")) return;
    const std::optional<std::uint32_t> cpus = parse_cpus(node.text);
    if (!cpus) {
      return reader.complain(node,
                             key.path,
                             text::cat(quoted(node.text),
                                       " is no number of processors; expected a number with at "
                                       "most three decimals, such as 2, 1.5 or 0.25"));
    }
    if (reader.in_range(key, node, *cpus)) get(reader.profile_) = *cpus;
  }

  void operator()(Get<std::vector<std::string>> get) const {
    std::vector<std::string>& list = get(reader.profile_);
    std::string item;
    if (put == Put::kAdd) {
      if (reader.read_item(key, node, item)) list.push_back(std::move(item));
      return;
    }
    if (node.kind != YamlNode::Kind::kList) return complain_no_list("a list");
    std::vector<std::string> items;
    for (const YamlNode& each : node.items) {
      if (reader.read_item(key, each, item)) items.push_back(std::move(item));
    }
    list = std::move(items);
  }

  void operator()(Get<std::vector<EnvVar>> /*get*/) const {
    reader.read_named(key, node, &Reader::read_variable, "a map, NAME: value");
  }

  void operator()(Get<std::vector<Service>> /*get*/) const {
    reader.read_named(key, node, &Reader::read_service, "a map, NAME: {command: [...]}");
  }

  void operator()(Get<Labels> /*get*/) const {
    reader.read_named(key, node, &Reader::read_label, "a map, NAME: value");
  }

  void operator()(Get<std::vector<Mount>> /*get*/) const {
    if (put == Put::kAdd) return reader.read_mount(node);
    if (node.kind != YamlNode::Kind::kList) return complain_no_list("a list of mounts");
    for (const YamlNode& each : node.items) {
      reader.read_mount(each);
    }
  }

 private:
  bool is_unlimited() const { return node.is_scalar() && node.text == kUnlimited; }

  void complain_no_list(std::string_view wants) const {
    if (node.kind == YamlNode::Kind::kNull) {
      return reader.complain(node, key.path, "has no value; write [] for an empty list");
    }
    std::string what = text::cat("expected ", wants, ", not ", kind_name(node));
    if (node.is_scalar() && node.text.size() <= kShown) {
      what += text::cat("; write [", text::escape(node.text), ']');
    }
    reader.complain(node, key.path, what);
  }

  std::optional<std::uint64_t> read_count(std::string_view wants) const {
    if (!reader.wants_scalar(key, node, wants)) return std::nullopt;
    if (node.is_quoted) {
      reader.complain(
          node,
          key.path,
          text::cat("expected ", wants, " without quotes, not the text ", quoted(node.text)));
      return std::nullopt;
    }
    const Result<std::uint64_t> count = parse_count(node.text);
    if (!count.ok()) {
      reader.complain(node, key.path, count.error().message());
      return std::nullopt;
    }
    if (!reader.in_range(key, node, count.value())) return std::nullopt;
    return count.value();
  }
};

void Reader::complain(const YamlNode& node, std::string_view path, std::string_view what) {
  // A flag or variable names the key already.
  const bool is_in_file = node.at.line != 0;
  diagnostics_->add(node.at, is_in_file ? text::cat(path, ": ", what) : std::string(what));
}

bool Reader::wants_scalar(const Key& key, const YamlNode& node, std::string_view wants) {
  if (node.is_scalar()) return true;
  if (node.kind == YamlNode::Kind::kNull) {
    complain(node, key.path, text::cat("has no value; expected ", wants));
  } else {
    complain(node, key.path, text::cat("expected ", wants, ", not ", kind_name(node)));
  }
  return false;
}

std::string Reader::range_sentence(const Key& key,
                                   const YamlNode& node,
                                   std::uint64_t value) const {
  const auto show = [&](std::uint64_t number) -> std::string {
    if (std::holds_alternative<Get<std::optional<Bytes>>>(key.field)) {
      return to_string(Bytes{number});
    }
    if (std::holds_alternative<Get<std::optional<Millis>>>(key.field)) {
      return to_string(Millis{static_cast<std::int64_t>(number)});
    }
    if (std::holds_alternative<Get<std::optional<std::uint32_t>>>(key.field)) {
      return show_cpus(static_cast<std::uint32_t>(number));
    }
    return std::to_string(number);
  };
  const bool is_small = value < key.range.least;
  std::string what =
      text::cat(quoted(node.text),
                is_small ? " is too small, the least is " : " is too large, the most is ",
                show(is_small ? key.range.least : key.range.most));
  const bool is_size = std::holds_alternative<Get<std::optional<Bytes>>>(key.field);
  if (is_small && is_size && is_digits(node.text) && value > 0) {
    what += text::cat(" (a bare number is bytes, did you mean ", node.text, "M?)");
  } else if (is_small && value == 0 && !std::holds_alternative<Get<std::uint64_t>>(key.field)) {
    what += " (for no limit write unlimited)";
  }
  return what;
}

bool Reader::in_range(const Key& key, const YamlNode& node, std::uint64_t value) {
  if (value >= key.range.least && value <= key.range.most) return true;
  complain(node, key.path, range_sentence(key, node, value));
  return false;
}

bool Reader::read_item(const Key& key, const YamlNode& node, std::string& out) {
  if (!wants_scalar(key, node, "a text")) return false;
  const std::string complaint = key.complaint == nullptr ? "" : key.complaint(node.text);
  if (!complaint.empty()) {
    complain(node, key.path, text::cat(quoted(node.text), ' ', complaint));
    return false;
  }
  if (key.path == "env_pass" && !source_.project.empty() && !is_harmless(node.text)) {
    complain(node,
             key.path,
             text::cat(node.text,
                       " may hold a secret: a project's profile needs --allow-outside "
                       "to take it from your environment"));
    return false;
  }
  out = key.canonical == nullptr ? node.text : key.canonical(node.text);
  return true;
}

void Reader::read_mount(const YamlNode& node) {
  MountText text;
  if (node.is_scalar()) {
    Result<MountText> split = split_mount(node.text);
    if (!split.ok()) return complain(node, "mounts", split.error().message());
    text = std::move(split).value();
  } else if (node.kind == YamlNode::Kind::kMap) {
    for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
      const YamlNode& part = node.items[i];
      const YamlNode& value = node.items[i + 1];
      if (!part.is_scalar()) return;  // reported with the YAML
      std::string* const field = part.text == "source"   ? &text.source
                                 : part.text == "target" ? &text.target
                                 : part.text == "mode"   ? &text.mode
                                                         : nullptr;
      if (field == nullptr) {
        return complain(
            part,
            "mounts",
            text::cat("unknown key ", quoted(part.text), "; a mount has source, target and mode"));
      }
      if (!value.is_scalar()) {
        return complain(
            value, "mounts", text::cat(part.text, ": expected a text, not ", kind_name(value)));
      }
      *field = value.text;
    }
    if (text.source.empty()) return complain(node, "mounts", "a mount needs a source");
    if (text.target.empty()) return complain(node, "mounts", "a mount needs a target");
  } else {
    return complain(node,
                    "mounts",
                    text::cat("expected SRC:DST[:ro|rw|overlay] or a map, not ", kind_name(node)));
  }
  Result<Mount> made = make_mount(text, {source_.base_dir, source_.home, source_.project});
  if (!made.ok()) return complain(node, "mounts", made.error().message());
  Mount mount = std::move(made).value();
  if (!targets_.insert(mount.target).second) {
    return complain(
        node, "mounts", text::cat(quoted(mount.target), " is the target of two mounts"));
  }
  set_origin(text::cat("mounts.", mount.target), node.at);
  const auto found = std::find_if(profile_.mounts.begin(),
                                  profile_.mounts.end(),
                                  [&](const Mount& each) { return each.target == mount.target; });
  if (found == profile_.mounts.end()) {
    profile_.mounts.push_back(std::move(mount));
  } else {
    *found = std::move(mount);
  }
}

void Reader::set_origin(std::string path, Position at) {
  std::string where = source_.file;
  if (at.line != 0) where += text::cat(':', at.line, ':', at.column);
  profile_.origins.insert_or_assign(std::move(path), Origin{source_.layer, std::move(where)});
}

void Reader::read(const Key& key, const YamlNode& node, Put put) {
  std::visit(ReadField{*this, key, node, put}, key.field);
  set_origin(std::string(key.path), node.at);
}

void Reader::switch_to(std::string file, Diagnostics& diagnostics) {
  source_.file = std::move(file);
  diagnostics_ = &diagnostics;
}

}  // namespace sbx::profile
