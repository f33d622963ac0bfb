// Tests of the canonical tar of a layer: equal layers give equal bytes, and all that a layer is
// stands in it.
#include "core/image/layer_tar.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/process.h"
#include "core/base/sha256.h"
#include "core/image/canonical.h"
#include "core/image/record.h"
#include "core/image/zero_map.h"

#include "tests/unit/workspace/place.h"

using namespace sbx;
using namespace sbx::image;
using workspace::attribute;
using workspace::make_dir;
using workspace::make_link;
using workspace::make_opaque;
using workspace::make_whiteout;
using workspace::Place;
using workspace::read_text;
using workspace::stat_of;
using workspace::write_file;

namespace {

struct Written {
  LayerTar tar;
  std::string bytes;
};

Written write_tar(const Place& place, const std::string& id, TarOf of = TarOf::kLayer) {
  const std::string path = place.path() + "/out.tar";
  auto out = sys::open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  REQUIRE(out.ok());
  auto root = workspace::open_layer(place.fd(), id, "root");
  REQUIRE(root.ok());
  auto tar = write_tree_tar(root.value().get(), of, out.value().get());
  REQUIRE_MESSAGE(tar.ok(), tar.error().to_string());
  return {tar.value(), read_text(path)};
}

/// What GNU tar says about what was written.
std::string list_of(const Place& place, const std::string& flags) {
  auto pipe = sys::pipe();
  REQUIRE(pipe.ok());
  SpawnOptions options;
  options.argv = {"tar", flags, "--numeric-owner", "-f", place.path() + "/out.tar"};
  options.out = pipe.value().w.get();
  options.err = pipe.value().w.get();
  auto child = spawn(options);
  REQUIRE(child.ok());
  pipe.value().w.reset();
  auto text = sys::read_all(pipe.value().r.get(), Bytes{1U << 20U});
  REQUIRE(text.ok());
  CHECK(child.value().wait().value() == 0);
  return text.value();
}

void set_time(const std::string& path, time_t seconds, long ns) {
  const timespec times[2] = {{seconds, ns}, {seconds, ns}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

/// The same content; `is_reversed`: made in another order.
std::string fill(const Place& place, bool is_reversed) {
  const std::string id = place.layer();
  std::vector<std::string> names{"a", "b", "c", "z"};
  if (is_reversed) names = {"z", "c", "b", "a"};
  for (const std::string& name : names) {
    make_dir(place.at(id, name), 0751);
    write_file(place.at(id, name + "/file"), "content of " + name, 0640);
    make_link("../" + name, place.at(id, name + "/link"));
    REQUIRE(::link(place.at(id, name + "/file").c_str(), place.at(id, name + "/again").c_str()) ==
            0);
    for (const char* each : {"/file", "/link", ""}) {
      set_time(place.at(id, name + each), 1'700'000'000, 123'456'789);
    }
  }
  set_time(place.root(id), 1'600'000'000, 5);
  return id;
}

}  // namespace

TEST_CASE("layer tar: equal layers give equal bytes, whatever order they were made in") {
  const Place place;
  const Written one = write_tar(place, fill(place, false));
  const Written two = write_tar(place, fill(place, true));
  CHECK(one.bytes == two.bytes);
  CHECK(one.tar.diff_id == two.tar.diff_id);
  CHECK(one.tar.bytes == one.bytes.size());
  Sha256 digest;
  digest.update(one.bytes);
  CHECK(one.tar.diff_id == "sha256:" + digest.hex());
}

TEST_CASE("layer tar: the form does not change: layers are known by its digest") {
  const Place place;
  const std::string id = place.layer();
  write_file(place.at(id, "f"), "x", 0644);
  make_link("f", place.at(id, "l"));
  make_whiteout(place.at(id, "w"));
  for (const char* name : {"f", "l", "w"}) {
    set_time(place.at(id, name), 1'000'000'000, 500'000'000);
    REQUIRE(::lchown(place.at(id, name).c_str(), ::geteuid(), ::getegid()) == 0);
  }
  set_time(place.root(id), 1'000'000'000, 0);
  if (::geteuid() != 0 || ::getegid() != 0) {
    MESSAGE("SKIP: needs root");
    return;
  }
  CHECK(write_tar(place, id).tar.diff_id ==
        "sha256:730d9dd74d95d3d6b0d594830b1fc027b447b3760694fe280369b8fa26e6f578");
}

TEST_CASE("layer tar: one byte, mode, time or owner more makes another digest") {
  const Place place;
  const std::string id = fill(place, false);
  const std::string before = write_tar(place, id).tar.diff_id;
  REQUIRE(::chmod(place.at(id, "a/file").c_str(), 0641) == 0);
  const std::string mode = write_tar(place, id).tar.diff_id;
  CHECK(mode != before);
  REQUIRE(::chmod(place.at(id, "a/file").c_str(), 0640) == 0);
  CHECK(write_tar(place, id).tar.diff_id == before);
  set_time(place.at(id, "a/file"), 1'700'000'000, 123'456'788);
  CHECK(write_tar(place, id).tar.diff_id != before);
}

TEST_CASE("layer tar: whiteouts and opaque directories are those of the image specification") {
  const Place place;
  const std::string id = place.layer();
  make_dir(place.at(id, "dir"));
  make_opaque(place.at(id, "dir"));
  write_file(place.at(id, "dir/new"), "");
  make_whiteout(place.at(id, "dir/.hidden"));
  make_whiteout(place.at(id, "gone"));
  write_tar(place, id);
  const std::string list = list_of(place, "-t");
  CHECK(list == "./\ndir/\ndir/.wh..wh..opq\ndir/.wh..hidden\ndir/new\n.wh.gone\n");
}

TEST_CASE("layer tar: of a plain tree whiteouts are nothing, and names with .wh. are names") {
  const Place place;
  const std::string id = place.layer();
  make_whiteout(place.at(id, "gone"));
  write_file(place.at(id, ".wh.kept"), "");
  write_tar(place, id, TarOf::kTree);
  CHECK(list_of(place, "-t") == "./\n.wh.kept\n");
}

TEST_CASE("layer tar: a name that would be read as a whiteout is refused by name") {
  const Place place;
  const std::string id = place.layer();
  make_dir(place.at(id, "d"));
  write_file(place.at(id, "d/.wh.x"), "");
  const auto made = write_layer_tar({place.fd(), id, {}}, -1);
  REQUIRE(!made.ok());
  CHECK(made.error().code() == Errc::kUnsupported);
  CHECK(made.error().message().find("/d/.wh.x") != std::string::npos);
}

TEST_CASE("layer tar: hard links are links to the first name, also to links and FIFOs") {
  const Place place;
  const std::string id = place.layer();
  write_file(place.at(id, "b"), "content");
  REQUIRE(::link(place.at(id, "b").c_str(), place.at(id, "a").c_str()) == 0);
  make_link("nowhere", place.at(id, "l1"));
  REQUIRE(::linkat(AT_FDCWD, place.at(id, "l1").c_str(), AT_FDCWD, place.at(id, "l2").c_str(), 0) ==
          0);
  REQUIRE(::mkfifo(place.at(id, "p").c_str(), 0600) == 0);
  write_tar(place, id);
  const std::string list = list_of(place, "-tv");
  CHECK(list.find(" b link to a\n") != std::string::npos);
  CHECK(list.find(" l1 -> nowhere\n") != std::string::npos);
  CHECK(list.find(" l2 link to l1\n") != std::string::npos);
  CHECK(list.find("\np") != std::string::npos);
}

TEST_CASE("layer tar: a file linked to from another layer is a plain file") {
  const Place place;
  const std::string one = place.layer();
  const std::string two = place.layer();
  write_file(place.at(one, "f"), "content");
  REQUIRE(::link(place.at(one, "f").c_str(), place.at(two, "f").c_str()) == 0);
  set_time(place.root(one), 1, 0);
  set_time(place.root(two), 1, 0);
  CHECK(write_tar(place, one).tar.diff_id == write_tar(place, two).tar.diff_id);
  CHECK(list_of(place, "-tv").find("link to") == std::string::npos);
}

TEST_CASE("layer tar: sockets are left out") {
  const Place place;
  const std::string id = place.layer();
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const UniqueFd owner(fd);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = place.at(id, "s");
  REQUIRE(path.size() < sizeof address.sun_path);
  path.copy(static_cast<char*>(address.sun_path), path.size());
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  write_tar(place, id);
  CHECK(list_of(place, "-t") == "./\n");
}

TEST_CASE("layer tar: long names, names of any bytes and attributes come back from GNU tar") {
  const Place place;
  const std::string id = place.layer();
  std::string deep;
  for (int i = 0; i < 3; ++i) {
    deep += (deep.empty() ? "" : "/") + std::string(200, static_cast<char>('a' + i));
    make_dir(place.at(id, deep));
  }
  write_file(place.at(id, deep + "/f"), "deep");
  write_file(place.at(id, "caf\xe9 \n"), "bytes");
  write_file(place.at(id, "attr"), "");
  REQUIRE(::setxattr(place.at(id, "attr").c_str(), "user.key", "a\nb", 3, 0) == 0);
  make_opaque(place.at(id, deep));  // of overlayfs: no attribute of the content
  write_tar(place, id);
  const std::string out = place.path() + "/out";
  make_dir(out);
  SpawnOptions options;
  options.argv = {
      "tar", "-x", "--xattrs", "--xattrs-include=*", "-C", out, "-f", place.path() + "/out.tar"};
  auto child = spawn(options);
  REQUIRE(child.ok());
  CHECK(child.value().wait().value() == 0);
  CHECK(read_text(out + "/" + deep + "/f") == "deep");
  CHECK(read_text(out + "/caf\xe9 \n") == "bytes");
  CHECK(attribute(out + "/attr", "user.key") == "a\nb");
  CHECK(attribute(out + "/" + deep, "user.overlay.opaque") == "none");
}

TEST_CASE("layer tar: a long file with zeros is sparse by its bytes, not by its holes") {
  const Place place;
  const std::string holes = place.layer();
  const std::string dense = place.layer();
  constexpr off_t kSize = (20 << 20) + 1000;  // the last stretch is no whole one
  const std::string a = place.at(holes, "f");
  const std::string b = place.at(dense, "f");
  write_file(a, "begin");
  REQUIRE(::truncate(a.c_str(), kSize) == 0);
  write_file(b, "begin" + std::string(kSize - 5, '\0'));
  for (const std::string& id : {holes, dense}) {
    set_time(place.at(id, "f"), 1, 0);
    set_time(place.root(id), 1, 0);
  }
  const Written one = write_tar(place, holes);
  CHECK(one.bytes.size() < 200'000);
  CHECK(list_of(place, "-tv").find("20972520") != std::string::npos);
  CHECK(write_tar(place, dense).tar.diff_id == one.tar.diff_id);
}

TEST_CASE("zero map: the end of a file counts, and what is between two stretches") {
  const Place place;
  const std::string path = place.path() + "/f";
  write_file(path, "");
  const std::uint64_t size = kSparseFrom + 10;
  REQUIRE(::truncate(path.c_str(), static_cast<off_t>(size)) == 0);
  const auto file = sys::open(path, O_RDWR);
  REQUIRE(file.ok());
  const auto put = [&](std::uint64_t at) {
    REQUIRE(::pwrite(file.value().get(), "x", 1, static_cast<off_t>(at)) == 1);
  };
  const auto extents = [&] {
    auto found = nonzero_extents(file.value().get(), size);
    REQUIRE(found.ok());
    std::string text;
    for (const auto& each : found.value()) {
      text += std::to_string(each.offset) + "+" + std::to_string(each.length) + " ";
    }
    return text;
  };
  CHECK(extents().empty());
  put(size - 1);
  CHECK(extents() == "16777216+10 ");
  put(kZeroStretch * 2 - 1);
  put(kZeroStretch * 2);
  CHECK(extents() == "65536+131072 16777216+10 ");
  put(0);
  CHECK(extents() == "0+196608 16777216+10 ");
}

TEST_CASE("canonical: what is noted is read back, and gives the layer another id") {
  const Place place;
  const std::string id = image_layer_id("diff:sha256:original");
  const std::string kOwn = "sha256:" + std::string(64, 'a');
  REQUIRE(fs::mkdirs(place.path() + "/" + id + "/fs/root", 0755).ok());
  CHECK(!canonical_of(place.fd(), id).has_value());
  for (const char* rubbish : {"", "sha256:", "sha256:aa 1", "x 1\n", "sha256:aa"}) {
    CHECK(!parse_layer_tar(rubbish).ok());
  }
  CHECK(layer_aliases(place.fd()).value().empty());
  const auto dir = fs::open_dir(place.path() + "/" + id);
  REQUIRE(note_canonical(dir.value().get(), {kOwn, 4096}).ok());
  REQUIRE(canonical_of(place.fd(), id).has_value());
  CHECK(canonical_of(place.fd(), id)->diff_id == kOwn);
  CHECK(canonical_of(place.fd(), id)->bytes == 4096);
  const auto aliases = layer_aliases(place.fd()).value();
  REQUIRE(aliases.size() == 1);
  CHECK(aliases.begin()->first == image_layer_id("diff:" + kOwn));
  CHECK(aliases.begin()->second == id);
}
