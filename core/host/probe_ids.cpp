// Whose user ids may be whose: root's ranges for sandboxes, and the lines of /etc/subuid.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "core/confine/host_text.h"
#include "core/confine/idmap.h"
#include "core/host/facts.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

using confine::IdRange;
using confine::IdSpan;
using confine::SubidLine;

struct Source {
  std::string_view file;
  std::string_view remove;  // usermod's flag
  std::string_view what;
};
constexpr std::array<Source, 2> kSources{
    {{"/etc/subuid", "--del-subuids", "user"}, {"/etc/subgid", "--del-subgids", "group"}}};

bool meet(const IdSpan& a, const IdSpan& b) {
  return a.first <= b.first ? b.first - a.first < a.count : a.first - b.first < b.count;
}

std::uint64_t last(const IdSpan& span) {
  const std::uint64_t more = span.count - 1;
  return more > ~std::uint64_t{0} - span.first ? ~std::uint64_t{0} : span.first + more;
}

std::string ids(const IdSpan& span) {
  return text::cat(span.first, "-", last(span));
}

/// The least range that shadow's useradd would give that meets none of `lines`.
std::uint64_t free_start(const std::vector<SubidLine>& lines) {
  std::uint64_t start = 100'000;
  for (bool moved = true; moved;) {
    moved = false;
    for (const SubidLine& line : lines) {
      const bool is_free = !meet(line.span, {start, IdRange::kCount});
      if (is_free || last(line.span) >= IdRange::kFirst) continue;
      start = last(line.span) + 1;
      moved = true;
    }
  }
  return start;
}

std::string move_fix(const Source& source,
                     const SubidLine& line,
                     const std::vector<SubidLine>& lines) {
  const std::string_view add = source.remove == "--del-subuids" ? "--add-subuids" : "--add-subgids";
  const std::uint64_t start = free_start(lines);
  return text::cat("as root: usermod ",
                   source.remove,
                   " ",
                   ids(line.span),
                   " ",
                   add,
                   " ",
                   start,
                   "-",
                   start + IdRange::kCount - 1,
                   " ",
                   text::escape(line.owner),
                   " (in ",
                   source.file,
                   "; end that user's containers first)");
}

/// Two owners who may both become the same id, else a line that covers ids of sandboxes.
std::optional<Finding> find_overlap(const Source& source,
                                    const std::vector<SubidLine>& lines,
                                    std::string_view tried) {
  const IdSpan ours{IdRange::kFirst, IdRange::kEnd - IdRange::kFirst};
  for (const SubidLine& line : lines) {
    if (!meet(line.span, ours)) continue;
    return weak(std::string(tried),
                text::cat(source.file,
                          " gives ",
                          text::escape(line.owner),
                          " the ids ",
                          ids(line.span),
                          ", which reach into those of root's sandboxes (",
                          ids(ours),
                          "); sbx leaves those out"),
                move_fix(source, line, lines));
  }
  constexpr std::size_t kMaxLines = 2000;  // compared with one another
  const std::size_t count = std::min(lines.size(), kMaxLines);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (lines[i].owner == lines[j].owner || !meet(lines[i].span, lines[j].span)) continue;
      return weak(std::string(tried),
                  text::cat(source.file,
                            ": the ",
                            source.what,
                            " ids of ",
                            text::escape(lines[j].owner),
                            " (",
                            ids(lines[j].span),
                            ") and of ",
                            text::escape(lines[i].owner),
                            " (",
                            ids(lines[i].span),
                            ") overlap: their containers may reach into each other's"),
                  move_fix(source, lines[i], lines));
    }
  }
  return std::nullopt;
}

/// A person's own id that somebody else may become.
std::optional<Finding> find_covered_user(const HostFiles& files,
                                         const std::vector<SubidLine>& lines,
                                         std::string_view tried) {
  const auto passwd = read_host_file(files, "/etc/passwd");
  if (!passwd) return std::nullopt;
  for (const confine::PasswdLine& user : confine::parse_passwd(*passwd)) {
    for (const SubidLine& line : lines) {
      if (line.owner == user.name || !meet(line.span, {user.uid, 1})) continue;
      return weak(std::string(tried),
                  text::cat("/etc/subuid gives ",
                            text::escape(line.owner),
                            " the ids ",
                            ids(line.span),
                            ", and ",
                            text::escape(user.name),
                            " has the user id ",
                            user.uid),
                  move_fix(kSources[0], line, lines));
    }
  }
  return std::nullopt;
}

}  // namespace

Finding check_subids(const DoctorContext& context) {
  const std::string tried = "compared the lines of /etc/subuid and /etc/subgid";
  std::size_t count = 0;
  for (const Source& source : kSources) {
    const auto content = read_host_file(context.files, source.file);
    if (!content) continue;
    const std::vector<SubidLine> lines = confine::parse_subid_lines(*content);
    count += lines.size();
    if (auto finding = find_overlap(source, lines, tried)) return *std::move(finding);
    if (source.file == "/etc/subuid") {
      if (auto finding = find_covered_user(context.files, lines, tried)) return *std::move(finding);
    }
  }
  if (count == 0) return plays_no_part("no user has subordinate ids; sbx needs none");
  return works(text::cat(tried, ": ", count, " lines, none meets another's"));
}

Finding check_id_ranges(const DoctorContext& context) {
  if (!context.files.is_root) {
    return plays_no_part("an ordinary user's sandbox has that user's one id");
  }
  if (!Facts().may_map_id_ranges()) {
    return weak("looked at /proc/self/uid_map",
                "root of this user namespace has too few ids, so that sandboxes run as root's own",
                "start the container around it with all ids (without userns-remap), or run sbx as "
                "an ordinary user");
  }
  const std::string tried = "claimed a range of 65536 ids and gave it back";
  const auto dir = id_claim_dir(context.paths);
  if (!dir.ok()) return missing(tried, dir.error());
  const auto range = IdRange::claim(dir.value());
  if (!range.ok()) return missing(tried, range.error());
  return works(tried);
}

}  // namespace sbx::host
