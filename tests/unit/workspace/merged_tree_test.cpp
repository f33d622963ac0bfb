// Tests of the merged tree and the squash: what they show and what the kernel shows is the same.
#include "core/workspace/merged_tree.h"

#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/workspace/layer_squash.h"

#include "tests/unit/workspace/place.h"
#include "tests/unit/workspace/random_tree.h"

namespace sbx::workspace {
namespace {

constexpr std::uint32_t kSeeds = 8;
constexpr int kChanges = 60;

/// The kernel's view of a stack.
Snapshot kernel_view(const Place& place, const std::vector<std::string>& ids) {
  // An overlay of one layer alone needs an upper.
  const Overlay overlay(place, ids, ids.size() == 1 ? place.layer() : "");
  return overlay.is_mounted() ? snapshot_of_path(overlay.path()) : Snapshot{{"not mounted", ""}};
}

/// Grows a stack of four layers by random changes made in overlays.
std::vector<std::string> grow(const Place& place, Changer& changer) {
  std::vector<std::string> ids{place.layer()};
  changer.change(place.root(ids[0]), kChanges);
  for (int i = 0; i < 3; ++i) {
    const std::string upper = place.layer();
    const Overlay overlay(place, ids, upper);
    if (!overlay.is_mounted()) return {};
    changer.change(overlay.path(), kChanges);
    ids.push_back(upper);
  }
  return ids;
}

std::string compare_seed(std::uint32_t seed) {
  const Place place;
  Changer changer(seed);
  const std::vector<std::string> ids = grow(place, changer);
  if (ids.empty()) return "SKIP";
  const Snapshot kernel = kernel_view(place, ids);
  MergedTree tree = tree_of(place, ids);
  if (const std::string at = difference(kernel, snapshot_of_tree(tree)); !at.empty()) {
    return text::cat("seed ", seed, ", kernel / merged: ", at);
  }
  // Each range of layers above the lowest squashed in its place.
  for (std::size_t begin = 1; begin < ids.size(); ++begin) {
    for (std::size_t end = begin + 1; end <= ids.size(); ++end) {
      std::vector<std::string> stack(ids.begin(), ids.begin() + static_cast<long>(begin));
      const auto squashed = squash(place.fd(), std::span(ids).subspan(begin, end - begin));
      if (!squashed.ok()) return squashed.error().to_string();
      stack.push_back(squashed.value().id);
      stack.insert(stack.end(), ids.begin() + static_cast<long>(end), ids.end());
      if (const std::string at = difference(kernel, kernel_view(place, stack)); !at.empty()) {
        return text::cat("seed ", seed, ", squash ", begin, " to ", end, ": ", at);
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("merged tree: whiteouts, opaque directories and changed types read as overlayfs does") {
  const Place place;
  const std::string low = place.layer();
  const std::string high = place.layer();
  make_dir(place.at(low, "both"));
  write_file(place.at(low, "both/low"), "low");
  write_file(place.at(low, "both/gone"), "gone");
  make_dir(place.at(low, "again"));
  write_file(place.at(low, "again/old"), "old");
  make_dir(place.at(low, "dir-to-file"));
  write_file(place.at(low, "file-to-dir"), "file");
  make_dir(place.at(high, "both"));
  write_file(place.at(high, "both/high"), "high");
  make_whiteout(place.at(high, "both/gone"));
  make_whiteout(place.at(high, "never"));
  make_dir(place.at(high, "again"));
  make_opaque(place.at(high, "again"));
  write_file(place.at(high, "dir-to-file"), "file now");
  make_dir(place.at(high, "file-to-dir"));
  MergedTree tree = tree_of(place, {low, high});
  std::string names;
  for (const auto& [path, text] : snapshot_of_tree(tree)) {
    names += path + "\n";
  }
  CHECK(names == "again\nboth\nboth/high\nboth/low\ndir-to-file\nfile-to-dir\n");
  const auto found = tree.find("both/low");
  REQUIRE(found.ok());
  REQUIRE(found.value().has_value());
  CHECK(found.value()->entry.top == 1);
  CHECK(!tree.find("both/gone").value().has_value());
  CHECK(!tree.find("both/low/x").value().has_value());
  CHECK(!tree.find("../etc").ok());
}

TEST_CASE("merged tree: a link or device in a tree is never followed or opened") {
  const Place place;
  const std::string id = place.layer();
  make_link("/etc", place.at(id, "etc"));
  REQUIRE(::mkfifo(place.at(id, "fifo").c_str(), 0600) == 0);
  MergedTree tree = tree_of(place, {id});
  CHECK(!tree.find("etc/passwd").value().has_value());
  MergedEntry entry = tree.look(tree.root(), "fifo").value();
  CHECK(tree.open_file(tree.root(), entry).error().code() == Errc::kUsage);
  entry.name = "etc";
  CHECK(!tree.open_file(tree.root(), entry).ok());
}

TEST_CASE("merged tree: random trees read as the kernel shows them, also when squashed") {
  const std::string said = with_mounts([] {
    for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
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

TEST_CASE("squash: content is shared, not copied, and the old layers stay as they are") {
  const Place place;
  const std::string low = place.layer();
  const std::string high = place.layer();
  write_file(place.at(low, "old"), "old");
  write_file(place.at(high, "new"), "new");
  make_whiteout(place.at(high, "gone"));
  make_link("target", place.at(high, "link"));
  const std::vector<std::string> ids{low, high};
  const auto report = squash(place.fd(), ids);
  REQUIRE(report.ok());
  const std::string id = report.value().id;
  CHECK(report.value().files == 3);
  CHECK(report.value().bytes == 0);
  CHECK(stat_of(place.at(id, "old")).st_ino == stat_of(place.at(low, "old")).st_ino);
  CHECK(stat_of(place.at(id, "new")).st_ino == stat_of(place.at(high, "new")).st_ino);
  CHECK(S_ISLNK(stat_of(place.at(id, "link")).st_mode));
  CHECK(is_whiteout(stat_of(place.at(id, "gone"))));
  CHECK(read_text(place.at(low, "old")) == "old");
  CHECK(!exists(place.at(low, "new")));
}

TEST_CASE("squash: parts that only some layers have are kept") {
  const Place place;
  const std::string low = place.layer();
  const std::string high = place.layer();
  REQUIRE(add_part(place.fd(), high, "m-ab").ok());
  write_file(place.path() + "/" + high + "/fs/m-ab/file", "x");
  const std::vector<std::string> ids{low, high};
  const auto report = squash(place.fd(), ids);
  REQUIRE(report.ok());
  CHECK(read_text(place.path() + "/" + report.value().id + "/fs/m-ab/file") == "x");
}

}  // namespace sbx::workspace
