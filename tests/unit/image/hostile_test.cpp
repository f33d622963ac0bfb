// hostile_test: archives that want to write elsewhere, to hide, to be more than they say, or are
// just odd. Each is imported; what comes of it is checked, and that nothing beside the store was
// touched.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/skip.h"
#include "tests/unit/image/import_support.h"
#include "tests/unit/image/tar_builder.h"

namespace sbx::image {

using test::ImportRoom;
using test::pax_record;
using test::Stored;
using test::TarBuilder;

namespace {

using Files = std::map<std::string, Stored>;

struct Case {
  std::string_view name;
  std::string bytes;
  std::string_view refused;                // a part of the error's text; empty: it is taken
  std::function<bool(Files&)> holds = {};  // of what was taken
  Budget budget = {};
};

std::string repeated(std::string_view part, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += part;
  return text;
}

bool has(const Files& files, const std::string& path) {
  return files.contains(path);
}

bool is_whiteout(Files& files, const std::string& path) {
  return has(files, path) && S_ISCHR(files[path].mode) && files[path].device == makedev(0, 0);
}

bool is_opaque(Files& files, const std::string& path) {
  return has(files, path) && files[path].xattrs["user.overlay.opaque"] == "y";
}

TarBuilder tar() {
  return {};
}

/// Every case runs in a room of its own.
void check(const Case& one) {
  CAPTURE(one.name);
  const ImportRoom room;
  const std::string source = room.write("archive", one.bytes);
  const std::string before = room.outside();
  const auto record = room.import_path(source, {}, one.budget);
  CHECK(room.outside() == before);
  if (one.refused.empty()) {
    REQUIRE_MESSAGE(record.ok(), record.error().to_string());
    CHECK(room.layers().size() == 1);
    Files files = room.content(record.value());
    const bool holds = !one.holds || one.holds(files);
    CHECK(holds);
    return;
  }
  REQUIRE(!record.ok());
  const std::string text = record.error().to_string();
  CAPTURE(text);
  CHECK(text.find(one.refused) != std::string::npos);
  CHECK(room.layers().empty());
  CHECK(!room.store().find("test").ok());
}

void check_all(const std::vector<Case>& cases) {
  for (const Case& one : cases)
    check(one);
}

}  // namespace

TEST_CASE("hostile: names that lead elsewhere are refused or stay inside") {
  SKIP_UNLESS("image-ids");
  const auto inside = [](const std::string& path) {
    return [path](Files& files) { return files[path].text == "evil"; };
  };
  check_all({
      {"parent", tar().file("../x", "evil").end(), "\"..\""},
      {"parent in the middle", tar().dir("a").file("a/../../x", "evil").end(), "\"..\""},
      {"harmless parent", tar().dir("a").file("a/../b", "evil").end(), "\"..\""},
      {"parent alone", tar().dir("..").end(), "\"..\""},
      {"absolute", tar().file("/etc/x", "evil").end(), "", inside("etc/x")},
      {"many slashes", tar().file("///a//./b", "evil").end(), "", inside("a/b")},
      {"absolute parent", tar().file("/../x", "evil").end(), "\"..\""},
      {"pax path", tar().pax({{"path", "../../x"}}).file("a", "evil").end(), "\"..\""},
      {"pax absolute", tar().pax({{"path", "/b"}}).file("a", "evil").end(), "", inside("b")},
      {"GNU long name", tar().gnu_long('L', "../x").file("a", "evil").end(), "\"..\""},
      {"root as a file", tar().file(".", "evil").end(), "root"},
      {"root as a link", tar().symlink(".", "/").end(), "root"},
      {"root as a hard link", tar().file("a").hard_link("./", "a").end(), "root"},
      {"slash alone", tar().dir("/", 0700).file("a", "evil").end(), "", inside("a")},
      {"long component", tar().file(std::string(256, 'n')).end(), "255"},
      {"longest component",
       tar().file(std::string(255, 'n'), "evil").end(),
       "",
       inside(std::string(255, 'n'))},
      {"too deep", tar().dir(repeated("d/", 300)).end(), "directories deep"},
      {"deep",
       tar().file(repeated("d/", 199) + "x", "evil").end(),
       "",
       inside(repeated("d/", 199) + "x")},
      {"path above PATH_MAX",
       tar().file(repeated(std::string(200, 'd') + "/", 100) + "x", "evil").end(),
       "",
       inside(repeated(std::string(200, 'd') + "/", 100) + "x")},
      {"no UTF-8", tar().file("a\xff\xfe", "evil").end(), "", inside("a\xff\xfe")},
      {"pax, no UTF-8",
       tar().pax({{"path", "b\xff"}}).file("a", "evil").end(),
       "",
       inside("b\xff")},
      {"pax, UTF-8",
       tar().pax({{"path", "\xc3\xa4\xe2\x82\xac"}}).file("a", "evil").end(),
       "",
       inside("\xc3\xa4\xe2\x82\xac")},
      {"control characters", tar().file("a\n\x1b[2J", "evil").end(), "", inside("a\n\x1b[2J")},
  });
}

TEST_CASE("hostile: links lead nowhere but into the image") {
  SKIP_UNLESS("image-ids");
  check_all({
      {"member through an absolute link",
       tar().symlink("l", "/etc").file("l/x", "evil").end(),
       "",
       [](Files& files) { return files["etc/x"].text == "evil" && S_ISLNK(files["l"].mode); }},
      {"member through a link upwards",
       tar().symlink("l", "../../../../beside").file("l/victim", "evil").end(),
       "",
       [](Files& files) { return files["beside/victim"].text == "evil"; }},
      {"member through a link to a link",
       tar().symlink("a", "b").symlink("b", "/c").dir("c").file("a/x", "evil").end(),
       "",
       [](Files& files) { return files["c/x"].text == "evil"; }},
      {"links in a circle", tar().symlink("a", "b").symlink("b", "a").file("a/x").end(), "circle"},
      {"link to itself", tar().symlink("a", "a").file("a/x").end(), "circle"},
      {"link replaced by a file",
       tar().symlink("a", "/etc/passwd").file("a", "evil").end(),
       "",
       [](Files& files) { return S_ISREG(files["a"].mode) && files.size() == 2; }},
      {"link replaced by a directory",
       tar().symlink("a", "/etc").dir("a").file("a/x", "evil").end(),
       "",
       [](Files& files) { return S_ISDIR(files["a"].mode) && has(files, "a/x"); }},
      {"link to a file as a directory",
       tar().file("f").symlink("l", "f").file("l/x").end(),
       "no directory"},
      {"long link text", tar().symlink("a", std::string(5000, 't')).end(), "4095"},
      {"empty link text", tar().symlink("a", "").end(), "link to nothing"},
      {"hard link upwards", tar().hard_link("h", "../beside/victim").end(), "\"..\""},
      {"absolute hard link", tar().hard_link("h", "/etc/passwd").end(), "no such file"},
      {"hard link through a link",
       tar().symlink("l", "/beside").hard_link("h", "l/victim").end(),
       "no such file"},
      {"hard link through a link inside",
       tar().dir("d").file("d/f", "evil").symlink("l", "d").hard_link("h", "l/f").end(),
       "",
       [](Files& files) { return files["h"].inode == files["d/f"].inode; }},
      {"hard link to a link",
       tar().symlink("l", "/etc/passwd").hard_link("h", "l").end(),
       "",
       [](Files& files) { return S_ISLNK(files["h"].mode) && files["h"].links == 2; }},
      {"hard link to a directory", tar().dir("d").hard_link("h", "d").end(), "directory"},
      {"hard link to the root", tar().hard_link("h", ".").end(), "root"},
      {"hard link to itself",
       tar().file("a", "evil").hard_link("a", "a").end(),
       "",
       [](Files& files) { return files["a"].text == "evil"; }},
      {"hard link to itself alone", tar().hard_link("a", "a").end(), "no such file"},
      {"hard link to what comes later",
       tar().hard_link("h", "f").file("f", "evil").end(),
       "",
       [](Files& files) { return files["h"].inode == files["f"].inode; }},
      {"hard link to a hard link to what comes later",
       tar().hard_link("a", "b").hard_link("b", "c").file("c", "evil").end(),
       "",
       [](Files& files) { return files["a"].inode == files["c"].inode; }},
      {"hard link to nothing", tar().hard_link("h", "f").end(), "no such file"},
      {"hard link to a whiteout",
       tar().file(".wh.f", "").hard_link("h", "f").end(),
       "no such file"},
      {"hard link with content",
       tar().file("f", "good").add({.name = "h", .type = '1', .link = "f"}, "evil").end(),
       "Damaged"},
  });
}

TEST_CASE("hostile: members that replace members") {
  SKIP_UNLESS("image-ids");
  check_all({
      {"file twice",
       tar().file("a", "1").file("a", "2").end(),
       "",
       [](Files& files) { return files["a"].text == "2"; }},
      {"file twice, linked",
       tar().file("a", "1").hard_link("b", "a").file("a", "2").end(),
       "",
       [](Files& files) { return files["a"].text == "2" && files["b"].text == "1"; }},
      {"directory by a file",
       tar().dir("a").file("a/b").file("a", "2").end(),
       "",
       [](Files& files) { return files["a"].text == "2" && files.size() == 2; }},
      {"file by a directory",
       tar().file("a").dir("a").file("a/b").end(),
       "",
       [](Files& files) { return is_opaque(files, "a") && has(files, "a/b"); }},
      {"directory twice",
       tar().dir("a", 0700).file("a/b").dir("a", 0711).end(),
       "",
       [](Files& files) { return (files["a"].mode & 0777U) == 0711 && has(files, "a/b"); }},
      {"directory after what is in it",
       tar().file("a/b").dir("a", 0711).end(),
       "",
       [](Files& files) { return (files["a"].mode & 0777U) == 0711 && has(files, "a/b"); }},
      {"below a file", tar().file("a").file("a/b").end(), "no directory"},
      {"directories of mode 0",
       tar().dir("a", 0).dir("a/b", 0).file("a/b/c").end(),
       "",
       [](Files& files) { return has(files, "a/b/c") && (files["a"].mode & 0777U) == 0; }},
      {"times of directories",
       tar().dir("a").dir("a/b").file("a/b/c").file("a/d").file("a/b/e").file("f").end(),
       "",
       [](Files& files) {
         return files["a"].mtime == 1'000'000'000 && files["a/b"].mtime == 1'000'000'000;
       }},
  });
}

TEST_CASE("hostile: whiteouts delete what lies below, in any order") {
  SKIP_UNLESS("image-ids");
  check_all({
      {"whiteout",
       tar().dir("d").file("d/.wh.a", "").end(),
       "",
       [](Files& files) { return is_whiteout(files, "d/a") && files.size() == 3; }},
      {"whiteout before a file",
       tar().file(".wh.a", "").file("a", "1").end(),
       "",
       [](Files& files) { return files["a"].text == "1"; }},
      {"whiteout after a file",
       tar().file("a", "1").file(".wh.a", "").end(),
       "",
       [](Files& files) { return files["a"].text == "1"; }},
      {"whiteout before a directory",
       tar().file(".wh.a", "").dir("a").end(),
       "",
       [](Files& files) { return is_opaque(files, "a"); }},
      {"whiteout after a directory",
       tar().dir("a").file(".wh.a", "").end(),
       "",
       [](Files& files) { return is_opaque(files, "a"); }},
      {"whiteout before a directory without a member",
       tar().file(".wh.a", "").file("a/b").end(),
       "",
       [](Files& files) { return is_opaque(files, "a") && has(files, "a/b"); }},
      {"opaque first",
       tar().file("a/.wh..wh..opq", "").dir("a").file("a/b").end(),
       "",
       [](Files& files) { return is_opaque(files, "a") && has(files, "a/b"); }},
      {"opaque in the middle",
       tar().dir("a").file("a/b").file("a/.wh..wh..opq", "").file("a/c").end(),
       "",
       [](Files& files) { return is_opaque(files, "a") && files.size() == 4; }},
      {"opaque last",
       tar().dir("a").file("a/b").file("a/.wh..wh..opq", "").end(),
       "",
       [](Files& files) { return is_opaque(files, "a") && has(files, "a/b"); }},
      {"opaque root",
       tar().file("a").file(".wh..wh..opq", "").end(),
       "",
       [](Files& files) { return is_opaque(files, "") && has(files, "a"); }},
      {"whiteout of nothing", tar().file("a/.wh.", "").end(), "whiteout of no name"},
      {"whiteout of the parent", tar().dir("a").file("a/.wh...", "").end(), "whiteout of no name"},
      {"whiteout of itself", tar().dir("a").file("a/.wh..", "").end(), "whiteout of no name"},
      {"below a whiteout", tar().file(".wh.a/b").end(), "below a whiteout"},
      {"names of another driver",
       tar().file(".wh..wh.aufs", "x").file(".wh..wh.plnk/1.2", "y").file("a").end(),
       "",
       [](Files& files) { return files.size() == 2; }},
      {"device 0:0",
       tar().add({.name = "a", .type = '3'}).end(),
       "",
       [](Files& files) { return files.size() == 1; }},
  });
}

TEST_CASE("hostile: devices, owners, modes and attributes") {
  SKIP_UNLESS("image-ids");
  check_all({
      {"device nodes are left out",
       tar()
           .add({.name = "sda", .type = '4', .major = 8})
           .add({.name = "null", .type = '3', .major = 1, .minor = 3})
           .file("a")
           .end(),
       "",
       [](Files& files) { return files.size() == 2; }},
      {"unknown type",
       tar().add({.name = "odd", .type = 'Z'}).file("a").end(),
       "",
       [](Files& files) { return has(files, "a"); }},
      {"owner above the ids", tar().add({.name = "a", .uid = 65536}).end(), "user 65536"},
      {"group above the ids",
       tar().add({.name = "a", .gid = 4'000'000'000}).end(),
       "group 4000000000"},
      {"last owner",
       tar().add({.name = "a", .uid = 65535, .gid = 65535}).end(),
       "",
       [](Files& files) { return files["a"].uid == 65535 && files["a"].gid == 65535; }},
      {"negative owner", tar().pax({{"uid", "-1"}}).file("a").end(), "user"},
      {"setuid of another owner",
       tar().add({.name = "a", .mode = 06755, .uid = 1, .gid = 2}, "x").end(),
       "",
       [](Files& files) { return (files["a"].mode & 07777U) == 06755; }},
      {"times out of range",
       tar().pax({{"mtime", "99999999999999"}}).file("a").add({.name = "b", .mtime = -5}).end(),
       "",
       [](Files& files) { return files["b"].mtime == -5 && files["a"].mtime > 4'000'000'000; }},
      {"attributes of overlayfs",
       tar()
           .pax({{"SCHILY.xattr.user.overlay.opaque", "y"},
                 {"SCHILY.xattr.trusted.overlay.opaque", "y"},
                 {"SCHILY.xattr.user.overlay.redirect", "/etc"},
                 {"SCHILY.xattr.user.good", "1"}})
           .dir("a")
           .end(),
       "",
       [](Files& files) {
         return files["a"].xattrs == std::map<std::string, std::string>{{"user.good", "1"}};
       }},
      {"attributes of the system",
       tar()
           .pax({{"SCHILY.xattr.security.selinux", "x"},
                 {"SCHILY.xattr.system.posix_acl_access", "x"}})
           .file("a")
           .end(),
       "",
       [](Files& files) { return !files["a"].xattrs.contains("security.selinux"); }},
      {"rubbish for file capabilities",
       tar().pax({{"SCHILY.xattr.security.capability", "rubbish"}}).file("a").end(),
       "",
       [](Files& files) { return files["a"].xattrs.empty(); }},
      {"attribute that is too long",
       tar().pax({{"SCHILY.xattr.user.big", std::string(70'000, 'v')}}).file("a").end(),
       "user.big"},
  });
}

TEST_CASE("hostile: streams that are broken, cut or more than they say") {
  SKIP_UNLESS("image-ids");
  const std::string good = tar().dir("a").file("a/b", std::string(3000, 'c')).end();
  std::string damaged = good;
  damaged[512 + 5] = '~';
  Budget small;
  small.bytes = Bytes{1000};
  Budget few;
  few.entries = 3;
  check_all({
      {"nothing", "", "nothing in it"},
      {"rubbish", std::string(2000, 'r'), "no archive"},
      {"a text", "hello\n", "no archive"},
      {"damaged header", damaged, "Damaged"},
      {"cut in a file", good.substr(0, 2000), "cut off"},
      {"cut in a header", good.substr(0, 700), "cut off"},
      {"cut between members", good.substr(0, 512), "cut off"},
      {"only an end mark",
       std::string(1024, '\0'),
       "",
       [](Files& files) { return files.size() == 1; }},
      {"size beyond the end", tar().add_sized({.name = "a"}, "x", 100'000).end(), "Truncated"},
      {"size of exabytes",
       tar().add_sized({.name = "a"}, "x", std::uint64_t{1} << 62U).end(),
       "above"},
      {"more bytes than allowed", good, "above 1000 bytes", {}, small},
      {"more entries than allowed",
       tar().file("a").file("b").file("c").file("d").end(),
       "more than 3 entries",
       {},
       few},
      {"sparse bomb",
       tar()
           .pax({{"GNU.sparse.major", "1"},
                 {"GNU.sparse.minor", "0"},
                 {"GNU.sparse.name", "a"},
                 {"GNU.sparse.realsize", "1099511627776"}})
           .file("a", std::string("1\n1099511627775\n1\n") + std::string(495, '\0') + "x")
           .end(),
       "above"},
      {"sparse file",
       tar()
           .pax({{"GNU.sparse.major", "1"},
                 {"GNU.sparse.minor", "0"},
                 {"GNU.sparse.name", "s"},
                 {"GNU.sparse.realsize", "5000000000"}})
           .file("a", std::string("1\n4999999999\n1\n") + std::string(497, '\0') + "x")
           .end(),
       "",
       [](Files& files) { return files["s"].size == 5'000'000'000; }},
      {"header of a gigabyte",
       tar().add_sized({.name = "pax", .type = 'x'}, "x", std::uint64_t{1} << 30U).end(),
       "import"},
      {"thousands of headers of headers",
       [] {
         TarBuilder many;
         for (int i = 0; i < 20'000; ++i)
           many.gnu_long('L', "x");
         return many.file("a").end();
       }(),
       "import"},
      {"pax record without an end",
       tar().add({.name = "pax", .type = 'x'}, "999999999999 path=a").file("b").end(),
       "",
       [](Files& /*files*/) { return true; }},
      {"gzip of nothing known", "\x1f\x8b" + std::string(600, 'z'), "import"},
      {"xz of nothing known", std::string("\xfd\x37zXZ\0", 6) + std::string(600, 'z'), "import"},
      {"zstd of nothing known", "\x28\xb5\x2f\xfd" + std::string(600, 'z'), "import"},
  });
}

}  // namespace sbx::image
