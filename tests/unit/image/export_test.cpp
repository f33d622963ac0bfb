// Tests of exporting images: what comes out is what went in, and is found again.
#include "core/image/export.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/confine/storage_ids.h"
#include "core/image/canonical.h"
#include "core/image/vm_file.h"

#include "tests/unit/image/import_support.h"
#include "tests/unit/image/tar_builder.h"

using namespace sbx;
using namespace sbx::image;
using sbx::image::test::can_import;
using sbx::image::test::ImportRoom;
using sbx::image::test::Stored;
using sbx::image::test::TarBuilder;

namespace {

std::string varied_tar() {
  TarBuilder tar;
  tar.add({.name = "./", .type = '5', .mode = 0751, .uid = 3, .gid = 4, .mtime = 123});
  tar.dir("etc", 0755).dir("tmp", 01777).dir("usr", 0755).dir("usr/bin", 0755);
  tar.add({.name = "etc/shadow", .mode = 0640, .uid = 0, .gid = 42}, "root:*");
  tar.add({.name = "usr/bin/su", .mode = 04755}, "suid");
  tar.add({.name = "usr/bin/wall", .mode = 02755, .gid = 5}, "sgid");
  tar.hard_link("usr/bin/su2", "usr/bin/su");
  tar.symlink("bin", "usr/bin").symlink("etc/absolute", "/etc/shadow");
  tar.add({.name = "home", .type = '5', .mode = 0700, .uid = 65535, .gid = 65535});
  tar.add({.name = "fifo", .type = '6', .mode = 0600});
  tar.pax({{"SCHILY.xattr.user.key", "value"}, {"mtime", "1700000000.123456789"}});
  tar.file("etc/attr", "a");
  tar.file("etc/n\xff\n" + std::string(150, 'n'), "bytes");
  tar.file("big", std::string(3'000'000, 'z'));
  return tar.end();
}

bool operator_equal(const Stored& a, const Stored& b) {
  return a.mode == b.mode && a.uid == b.uid && a.gid == b.gid && a.mtime == b.mtime &&
         a.size == b.size && a.links == b.links && a.text == b.text && a.xattrs == b.xattrs;
}

void compare(const std::map<std::string, Stored>& a, const std::map<std::string, Stored>& b) {
  CHECK(a.size() == b.size());
  for (const auto& one : a) {
    CAPTURE(one.first);
    const auto other = b.find(one.first);
    REQUIRE(other != b.end());
    CHECK(operator_equal(one.second, other->second));
  }
}

Opened open_test(const ImportRoom& room, const std::string& name = "test") {
  auto opened = open_image(room.store().state_dir(), name);
  REQUIRE_MESSAGE(opened.ok(), opened.error().to_string());
  return std::move(opened).value();
}

using Export = std::function<Result<ExportReport>(const Opened& image, int fd)>;

std::string export_to(const ImportRoom& room, const std::string& name, const Export& how) {
  const Opened image = open_test(room);
  const std::string path = room.path(name);
  auto file = sys::open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  REQUIRE(file.ok());
  auto report = how(image, file.value().get());
  REQUIRE_MESSAGE(report.ok(), report.error().to_string());
  struct stat st {};
  REQUIRE(::stat(path.c_str(), &st) == 0);
  CHECK(report.value().bytes == static_cast<std::uint64_t>(st.st_size));
  return path;
}

std::string output_of(const std::vector<std::string>& argv) {
  auto pipe = sys::pipe();
  REQUIRE(pipe.ok());
  SpawnOptions options;
  options.argv = argv;
  options.out = pipe.value().w.get();
  auto child = spawn(options);
  REQUIRE(child.ok());
  pipe.value().w.reset();
  auto text = sys::read_all(pipe.value().r.get(), Bytes{16U << 20U});
  REQUIRE(text.ok());
  CHECK(child.value().wait().value() == 0);
  return text.value();
}

/// Puts a second layer on the image "test", made by hand: as root alone.
void add_layer(const ImportRoom& room) {
  auto record = room.store().find("test");
  REQUIRE(record.ok());
  const std::string id = image_layer_id("diff:by hand");
  const std::string root = room.path("state/layers/" + id + "/fs/root");
  REQUIRE(fs::mkdirs(root + "/etc", 0755).ok());
  REQUIRE(fs::mkdirs(root + "/usr", 0755).ok());
  REQUIRE(::setxattr((root + "/usr").c_str(), "user.overlay.opaque", "y", 1, 0) == 0);
  REQUIRE(::mknod((root + "/etc/shadow").c_str(), S_IFCHR, makedev(0, 0)) == 0);
  const auto file = sys::open(root + "/usr/new", O_WRONLY | O_CREAT, 0644);
  REQUIRE(file.ok());
  const auto ids = confine::storage_ids().value();
  for (const char* each : {"", "/etc", "/usr", "/usr/new"}) {
    REQUIRE(::chown((root + each).c_str(), ids.uids[0].outside, ids.gids[0].outside) == 0);
  }
  record.value().layers.push_back({id, "", 0});
  record.value().id = identity(record.value());
  const auto lock =
      workspace::LayersLock::take(room.store().layers(), workspace::LayersLock::Mode::kShared);
  REQUIRE(room.store().put(record.value(), lock.value()).ok());
}

}  // namespace

#define SKIP_UNLESS_IMAGES()              \
  if (!can_import()) {                    \
    MESSAGE("SKIP: needs ranges of ids"); \
    return;                               \
  }

