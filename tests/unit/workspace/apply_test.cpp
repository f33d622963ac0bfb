// Tests of apply: the host directory becomes what the session shows, and nobody's change is lost.
#include "core/workspace/apply.h"

#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/workspace/layer_copy.h"
#include "core/workspace/path_selection.h"

#include "tests/unit/workspace/place.h"
#include "tests/unit/workspace/random_tree.h"

namespace sbx::workspace {
namespace {

/// A host directory and a layer upon it.
class Setting {
 public:
  Setting() {
    make_dir(host());
    make_dir(place.path() + "/scratch");
  }

  const Place place;
  const std::string upper = place.layer();
  AppliedNotes notes;
  bool is_forced = false;
  PathSelection chosen{{}};

  std::string host() const { return place.path() + "/host"; }
  std::string on_host(const std::string& name) const { return host() + "/" + name; }
  std::string inside(const std::string& name) const { return place.at(upper, name); }

  /// Plans, and applies when nothing is in the way: "path action reason" a line.
  std::string apply_all() {
    const UniqueFd dir = fs::open_dir(host()).value();
    const UniqueFd scratch = fs::open_dir(place.path() + "/scratch").value();
    std::vector<UniqueFd> low;
    low.push_back(fs::open_dir(host()).value());
    std::vector<UniqueFd> both;
    both.push_back(open_layer(place.fd(), upper, "root").value());
    both.push_back(fs::open_dir(host()).value());
    MergedTree before = MergedTree::open(std::move(low)).value();
    MergedTree after = MergedTree::open(std::move(both)).value();
    ApplyRequest request;
    request.host = dir.get();
    request.before = &before;
    request.after = &after;
    request.since = {layer_since(place.fd(), upper), 0};
    request.notes = &notes;
    request.is_chosen = [this](const std::string& path) { return chosen.has(path); };
    const auto plan = plan_apply(request);
    if (!plan.ok()) return plan.error().to_string();
    std::string text;
    for (const ApplyStep& step : plan.value().steps) {
      constexpr std::array kNames{"delete", "mkdir", "write", "link", "mode", "skip"};
      text += step.change.path + " " + kNames.at(static_cast<std::size_t>(step.action));
      text += (step.is_conflict ? " CONFLICT" : "") + std::string("\n");
    }
    if (plan.value().conflicts > 0 && !is_forced) return text;
    const auto report = apply(request, plan.value(), scratch.get(), notes);
    if (!report.ok()) return report.error().to_string();
    for (const std::string& line : report.value().failed) {
      text += "failed: " + line + "\n";
    }
    return text;
  }
};

/// Waits until the kernel's clock for files has moved on.
void let_time_pass(const std::string& dir) {
  const std::string probe = dir + "/.probe";
  write_file(probe, "");
  const struct stat first = stat_of(probe);
  struct stat now = first;
  while (now.st_mtim.tv_nsec == first.st_mtim.tv_nsec &&
         now.st_mtim.tv_sec == first.st_mtim.tv_sec) {
    write_file(probe, "x");
    now = stat_of(probe);
  }
  ::unlink(probe.c_str());
}

std::string strip(const Snapshot& snapshot) {
  std::string text;
  for (const auto& [path, what] : snapshot) {
    const std::vector<std::string_view> words = text::split(what, ' ');
    text += path + " " + std::string(words[0]) + what.substr(what.find('[')) + "\n";
  }
  return text;
}

std::string apply_seed(std::uint32_t seed) {
  Setting setting;
  Changer changer(seed);
  changer.change(setting.host(), 60);
  let_time_pass(setting.place.path());
  Snapshot wanted;
  {
    ::mkdir((setting.place.path() + "/mnt").c_str(), 0755);
    ::mkdir((setting.place.path() + "/" + setting.upper + "/ovl").c_str(), 0755);
    const std::string mount = setting.place.path() + "/mnt";
    const std::string options = "userxattr,lowerdir=" + setting.host() +
                                ",upperdir=" + setting.place.root(setting.upper) +
                                ",workdir=" + setting.place.path() + "/" + setting.upper + "/ovl";
    if (::mount("overlay", mount.c_str(), "overlay", 0, options.c_str()) != 0) return "SKIP";
    changer.change(mount, 60);
    wanted = snapshot_of_path(mount);
    ::umount2(mount.c_str(), MNT_DETACH);
  }
  const std::string said = setting.apply_all();
  if (said.find("CONFLICT") != std::string::npos || said.find("failed") != std::string::npos) {
    return text::cat("seed ", seed, ":\n", said);
  }
  const std::string is = strip(snapshot_of_path(setting.host()));
  if (is != strip(wanted)) {
    return text::cat("seed ", seed, ":\n", said, "is\n", is, "wanted\n", strip(wanted));
  }
  const std::string again = setting.apply_all();
  return again.empty() ? "" : text::cat("seed ", seed, ", second time:\n", again);
}

}  // namespace

TEST_CASE("apply: new, changed and deleted files come to the host, in a safe order") {
  Setting setting;
  write_file(setting.on_host("changed"), "old");
  write_file(setting.on_host("mode"), "");
  make_dir(setting.on_host("gone"));
  write_file(setting.on_host("gone/file"), "");
  make_dir(setting.on_host("to-file"));
  write_file(setting.on_host("to-file/below"), "");
  let_time_pass(setting.place.path());
  write_file(setting.inside("changed"), "new", 0640);
  write_file(setting.inside("mode"), "", 04755);
  make_whiteout(setting.inside("gone"));
  write_file(setting.inside("to-file"), "file");
  make_dir(setting.inside("dir"), 0750);
  write_file(setting.inside("dir/file"), "x");
  make_link("changed", setting.inside("link"));
  REQUIRE(::mkfifo(setting.inside("fifo").c_str(), 0600) == 0);
  CHECK(setting.apply_all() ==
        "to-file/below delete\nto-file delete\ngone/file delete\ngone delete\nchanged write\n"
        "dir mkdir\ndir/file write\nfifo skip\nlink link\nmode mode\nto-file write\n");
  CHECK(read_text(setting.on_host("changed")) == "new");
  CHECK((stat_of(setting.on_host("changed")).st_mode & 07777U) == 0640);
  CHECK((stat_of(setting.on_host("mode")).st_mode & 07777U) == 0755);  // no set-user-ID bit
  CHECK(!exists(setting.on_host("gone")));
  CHECK(read_text(setting.on_host("to-file")) == "file");
  CHECK(read_text(setting.on_host("dir/file")) == "x");
  CHECK(S_ISLNK(stat_of(setting.on_host("link")).st_mode));
  CHECK(!exists(setting.on_host("fifo")));
}

TEST_CASE("apply: what the host changed meanwhile is a conflict, and nothing is applied") {
  Setting setting;
  write_file(setting.on_host("a"), "host");
  write_file(setting.on_host("b"), "host");
  write_file(setting.inside("a"), "session");
  write_file(setting.inside("b"), "session");
  let_time_pass(setting.place.path());
  write_file(setting.on_host("a"), "host, later");
  CHECK(setting.apply_all() == "a write CONFLICT\nb write\n");
  CHECK(read_text(setting.on_host("b")) == "host");
  SUBCASE("forced") {
    setting.is_forced = true;
    setting.apply_all();
    CHECK(read_text(setting.on_host("a")) == "session");
  }
  SUBCASE("left out") {
    setting.chosen = PathSelection({"b"});
    CHECK(setting.apply_all() == "b write\n");
    CHECK(read_text(setting.on_host("a")) == "host, later");
    CHECK(read_text(setting.on_host("b")) == "session");
  }
}

TEST_CASE("apply: a file that the host wrote into a directory deleted inside is not lost") {
  Setting setting;
  make_dir(setting.on_host("dir"));
  write_file(setting.on_host("dir/old"), "");
  let_time_pass(setting.place.path());
  make_whiteout(setting.inside("dir"));
  let_time_pass(setting.place.path());
  write_file(setting.on_host("dir/new"), "");
  CHECK(setting.apply_all() == "dir/old delete\ndir/new delete CONFLICT\ndir delete\n");
  CHECK(exists(setting.on_host("dir/old")));
}

TEST_CASE("apply: its own writing is no conflict the next time") {
  Setting setting;
  write_file(setting.on_host("a"), "host");
  let_time_pass(setting.place.path());
  write_file(setting.inside("a"), "one");
  CHECK(setting.apply_all() == "a write\n");
  write_file(setting.inside("a"), "two");
  setting.notes = AppliedNotes::parse(setting.notes.to_text()).value();
  CHECK(setting.apply_all() == "a write\n");
  CHECK(read_text(setting.on_host("a")) == "two");
  let_time_pass(setting.place.path());
  write_file(setting.on_host("a"), "host");
  write_file(setting.inside("a"), "three");
  CHECK(setting.apply_all() == "a write CONFLICT\n");
}

TEST_CASE("apply: links on the host are not followed") {
  Setting setting;
  make_dir(setting.place.path() + "/elsewhere");
  write_file(setting.place.path() + "/elsewhere/file", "safe");
  make_link("../elsewhere", setting.on_host("dir"));
  make_link("../elsewhere/file", setting.on_host("file"));
  let_time_pass(setting.place.path());
  make_dir(setting.inside("dir"));
  write_file(setting.inside("dir/file"), "bad");
  write_file(setting.inside("file"), "bad");
  setting.apply_all();
  CHECK(read_text(setting.place.path() + "/elsewhere/file") == "safe");
  CHECK(S_ISREG(stat_of(setting.on_host("file")).st_mode));  // the link was replaced
  CHECK(read_text(setting.on_host("dir/file")) == "bad");
}

TEST_CASE("apply: a chosen file in a new directory brings the directory") {
  Setting setting;
  make_dir(setting.inside("new"), 0750);
  make_dir(setting.inside("new/below"));
  write_file(setting.inside("new/below/a"), "a");
  write_file(setting.inside("new/b"), "b");
  setting.chosen = PathSelection({"new/*/a"});
  CHECK(setting.apply_all() == "new/below/a write\n");
  CHECK(read_text(setting.on_host("new/below/a")) == "a");
  CHECK(!exists(setting.on_host("new/b")));
}

TEST_CASE("apply: random trees changed in an overlay come to the host as they were seen") {
  const std::string said = with_mounts([] {
    for (std::uint32_t seed = 1; seed <= 30; ++seed) {
      std::string complaint = apply_seed(seed);
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

TEST_CASE("applied notes: rubbish and newer formats are refused") {
  CHECK(AppliedNotes::parse("").ok());
  for (const std::string_view text : {"x", "sbx-applied 1", "other\0"}) {
    CAPTURE(text);
    CHECK(!AppliedNotes::parse(text).ok());
  }
  CHECK(!AppliedNotes::parse(std::string("sbx-applied 1\0 1 2 x\0", 21)).ok());
  const auto newer = AppliedNotes::parse(std::string("sbx-applied 2\0", 14));
  REQUIRE(!newer.ok());
  CHECK(newer.error().code() == Errc::kUnsupported);
}

TEST_CASE("path selection: paths, directories and globs choose, dots and slashes are cleaned") {
  CHECK(inside_path("/work//a/./b/", "work").value() == "work/a/b");
  CHECK(inside_path("a", "work").value() == "work/a");
  CHECK(inside_path("/", "work").value() == "");
  CHECK(!inside_path("../x", "work").ok());
  const PathSelection chosen({"work/a", "work/*.txt", "work/[x]", "none"});
  CHECK(chosen.has("work/a"));
  CHECK(chosen.has("work/a/below"));
  CHECK(!chosen.has("work/ab"));
  CHECK(chosen.has("work/notes.txt"));
  CHECK(chosen.has("work/dir.txt/below"));
  CHECK(!chosen.has("work/dir/notes.txt"));
  CHECK(chosen.has("work/[x]"));
  CHECK(chosen.has("work/x"));
  CHECK(chosen.unused() == "none");
  CHECK(PathSelection({}).has("anything"));
}

}  // namespace sbx::workspace
