// Tests of the export: what GNU tar reads back is what the session has.
#include "core/workspace/export.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/process.h"

#include "tests/unit/workspace/place.h"
#include "tests/unit/workspace/random_tree.h"

namespace sbx::workspace {
namespace {

bool run_program(std::vector<std::string> argv) {
  SpawnOptions options;
  options.argv = std::move(argv);
  auto child = spawn(options);
  REQUIRE(child.ok());
  const auto status = child.value().wait();
  return status.ok() && status.value() == 0;
}

/// Exports `path` of `trees` as `file` and unpacks it in `dir`, which is made.
ExportReport export_and_unpack(const std::vector<MountedTree>& trees,
                               const std::string& path,
                               const std::string& file,
                               const std::string& dir) {
  auto writer = archive::ArchiveWriter::create(file, archive::Holes::kYes);
  REQUIRE(writer.ok());
  auto report = export_tree(trees, path, writer.value());
  if (!report.ok()) FAIL(report.error().to_string());
  REQUIRE(writer.value().commit().ok());
  make_dir(dir);
  CHECK(run_program({"tar", "--xattrs", "-C", dir, "-xpf", file}));
  return report.value();
}

}  // namespace

TEST_CASE("export: content, modes, times, links, holes and attributes come out again") {
  const Place place;
  const std::string low = place.layer();
  const std::string high = place.layer();
  make_dir(place.at(low, "work"), 0750);
  write_file(place.at(low, "work/low"), "low", 0640);
  write_file(place.at(low, "work/gone"), "");
  make_dir(place.at(high, "work"), 0750);
  make_whiteout(place.at(high, "work/gone"));
  make_dir(place.at(high, "work/dir \xff"), 0711);
  REQUIRE(::setxattr(place.at(high, "work/dir \xff").c_str(), "user.overlay.opaque", "y", 1, 0) ==
          0);
  write_file(place.at(high, "work/dir \xff/file"), "content", 0755);
  REQUIRE(::setxattr(place.at(high, "work/dir \xff/file").c_str(), "user.note", "hello", 5, 0) ==
          0);
  REQUIRE(::link(place.at(high, "work/dir \xff/file").c_str(),
                 place.at(high, "work/second").c_str()) == 0);
  make_link("/etc/passwd", place.at(high, "work/link"));
  write_file(place.at(high, "work/sparse"), "begin");
  REQUIRE(::truncate(place.at(high, "work/sparse").c_str(), 1'000'000'000) == 0);
  write_file(place.at(high, "work/hole"), "");
  REQUIRE(::truncate(place.at(high, "work/hole").c_str(), 1'000'000) == 0);
  REQUIRE(::mkfifo(place.at(high, "work/fifo").c_str(), 0600) == 0);
  MergedTree tree = tree_of(place, {low, high});
  const std::vector<MountedTree> trees{{"", &tree}};
  const std::string out = place.path() + "/out";
  for (const char* ending : {".tar", ".tar.gz", ".tar.zst", ".tar.xz"}) {
    CAPTURE(ending);
    const std::string dir = out + ending + ".d";
    const ExportReport report = export_and_unpack(trees, "work", out + ending, dir);
    CHECK(report.files == 6);
    CHECK(report.left_out == std::vector<std::string>{"fifo"});
    CHECK(report.left_out_count == 1);
    CHECK(read_text(dir + "/low") == "low");
    CHECK((stat_of(dir + "/low").st_mode & 0777U) == 0640);
    CHECK(!exists(dir + "/gone"));
    CHECK(!exists(dir + "/fifo"));
    CHECK(read_text(dir + "/dir \xff/file") == "content");
    CHECK(attribute(dir + "/dir \xff/file", "user.note") == "hello");
    CHECK(attribute(dir + "/dir \xff", "user.overlay.opaque") == "none");
    CHECK(stat_of(dir + "/second").st_ino == stat_of(dir + "/dir \xff/file").st_ino);
    CHECK(S_ISLNK(stat_of(dir + "/link").st_mode));
    CHECK(stat_of(dir + "/sparse").st_size == 1'000'000'000);
    CHECK(stat_of(dir + "/sparse").st_blocks < 1000);
    CHECK(stat_of(dir + "/hole").st_size == 1'000'000);
    CHECK(stat_of(dir + "/low").st_mtim.tv_nsec ==
          stat_of(place.at(low, "work/low")).st_mtim.tv_nsec);
  }
}

TEST_CASE("export: trees mounted below are seen in their places, one file alone by its name") {
  const Place place;
  const std::string root = place.layer();
  const std::string mount = place.layer();
  make_dir(place.at(root, "work"));
  make_dir(place.at(root, "work/src"));
  write_file(place.at(root, "work/src/hidden"), "");
  write_file(place.at(root, "work/own"), "");
  write_file(place.at(mount, "seen"), "seen");
  MergedTree tree = tree_of(place, {root});
  MergedTree below = tree_of(place, {mount});
  const std::vector<MountedTree> trees{{"", &tree}, {"work/src", &below}};
  const std::string file = place.path() + "/out.tar";
  SUBCASE("from above") {
    export_and_unpack(trees, "work", file, place.path() + "/d");
    CHECK(read_text(place.path() + "/d/src/seen") == "seen");
    CHECK(!exists(place.path() + "/d/src/hidden"));
    CHECK(exists(place.path() + "/d/own"));
  }
  SUBCASE("itself") {
    export_and_unpack(trees, "work/src", file, place.path() + "/d");
    CHECK(read_text(place.path() + "/d/seen") == "seen");
  }
  SUBCASE("one file") {
    export_and_unpack(trees, "work/src/seen", file, place.path() + "/d");
    CHECK(read_text(place.path() + "/d/seen") == "seen");
  }
  SUBCASE("nothing") {
    auto writer = archive::ArchiveWriter::create(file);
    REQUIRE(writer.ok());
    const auto report = export_tree(trees, "work/none", writer.value());
    REQUIRE(!report.ok());
    CHECK(report.error().code() == Errc::kNotFound);
  }
}

}  // namespace sbx::workspace