TEST_CASE("export: an OCI archive read elsewhere gives the same layer") {
  SKIP_UNLESS_IMAGES();
  for (const auto how :
       {archive::Compression::kGzip, archive::Compression::kZstd, archive::Compression::kNone}) {
    const ImportRoom room;
    const auto first = room.import(varied_tar());
    REQUIRE_MESSAGE(first.ok(), first.error().to_string());
    const std::string file = export_to(room, "out.tar", [&](const Opened& image, int fd) {
      return export_oci(room.store(), image, fd, how);
    });
    const ImportRoom other;
    const auto again = other.import_path(file);
    REQUIRE_MESSAGE(again.ok(), again.error().to_string());
    REQUIRE(again.value().layers.size() == 1);
    compare(room.content(first.value()), other.content(again.value()));
    // Its own tar is the one that it was read from.
    const std::string twice = export_to(other, "again.tar", [&](const Opened& image, int fd) {
      return export_oci(other.store(), image, fd, how);
    });
    const std::string& id = again.value().layers[0].id;
    const std::string& diff_id = again.value().layers[0].diff_id;
    CHECK(canonical_of(other.store().layers(), id)->diff_id == diff_id);
    const auto ids = confine::storage_ids().value();
    CHECK(digest_layer(ids, other.store().layers(), id).value().diff_id == diff_id);
  }
}

TEST_CASE("export: our own archive imported again stores nothing twice") {
  SKIP_UNLESS_IMAGES();
  const ImportRoom room;
  const auto first = room.import(varied_tar());
  REQUIRE(first.ok());
  const auto layers = room.layers();
  for (const bool is_docker : {false, true}) {
    CAPTURE(is_docker);
    const std::string file = export_to(room, "out.tar", [&](const Opened& image, int fd) {
      return is_docker ? export_docker(room.store(), image, fd)
                       : export_oci(room.store(), image, fd, archive::Compression::kGzip);
    });
    const auto again = room.import_path(file);
    REQUIRE_MESSAGE(again.ok(), again.error().to_string());
    CHECK(again.value().layers[0].id == first.value().layers[0].id);
    CHECK(room.layers() == layers);
  }
}

TEST_CASE("export: a root tar shows what the layers show together, owners as inside") {
  SKIP_UNLESS_IMAGES();
  if (::geteuid() != 0) {
    MESSAGE("SKIP: needs root");
    return;
  }
  const ImportRoom room;
  REQUIRE(room.import(varied_tar()).ok());
  add_layer(room);
  const std::string file = export_to(room, "root.tar", [&](const Opened& image, int fd) {
    return export_tar(room.store(), image, fd, archive::Compression::kNone);
  });
  const std::string list = output_of({"tar", "--numeric-owner", "-tvf", file});
  CHECK(list.find("etc/shadow") == list.find("etc/shadow\n"));  // only as a link's target
  CHECK(list.find("usr/bin") == list.find("usr/bin\n"));
  CHECK(list.find(" usr/new\n") != std::string::npos);
  CHECK(list.find(" etc/attr\n") != std::string::npos);
  CHECK(list.find(".wh.") == std::string::npos);
  CHECK(list.find("drwx------ 65535/65535") != std::string::npos);
  // And as one layer again it is the merged tree.
  const ImportRoom other;
  const auto again = other.import_path(file);
  REQUIRE(again.ok());
  const auto content = other.content(again.value());
  CHECK(content.contains("usr/new"));
  CHECK(!content.contains("etc/shadow"));
}

TEST_CASE("export: an empty image is an archive too") {
  SKIP_UNLESS_IMAGES();
  const ImportRoom room;
  Record record;
  record.name = "test";
  record.architecture = host_architecture();
  record.id = identity(record);
  const auto lock =
      workspace::LayersLock::take(room.store().layers(), workspace::LayersLock::Mode::kShared);
  REQUIRE(room.store().put(record, lock.value()).ok());
  const std::string file = export_to(room, "root.tar", [&](const Opened& image, int fd) {
    return export_tar(room.store(), image, fd, archive::Compression::kNone);
  });
  CHECK(output_of({"tar", "-tf", file}) == "./\n");
  export_to(room, "oci.tar", [&](const Opened& image, int fd) {
    return export_oci(room.store(), image, fd, archive::Compression::kGzip);
  });
}

TEST_CASE("vm file: one is made for each image and kind, and goes with the image") {
  SKIP_UNLESS_IMAGES();
  const ImportRoom room;
  REQUIRE(room.import(varied_tar()).ok());
  for (const std::string type : {"erofs", "ext4"}) {
    CAPTURE(type);
    const auto made = vm_file(room.store(), open_test(room), type);
    if (!made.ok() && made.error().code() == Errc::kUnsupported) {
      MESSAGE("SKIP: needs the program that makes " << type);
      continue;
    }
    REQUIRE_MESSAGE(made.ok(), made.error().to_string());
    CHECK(made.value().is_new);
    CHECK(made.value().type == type);
    struct stat st {};
    REQUIRE(::stat(made.value().path.c_str(), &st) == 0);
    CHECK(st.st_uid == ::geteuid());
    CHECK((st.st_mode & 07777U) == 0444);
    const auto again = vm_file(room.store(), open_test(room), type);
    REQUIRE(again.ok());
    CHECK(!again.value().is_new);
    CHECK(again.value().path == made.value().path);
  }
  CHECK(vm_files_use(room.store().state_dir()) > 0);
  CHECK(stale_vm_files(room.store()).value().empty());
  CHECK(sweep_vm_files(room.store()).value() == 0);
  REQUIRE(room.store().remove("test").ok());
  CHECK(stale_vm_files(room.store()).value().size() == 2);
  CHECK(sweep_vm_files(room.store()).value() > 0);
  CHECK(vm_files_use(room.store().state_dir()) == 0);
}
