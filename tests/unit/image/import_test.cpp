// import_test: root file systems and what is kept of their files.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>

#include <doctest/doctest.h>

#include "core/base/sha256.h"

#include "tests/support/skip.h"
#include "tests/unit/image/import_support.h"
#include "tests/unit/image/tar_builder.h"

namespace sbx::image {

using test::ImportRoom;
using test::TarBuilder;

TEST_CASE("import: a tar file of a root file system becomes an image of one layer") {
  SKIP_UNLESS("image-ids");
  const ImportRoom room;
  TarBuilder tar;
  tar.dir("./", 0711).dir("bin").file("bin/sh", "#!", 0755).symlink("sh", "bin/sh");
  tar.add({.name = "etc/", .type = '5', .mode = 01777, .uid = 5, .gid = 6, .mtime = 42});
  tar.add({.name = "etc/su", .mode = 04755, .uid = 7, .gid = 8, .mtime = 43}, "su");
  tar.hard_link("bin/su", "etc/su");
  tar.add({.name = "fifo", .type = '6', .mode = 0600});
  const std::string bytes = tar.end();
  const auto record = room.import(bytes);
  REQUIRE_MESSAGE(record.ok(), record.error().to_string());
  REQUIRE(record.value().layers.size() == 1);
  Sha256 digest;
  digest.update(bytes);
  CHECK(record.value().layers[0].diff_id == "sha256:" + digest.hex());
  CHECK(record.value().layers[0].bytes == 4);
  CHECK(room.layers().size() == 1);
  CHECK(room.store().find("test").ok());
  auto files = room.content(record.value());
  CHECK(files.size() == 8);
  CHECK((files[""].mode & 07777U) == 0711);
  CHECK(files["bin/sh"].text == "#!");
  CHECK(files["bin/sh"].mode == (S_IFREG | 0755U));
  CHECK(files["bin/sh"].mtime == 1'000'000'000);
  CHECK(files["sh"].text == "bin/sh");
  CHECK(files["etc"].mode == (S_IFDIR | 01777U));
  CHECK(files["etc"].uid == 5);
  CHECK(files["etc"].gid == 6);
  CHECK(files["etc"].mtime == 42);
  CHECK(files["etc/su"].mode == (S_IFREG | 04755U));
  CHECK(files["etc/su"].uid == 7);
  CHECK(files["etc/su"].inode == files["bin/su"].inode);
  CHECK(files["etc/su"].links == 2);
  CHECK(S_ISFIFO(files["fifo"].mode));
}

}  // namespace sbx::image
