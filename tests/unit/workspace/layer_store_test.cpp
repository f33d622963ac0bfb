// Tests of the layer store: making, measuring, sweeping.
#include "core/workspace/layer_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>

#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "core/workspace/beneath.h"

#include "tests/support/skip.h"
#include "tests/unit/workspace/place.h"

namespace sbx::workspace {
namespace {

constexpr Millis kNow{0};
constexpr Millis kLong{3'600'000};

std::size_t sweep_now(const Place& place, const std::set<std::string>& used) {
  const auto lock = LayersLock::take(place.fd(), LayersLock::Mode::kExclusive);
  REQUIRE(lock.ok());
  const auto swept = sweep(place.fd(), lock.value(), used, kNow);
  REQUIRE(swept.ok());
  return swept.value();
}

}  // namespace

TEST_CASE("layer store: a new layer has an ID of ten letters and an empty root part") {
  const Place place;
  const std::string id = place.layer();
  CHECK(id.size() == kLayerIdSize);
  CHECK(is_layer_id(id));
  CHECK((stat_of(place.root(id)).st_mode & 07777U) == 0755);
  const auto parts = layer_parts(place.fd(), id);
  REQUIRE(parts.ok());
  CHECK(parts.value() == std::vector<std::string>{"root"});
  CHECK(place.layer() != id);
}

TEST_CASE("layer store: layers of images and bases have names of their own") {
  CHECK(is_layer_id("img-0123456789abcdef01234567"));
  CHECK(is_layer_id("base-00ff"));
  for (const char* name : {"img-",
                           "img-0123456789abcdef0123456",
                           "img-0123456789abcdef012345678",
                           "img-0123456789abcdef0123456g",
                           "img-0123456789ABCDEF01234567",
                           "img-0123456789abcdef0123456/",
                           "../../../../0",
                           ".tmp-00",
                           "lock"}) {
    CAPTURE(name);
    CHECK(!is_layer_id(name));
  }
}

TEST_CASE("layer store: a part is added once, and its name stays one component") {
  const Place place;
  const std::string id = place.layer();
  CHECK(add_part(place.fd(), id, "m-00ff").ok());
  CHECK(add_part(place.fd(), id, "m-00ff").ok());
  CHECK(open_layer(place.fd(), id, "m-00ff").ok());
  CHECK(!add_part(place.fd(), id, "../x").ok());
  CHECK(!add_part(place.fd(), id, "").ok());
  CHECK(!open_layer(place.fd(), "../../etc").ok());
  const auto missing = open_layer(place.fd(), id, "m-11");
  REQUIRE(!missing.ok());
  CHECK(missing.error().code() == Errc::kNotFound);
}

TEST_CASE("layer store: the sweep removes what no record names, and nothing else") {
  const Place place;
  const std::string used = place.layer();
  const std::string unused = place.layer();
  make_dir(place.at(unused, "closed"));
  write_file(place.at(unused, "closed/file"), "x");
  REQUIRE(::chmod(place.at(unused, "closed").c_str(), 0) == 0);
  write_file(place.path() + "/notes", "not a layer");
  CHECK(sweep_now(place, {used}) == 1);
  CHECK(exists(place.root(used)));
  CHECK(!exists(place.path() + "/" + unused));
  CHECK(exists(place.path() + "/notes"));
}

TEST_CASE("layer store: the sweep spares what is younger than asked") {
  const Place place;
  const std::string id = place.layer();
  const auto lock = LayersLock::take(place.fd(), LayersLock::Mode::kExclusive);
  REQUIRE(lock.ok());
  const auto swept = sweep(place.fd(), lock.value(), {}, kLong);
  REQUIRE(swept.ok());
  CHECK(swept.value() == 0);
  CHECK(exists(place.root(id)));
}

TEST_CASE("layer store: an unfinished layer is stale when its maker is gone") {
  const Place place;
  {
    const auto layer = NewLayer::begin(place.fd());
    REQUIRE(layer.ok());
    const auto stale = stale_layers(place.fd(), {}, kNow);
    REQUIRE(stale.ok());
    CHECK(stale.value().empty());
  }
  make_dir(place.path() + "/.tmp-abc");  // as a killed maker leaves it
  const auto stale = stale_layers(place.fd(), {}, kLong);
  REQUIRE(stale.ok());
  REQUIRE(stale.value().size() == 1);
  CHECK(stale.value()[0].name == ".tmp-abc");
  CHECK(sweep_now(place, {}) == 1);
}

TEST_CASE("layer store: who refers to layers and who sweeps them exclude each other") {
  const Place place;
  const auto refers = LayersLock::take(place.fd(), LayersLock::Mode::kShared);
  REQUIRE(refers.ok());
  const auto second = LayersLock::try_take(place.fd(), LayersLock::Mode::kShared);
  REQUIRE(second.ok());
  CHECK(second.value().has_value());
  const auto sweeps = LayersLock::try_take(place.fd(), LayersLock::Mode::kExclusive);
  REQUIRE(sweeps.ok());
  CHECK(!sweeps.value().has_value());
}

TEST_CASE("layer store: disk use counts blocks, and a file of two names once") {
  const Place place;
  const std::string id = place.layer();
  const auto empty = disk_use(place.fd(), id);
  REQUIRE(empty.ok());
  CHECK(empty.value().files == 0);
  write_file(place.at(id, "a"), std::string(1'000'000, 'x'));
  REQUIRE(::link(place.at(id, "a").c_str(), place.at(id, "b").c_str()) == 0);
  make_whiteout(place.at(id, "gone"));
  REQUIRE(::truncate(place.at(id, "a").c_str(), 1'000'000'000) == 0);
  const auto use = disk_use(place.fd(), id);
  REQUIRE(use.ok());
  CHECK(use.value().files == 1);
  CHECK(use.value().bytes.v >= empty.value().bytes.v + 1'000'000);
  CHECK(use.value().bytes.v < empty.value().bytes.v + 2'000'000);
}

TEST_CASE("layer store: the sweep spares a layer that somebody holds, as long as they do") {
  const Place place;
  const std::string id = place.layer();
  auto held = sys::open(place.path() + "/" + id, O_RDONLY | O_DIRECTORY);
  REQUIRE(held.ok());
  REQUIRE(::flock(held.value().get(), LOCK_SH) == 0);
  CHECK(stale_layers(place.fd(), {}, Millis{0}).value().empty());
  CHECK(!remove_layer(place.fd(), id).value());
  CHECK(exists(place.root(id)));
  held.value().reset();
  CHECK(stale_layers(place.fd(), {}, Millis{0}).value().size() == 1);
  CHECK(remove_layer(place.fd(), id).value());
  CHECK(!exists(place.path() + "/" + id));
  CHECK(remove_layer(place.fd(), id).value());  // gone already
}

TEST_CASE("layer store: a layer that is removed in part has lost its name") {
  SKIP_UNLESS("root");
  const Place place;
  const std::string id = place.layer();
  // What cannot be removed, even by root, stays; but not under the name of a whole layer.
  const std::string busy = place.at(id, "busy");
  make_dir(busy);
  REQUIRE(::mount("none", busy.c_str(), "tmpfs", 0, nullptr) == 0);
  CHECK(!remove_layer(place.fd(), id).ok());
  CHECK(!exists(place.path() + "/" + id));
  const auto left = stale_layers(place.fd(), {}, Millis{0});
  REQUIRE(left.ok());
  REQUIRE(left.value().size() == 1);
  REQUIRE(::umount((place.path() + "/" + left.value()[0].name + "/fs/root/busy").c_str()) == 0);
  CHECK(remove_layer(place.fd(), left.value()[0].name).value());
}

}  // namespace sbx::workspace
