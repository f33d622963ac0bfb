// Tests of patches: git applies what is written here, and gets the same files.
#include "core/workspace/patch.h"

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/process.h"

#include "tests/unit/workspace/place.h"
#include "tests/unit/workspace/random_tree.h"

namespace sbx::workspace {
namespace {

std::string hunks(std::string_view before, std::string_view after, std::size_t edits = kMaxEdits) {
  const auto a = lines_of(before);
  const auto b = lines_of(after);
  return unified_hunks(a, b, diff_lines(a, b, edits));
}

/// The patch of everything that is different between two layers.
std::string patch_between(const Place& place, const std::string& before, const std::string& after) {
  MergedTree a = tree_of(place, {before});
  MergedTree b = tree_of(place, {before, after});
  std::string patch;
  const Status done = diff_trees(a, b, {.shared = 1}, [&](const Change& change) -> Status {
    SBX_ASSIGN(const PatchText texts, read_texts(a, b, change));
    patch += format_patch(change, change.path, texts);
    return {};
  });
  REQUIRE(done.ok());
  return patch;
}

bool git_apply(const std::string& dir, const std::string& patch) {
  write_file(dir + "/.patch", patch);
  SpawnOptions options;
  options.argv = {"git", "apply", "--whitespace=nowarn", ".patch"};
  options.cwd = dir;
  options.err = 2;
  auto git = spawn(options);
  REQUIRE(git.ok());
  const auto status = git.value().wait();
  REQUIRE(::unlink((dir + "/.patch").c_str()) == 0);
  return status.ok() && status.value() == 0;
}

std::string random_text(std::mt19937& random, std::uint64_t lines) {
  std::string text;
  for (std::uint64_t i = 0; i < lines; ++i) {
    text += std::string(1, static_cast<char>('a' + random() % 4)) + "\n";
  }
  if (random() % 3 == 0 && !text.empty()) text.pop_back();
  return text;
}

}  // namespace

TEST_CASE("line diff: hunks are those of diff -u") {
  CHECK(hunks("a\nb\nc\n", "a\nx\nc\n") == "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
  CHECK(hunks("", "a\n") == "@@ -0,0 +1 @@\n+a\n");
  CHECK(hunks("a\nb\n", "") == "@@ -1,2 +0,0 @@\n-a\n-b\n");
  CHECK(hunks("a", "a\n") == "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
  CHECK(hunks("same\n", "same\n") == "");
  CHECK(hunks("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\n9\nx\n") ==
        "@@ -7,3 +7,4 @@\n 7\n 8\n 9\n+x\n");
}

TEST_CASE("line diff: near edits share a hunk, far ones do not") {
  std::string before;
  for (int i = 0; i < 40; ++i) {
    before += std::to_string(i) + "\n";
  }
  const auto changed = [&](int first, int second) {
    std::string after;
    for (int i = 0; i < 40; ++i) {
      after += std::to_string(i) + (i == first || i == second ? "x\n" : "\n");
    }
    const std::string text = hunks(before, after);
    int count = 0;
    for (std::size_t at = text.find("@@ -"); at != std::string::npos;
         at = text.find("@@ -", at + 1)) {
      ++count;
    }
    return count;
  };
  CHECK(changed(10, 17) == 1);
  CHECK(changed(10, 18) == 2);
}

TEST_CASE("line diff: a shortest script is found, and beyond the bound a right one") {
  std::mt19937 random(7);
  const std::string a = random_text(random, 200);
  const std::string b = random_text(random, 200);
  const LineCount best = count_lines(diff_lines(lines_of(a), lines_of(b)));
  CHECK(best.added + best.deleted < 300);
  const LineCount bounded = count_lines(diff_lines(lines_of(a), lines_of(b), 10));
  CHECK(bounded.added + bounded.deleted > best.added + best.deleted);
  CHECK(bounded.added - bounded.deleted == best.added - best.deleted);
}

TEST_CASE("patch: names are quoted as git does") {
  CHECK(quote_name("a b.txt") == "a b.txt");
  CHECK(quote_name("tab\tquote\"back\\") == "\"tab\\tquote\\\"back\\\\\"");
  CHECK(quote_name("\xc3\xa9\x01") == "\"\\303\\251\\001\"");
}

TEST_CASE(
    "patch: git applies new, changed, deleted, empty and binary-named files, links and modes") {
  const Place place;
  const std::string low = place.layer();
  const std::string high = place.layer();
  const std::string target = place.layer();
  for (const std::string& id : {low, target}) {
    make_dir(place.at(id, "dir"));
    write_file(place.at(id, "dir/changed"), "one\ntwo\n");
    write_file(place.at(id, "gone"), "gone\n");
    write_file(place.at(id, "program"), "#!/bin/sh\n");
    write_file(place.at(id, "becomes-link"), "text\n");
    make_link("old", place.at(id, "link"));
  }
  make_dir(place.at(high, "dir"));
  write_file(place.at(high, "dir/changed"), "one\n2\n");
  make_whiteout(place.at(high, "gone"));
  write_file(place.at(high, "program"), "#!/bin/sh\n", 0755);
  make_link("/etc/passwd", place.at(high, "becomes-link"));
  make_link("new", place.at(high, "link"));
  write_file(place.at(high, "empty"), "");
  write_file(place.at(high, "name with space"), "x\n");
  write_file(place.at(high, "\xc3\xa9 \"q\"\n"), "y");
  const std::string patch = patch_between(place, low, high);
  CAPTURE(patch);
  CHECK(git_apply(place.root(target), patch));
  MergedTree made = tree_of(place, {target});
  MergedTree wanted = tree_of(place, {low, high});
  std::vector<std::string> changes;
  const Status compared = diff_trees(wanted, made, {}, [&](const Change& change) {
    changes.push_back(change.path);
    return Status();
  });
  REQUIRE(compared.ok());
  CHECK(changes == std::vector<std::string>{});
}

TEST_CASE("patch: a binary file is only named") {
  const Place place;
  const std::string low = place.layer();
  const std::string high = place.layer();
  write_file(place.at(low, "changed"), std::string("a\0b", 3));
  write_file(place.at(high, "changed"), std::string("a\0c", 3));
  write_file(place.at(high, "new"), std::string(100, '\0'));
  CHECK(patch_between(place, low, high) ==
        "diff --git a/changed b/changed\nBinary files a/changed and b/changed differ\n"
        "diff --git a/new b/new\nnew file mode 100644\n"
        "Binary files /dev/null and b/new differ\n");
}

TEST_CASE("patch: git applies patches of random texts") {
  std::mt19937 random(3);
  const Place place;
  const std::string low = place.layer();
  const std::string high = place.layer();
  const std::string target = place.layer();
  for (int i = 0; i < 100; ++i) {
    const std::string name = "file" + std::to_string(i);
    const std::string before = random_text(random, random() % 30);
    std::string after = random_text(random, random() % 30);
    if (i % 2 == 0)
      after = before.substr(0, random() % 40) + "x\n" + before.substr(before.size() / 2);
    write_file(place.at(low, name), before);
    write_file(place.at(target, name), before);
    write_file(place.at(high, name), after);
  }
  CHECK(git_apply(place.root(target), patch_between(place, low, high)));
  for (int i = 0; i < 100; ++i) {
    const std::string name = "file" + std::to_string(i);
    CHECK(read_text(place.at(target, name)) == read_text(place.at(high, name)));
  }
}

}  // namespace sbx::workspace
