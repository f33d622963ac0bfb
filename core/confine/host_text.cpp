// Host text: see host_text.h.
#include "core/confine/host_text.h"

#include <charconv>
#include <cstddef>

#include "core/base/text.h"

namespace sbx::confine {
namespace {

// A host may have many mounts, and lines of any length; more than this is not looked at.
constexpr std::size_t kMaxLines = 100'000;

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// Calls `use` for each line without its line feed.
template <typename F>
void for_each_line(std::string_view text, F use) {
  for (std::size_t lines = 0; !text.empty() && lines < kMaxLines; ++lines) {
    const std::size_t end = text.find('\n');
    use(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

/// Undoes the kernel's \ooo for space, tab, line feed and backslash (seq_path).
std::string unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] <= '3' && is_octal(text[i + 1]) &&
        is_octal(text[i + 2]) && is_octal(text[i + 3])) {
      const int value = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
      out.push_back(static_cast<char>(value));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::optional<MountLine> mount_line(std::string_view line) {
  const std::vector<std::string_view> fields = text::split(line, ' ');
  // id parent major:minor root mount-point options optional* - type source super-options
  constexpr std::size_t kFixed = 6;
  std::size_t dash = kFixed;
  while (dash < fields.size() && fields[dash] != "-") {
    ++dash;
  }
  if (dash + 3 >= fields.size()) return std::nullopt;
  return MountLine{.root = unescape(fields[3]),
                   .mount_point = unescape(fields[4]),
                   .type = std::string(fields[dash + 1]),
                   .super_options = std::string(fields[dash + 3])};
}

}  // namespace

std::vector<MountLine> parse_mountinfo(std::string_view text) {
  std::vector<MountLine> out;
  for_each_line(text, [&out](std::string_view line) {
    if (auto mount = mount_line(line)) out.push_back(std::move(*mount));
  });
  return out;
}

std::vector<CgroupLine> parse_proc_cgroup(std::string_view text) {
  std::vector<CgroupLine> out;
  for_each_line(text, [&out](std::string_view line) {
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) return;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) return;
    const auto id = number<std::uint32_t>(line.substr(0, first));
    const std::string_view path = line.substr(second + 1);
    if (!id || path.empty() || path.front() != '/') return;
    out.push_back({.hierarchy = *id,
                   .controllers = std::string(line.substr(first + 1, second - first - 1)),
                   .path = std::string(path)});
  });
  return out;
}

std::vector<PasswdLine> parse_passwd(std::string_view text) {
  std::vector<PasswdLine> out;
  for_each_line(text, [&out](std::string_view line) {
    const std::vector<std::string_view> fields = text::split(line, ':');
    if (fields.size() < 6 || fields[0].empty() || fields[0].front() == '#') return;
    const auto uid = number<std::uint32_t>(fields[2]);
    const auto gid = number<std::uint32_t>(fields[3]);
    if (!uid || !gid) return;
    out.push_back(
        {.name = std::string(fields[0]), .uid = *uid, .gid = *gid, .home = std::string(fields[5])});
  });
  return out;
}

std::optional<std::string> find_home(std::string_view passwd, std::uint32_t uid) {
  for (PasswdLine& line : parse_passwd(passwd)) {
    if (line.uid != uid) continue;
    if (line.home.empty() || line.home.front() != '/') return std::nullopt;
    return std::move(line.home);
  }
  return std::nullopt;
}

std::vector<SubidLine> parse_subid_lines(std::string_view text) {
  std::vector<SubidLine> out;
  for_each_line(text, [&out](std::string_view line) {
    const std::vector<std::string_view> fields = text::split(line, ':');
    if (fields.size() != 3) return;
    const auto first = number<std::uint64_t>(text::trim(fields[1]));
    const auto count = number<std::uint64_t>(text::trim(fields[2]));
    if (first && count && *count > 0) out.push_back({std::string(fields[0]), {*first, *count}});
  });
  return out;
}

std::vector<IdSpan> parse_subid(std::string_view text) {
  std::vector<IdSpan> out;
  for (const SubidLine& line : parse_subid_lines(text)) {
    out.push_back(line.span);
  }
  return out;
}

std::vector<IdSpan> parse_third_field(std::string_view text) {
  std::vector<IdSpan> out;
  for_each_line(text, [&out](std::string_view line) {
    const std::vector<std::string_view> fields = text::split(line, ':');
    if (fields.size() < 3) return;
    if (const auto id = number<std::uint32_t>(fields[2])) out.push_back({*id, 1});
  });
  return out;
}

std::optional<ProcStat> parse_proc_stat(std::string_view text) {
  // The name in parentheses may hold anything, so count from the last ')': state is field 3.
  const std::size_t close = text.rfind(')');
  if (close == std::string_view::npos || close + 2 >= text.size()) return std::nullopt;
  const std::vector<std::string_view> fields = text::split(text::trim(text.substr(close + 2)), ' ');
  constexpr std::size_t kUserTime = 14 - 3;
  constexpr std::size_t kStartTime = 22 - 3;
  constexpr std::size_t kRss = 24 - 3;
  if (fields.size() <= kStartTime || fields[0].size() != 1) return std::nullopt;
  const auto start = number<std::uint64_t>(fields[kStartTime]);
  if (!start) return std::nullopt;
  const auto count = [&fields](std::size_t index) {
    return index < fields.size() ? number<std::uint64_t>(fields[index]).value_or(0) : 0;
  };
  const auto id = [&fields](std::size_t index) {
    return number<std::int32_t>(fields[index]).value_or(0);
  };
  const std::size_t open = text.find('(');
  ProcStat out;
  out.state = fields[0].front();
  out.parent = id(1);
  out.group = id(2);
  out.session = id(3);
  out.cpu_time = count(kUserTime) + count(kUserTime + 1);
  out.start_time = *start;
  out.rss = count(kRss);
  if (open < close) out.name = text.substr(open + 1, close - open - 1);
  return out;
}

std::optional<std::uint64_t> find_counter(std::string_view text, std::string_view key) {
  std::optional<std::uint64_t> out;
  for_each_line(text, [&](std::string_view line) {
    if (out || line.size() <= key.size() || !line.starts_with(key) || line[key.size()] != ' ') {
      return;
    }
    out = number<std::uint64_t>(text::trim(line.substr(key.size() + 1)));
  });
  return out;
}

}  // namespace sbx::confine
