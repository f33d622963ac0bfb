// Tests of the tree diff: what is told, and that nothing else is.
#include "core/workspace/tree_diff.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/workspace/layer_squash.h"

#include "tests/unit/workspace/place.h"
#include "tests/unit/workspace/random_tree.h"

namespace sbx::workspace {
namespace {

/// One line a change: "A path", "M path what", "D path".
std::vector<std::string> changes_of(MergedTree& before, MergedTree& after, std::size_t shared) {
  std::vector<std::string> lines;
  const Status done = diff_trees(before, after, {.shared = shared}, [&](const Change& change) {
    std::string line = change.kind == Change::Kind::kAdded     ? "A "
                       : change.kind == Change::Kind::kDeleted ? "D "
                                                               : "M ";
    line += change.path;
    if (change.has_type) line += " type";
    if (change.has_content) line += " content";
    if (change.has_mode) line += " mode";
    if (change.has_owner) line += " owner";
    if (change.has_attributes) line += " attributes";
    lines.push_back(line);
    return Status();
  });
  if (!done.ok()) lines.push_back(done.error().to_string());
  return lines;
}

using Lines = std::vector<std::string>;

class Pair {
 public:
  const Place place;
  const std::string low = place.layer();
  const std::string high = place.layer();

  Lines changes() const {
    MergedTree before = tree_of(place, {low});
    MergedTree after = tree_of(place, {low, high});
    return changes_of(before, after, 1);
  }
};

/// What two snapshots say is different: 'A', 'D' or 'M' and the path, without times.
Lines expected(const Snapshot& before, const Snapshot& after) {
  std::set<std::string> paths;
  for (const auto& [path, text] : before) {
    paths.insert(path);
  }
  for (const auto& [path, text] : after) {
    paths.insert(path);
  }
  Lines lines;
  for (const std::string& path : paths) {
    const auto a = before.find(path);
    const auto b = after.find(path);
    if (a == before.end()) lines.push_back("A " + path);
    if (b == after.end()) lines.push_back("D " + path);
    if (a != before.end() && b != after.end() && a->second != b->second) {
      lines.push_back("M " + path);
    }
  }
  return lines;
}

/// Times say nothing of a change.
Snapshot without_times(Snapshot snapshot) {
  for (auto& [path, text] : snapshot) {
    std::vector<std::string_view> words = text::split(text, ' ');
    if (words.size() > 3) words[3] = "";
    std::string joined;
    for (const std::string_view word : words) {
      joined += std::string(word) + " ";
    }
    text = joined;
  }
  return snapshot;
}

Lines only_names(Lines lines) {
  for (std::string& line : lines) {
    for (const char* what : {" attributes", " owner", " mode", " content", " type"}) {
      if (line.ends_with(what)) line.resize(line.size() - std::string_view(what).size());
    }
  }
  std::ranges::sort(lines);
  return lines;
}

std::string compare_seed(std::uint32_t seed) {
  const Place place;
  Changer changer(seed);
  std::vector<std::string> ids{place.layer()};
  std::vector<Snapshot> views;
  changer.change(place.root(ids[0]), 60);
  views.push_back(without_times(snapshot_of_path(place.root(ids[0]))));
  for (int i = 0; i < 3; ++i) {
    const std::string upper = place.layer();
    const Overlay overlay(place, ids, upper);
    if (!overlay.is_mounted()) return "SKIP";
    changer.change(overlay.path(), 40);
    ids.push_back(upper);
    views.push_back(without_times(snapshot_of_path(overlay.path())));
  }
  MergedTree last = tree_of(place, ids);
  for (std::size_t i = 0; i < views.size(); ++i) {
    MergedTree early = tree_of(place, Lines(ids.begin(), ids.begin() + static_cast<long>(i) + 1));
    Lines wanted = expected(views[i], views.back());
    std::ranges::sort(wanted);
    for (const std::size_t shared : {i + 1, std::size_t{0}}) {
      const Lines told = only_names(changes_of(early, last, shared));
      if (told == wanted) continue;
      return text::cat("seed ",
                       seed,
                       " since ",
                       i,
                       " shared ",
                       shared,
                       ": told\n",
                       text::join(told, "\n"),
                       "\nwanted\n",
                       text::join(wanted, "\n"));
    }
  }
  return "";
}

}  // namespace

TEST_CASE("tree diff: each kind of change is told once, in order, with what it is") {
  const Pair pair;
  const auto& [place, low, high] = pair;
  make_dir(place.at(low, "dir"));
  write_file(place.at(low, "dir/content"), "one");
  write_file(place.at(low, "dir/mode"), "same");
  write_file(place.at(low, "dir/note"), "same");
  write_file(place.at(low, "gone"), "");
  write_file(place.at(low, "type"), "");
  make_link("a", place.at(low, "link"));
  make_dir(place.at(high, "dir"));
  write_file(place.at(high, "dir/content"), "two");
  write_file(place.at(high, "dir/mode"), "same", 0755);
  write_file(place.at(high, "dir/note"), "same");
  REQUIRE(::setxattr(place.at(high, "dir/note").c_str(), "user.note", "n", 1, 0) == 0);
  make_whiteout(place.at(high, "gone"));
  make_dir(place.at(high, "type"));
  write_file(place.at(high, "type/below"), "");
  make_link("b", place.at(high, "link"));
  make_dir(place.at(high, "new"));
  write_file(place.at(high, "new/file"), "");
  CHECK(pair.changes() == Lines{"M dir/content content",
                                "M dir/mode mode",
                                "M dir/note attributes",
                                "D gone",
                                "M link content",
                                "A new",
                                "A new/file",
                                "M type type mode",
                                "A type/below"});
}

TEST_CASE("tree diff: copies without a change, times and whiteouts of nothing are no entries") {
  const Pair pair;
  const auto& [place, low, high] = pair;
  make_dir(place.at(low, "dir"));
  write_file(place.at(low, "dir/file"), "same");
  make_dir(place.at(high, "dir"));
  write_file(place.at(high, "dir/file"), "same");
  make_whiteout(place.at(high, "never"));
  make_whiteout(place.at(high, "dir/never"));
  REQUIRE(::setxattr(place.at(high, "dir").c_str(), "user.overlay.impure", "y", 1, 0) == 0);
  CHECK(pair.changes() == Lines{});
}

TEST_CASE("tree diff: what a directory that was made again lost is told") {
  const Pair pair;
  const auto& [place, low, high] = pair;
  make_dir(place.at(low, "dir"));
  write_file(place.at(low, "dir/kept"), "same");
  write_file(place.at(low, "dir/lost"), "");
  make_dir(place.at(low, "dir/below"));
  write_file(place.at(low, "dir/below/lost"), "");
  make_dir(place.at(high, "dir"));
  make_opaque(place.at(high, "dir"));
  write_file(place.at(high, "dir/kept"), "same");
  CHECK(pair.changes() == Lines{"D dir/below", "D dir/below/lost", "D dir/lost"});
}

TEST_CASE("tree diff: left out paths are left out with everything below") {
  const Pair pair;
  const auto& [place, low, high] = pair;
  make_dir(place.at(high, "tmp"));
  write_file(place.at(high, "tmp/x"), "");
  write_file(place.at(high, "tmp2"), "");
  MergedTree before = tree_of(place, {low});
  MergedTree after = tree_of(place, {low, high});
  std::string told;
  const auto skip = [](const std::string& path) { return path == "tmp"; };
  const Status done = diff_trees(before, after, {1, true, skip}, [&](const Change& change) {
    told += change.path + "\n";
    return Status();
  });
  CHECK(done.ok());
  CHECK(told == "tmp2\n");
}

TEST_CASE("tree diff: a sparse file of 100 GB is compared by its data") {
  const Pair pair;
  const auto& [place, low, high] = pair;
  for (const std::string& id : {low, high}) {
    write_file(place.at(id, "sparse"), "begin");
    REQUIRE(::truncate(place.at(id, "sparse").c_str(), 100'000'000'000) == 0);
  }
  CHECK(pair.changes() == Lines{});
  const auto file = sys::open(place.at(high, "sparse"), O_WRONLY);
  REQUIRE(file.ok());
  REQUIRE(::pwrite(file.value().get(), "x", 1, 50'000'000'000) == 1);
  CHECK(pair.changes() == Lines{"M sparse content"});
}

TEST_CASE("tree diff: random trees changed in overlays, the changes are those that are seen") {
  const std::string said = with_mounts([] {
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
      std::string complaint = compare_seed(seed);
      if (!complaint.empty()) return complaint;
    }
    return std::string();
  });
  if (said == "SKIP") {
    std::puts("SKIP: needs overlay mounts");
    return;
  }
  CHECK(said == "");
}

}  // namespace sbx::workspace
