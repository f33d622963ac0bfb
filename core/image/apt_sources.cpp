// Apt sources: see apt_sources.h.
#include "core/image/apt_sources.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/text.h"

namespace sbx::image {

namespace {

constexpr std::size_t kLongestSuite = 64;

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!is_space) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

/// The deb822 field of an option: "arch" is "Architectures", "signed-by" is "Signed-By".
std::string field_of(std::string_view option) {
  if (option == "arch") return "Architectures";
  if (option == "lang") return "Languages";
  if (option == "target") return "Targets";
  std::string out(option);
  bool is_first = true;
  for (char& c : out) {
    if (is_first && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    is_first = c == '-';
  }
  return out;
}

/// "[arch=amd64,i386 signed-by=/k]" without the brackets, as fields.
std::vector<std::pair<std::string, std::string>> options_of(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const std::string& option : words_of(text)) {
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const char before = option[equals - 1];  // "arch+=" and "arch-="
    if (before == '+' || before == '-') continue;
    std::string value = option.substr(equals + 1);
    std::ranges::replace(value, ',', ' ');
    fields.emplace_back(field_of(option.substr(0, equals)), std::move(value));
  }
  return fields;
}

std::string joined(const std::vector<std::string>& words) {
  return text::join(words, " ");
}

/// Whether it is `suite`, or one that belongs to it: SUITE-updates, SUITE/updates.
bool belongs_to(std::string_view name, std::string_view suite) {
  if (!name.starts_with(suite)) return false;
  return name.size() == suite.size() || name[suite.size()] == '-' || name[suite.size()] == '/';
}

bool is_plain(std::string_view name) {
  return name.find_first_of("-/") == std::string_view::npos;
}

std::string stanza(const AptSource& source, const std::vector<std::string>& suites) {
  std::string out = text::cat("Types: deb\nURIs: ", joined(source.uris), "\n");
  out += text::cat("Suites: ", joined(suites), "\n");
  for (const auto& [name, value] : source.other) {
    out += text::cat(name, ": ", value, "\n");
  }
  return out + "\n";
}

/// One stanza's lines; continued ones begin with a space.
std::vector<std::pair<std::string, std::string>> fields_of(
    std::span<const std::string_view> lines) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const std::string_view line : lines) {
    if (line.starts_with('#')) continue;
    if (line.starts_with(' ') || line.starts_with('\t')) {
      if (!fields.empty()) fields.back().second += text::cat("\n", line);
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    fields.emplace_back(line.substr(0, colon), text::trim(line.substr(colon + 1)));
  }
  return fields;
}

void add_stanza(std::span<const std::string_view> lines, std::vector<AptSource>& sources) {
  AptSource source;
  bool is_binary = false;
  bool is_enabled = true;
  for (auto& [name, value] : fields_of(lines)) {
    const std::string key = lower(name);
    if (key == "types") {
      const std::vector<std::string> types = words_of(value);
      is_binary = std::ranges::find(types, "deb") != types.end();
    } else if (key == "uris") {
      source.uris = words_of(value);
    } else if (key == "suites") {
      source.suites = words_of(value);
    } else if (key == "enabled") {
      const std::string word = lower(value);
      is_enabled = word != "no" && word != "false" && word != "0" && word != "off";
    } else if (!key.starts_with("x-")) {
      source.other.emplace_back(std::move(name), std::move(value));
    }
  }
  if (is_binary && is_enabled && !source.uris.empty() && !source.suites.empty()) {
    sources.push_back(std::move(source));
  }
}

}  // namespace

std::vector<AptSource> parse_one_line(std::string_view text) {
  std::vector<AptSource> sources;
  for (std::string_view line : text::split(text, '\n')) {
    line = text::trim(line.substr(0, line.find('#')));
    if (!line.starts_with("deb ") && !line.starts_with("deb\t")) continue;
    line = text::trim(line.substr(3));
    AptSource source;
    if (line.starts_with('[')) {
      const std::size_t end = line.find(']');
      if (end == std::string_view::npos) continue;
      source.other = options_of(line.substr(1, end - 1));
      line = text::trim(line.substr(end + 1));
    }
    std::vector<std::string> words = words_of(line);
    if (words.size() < 2) continue;
    source.uris = {words[0]};
    source.suites = {words[1]};
    words.erase(words.begin(), words.begin() + 2);
    if (!words.empty()) source.other.emplace_back("Components", joined(words));
    sources.push_back(std::move(source));
  }
  return sources;
}

std::vector<AptSource> parse_deb822(std::string_view text) {
  std::vector<AptSource> sources;
  std::vector<std::string_view> lines;
  for (const std::string_view line : text::split(text, '\n')) {
    if (!text::trim(line).empty()) {
      lines.push_back(line);
      continue;
    }
    add_stanza(lines, sources);
    lines.clear();
  }
  add_stanza(lines, sources);
  return sources;
}

Result<std::string> sources_for(std::span<const AptSource> sources, std::string_view suite) {
  std::string out;
  for (const AptSource& source : sources) {
    std::vector<std::string> suites;
    std::ranges::copy_if(source.suites, std::back_inserter(suites), [&](const std::string& name) {
      return belongs_to(name, suite);
    });
    if (!suites.empty()) out += stanza(source, suites);
  }
  if (!out.empty()) return out;
  for (const AptSource& source : sources) {
    if (std::ranges::any_of(source.suites, is_plain)) {
      return stanza(source, {std::string(suite)});
    }
  }
  return Error(Errc::kNotFound, "this host's apt has no sources of packages")
      .with_hint("a line \"deb URI SUITE COMPONENTS\" in /etc/apt/sources.list (sources.list(5))");
}

Status check_suite(std::string_view suite) {
  const bool is_name = !suite.empty() && suite.size() <= kLongestSuite && suite.front() != '-' &&
                       std::ranges::all_of(suite, [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-' ||
                                c == '_';
                       });
  if (is_name) return {};
  return Error(Errc::kUsage, text::cat("\"", text::escape(suite), "\" is no name of a suite"))
      .with_hint("e.g. bookworm, trixie, stable");
}

}  // namespace sbx::image
