// Tests of the store of images: names and files, what is used, holds on layers.
#include "core/image/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"

#include "tests/support/skip.h"

using namespace sbx;
using namespace sbx::image;
using workspace::LayersLock;

namespace {

class State {
 public:
  State() : dir_(make()) {}
  const std::string& path() const { return dir_.path(); }
  Store store() const {
    auto opened = Store::open(path());
    REQUIRE(opened.ok());
    return std::move(opened).value();
  }
  /// An image layer with an empty root; its id.
  std::string layer(const std::string& key) const {
    std::string id = image_layer_id(key);
    REQUIRE(fs::mkdirs(path() + "/layers/" + id + "/fs/root", 0755).ok());
    return id;
  }

 private:
  static fs::TempDir make() {
    auto made = fs::TempDir::create("/tmp", "sbx-images-test-");
    REQUIRE(made.ok());
    return std::move(made).value();
  }
  fs::TempDir dir_;
};

Record image_of(const std::string& name, const std::vector<std::string>& layers) {
  Record record;
  record.name = name;
  record.source = "a test";
  for (const std::string& id : layers) {
    record.layers.push_back({id, "", 0});
  }
  record.id = identity(record);
  return record;
}

Status put(const Store& store, const Record& record) {
  auto lock = LayersLock::take(store.layers(), LayersLock::Mode::kShared);
  REQUIRE(lock.ok());
  return store.put(record, lock.value());
}

void write(const std::string& path, std::string_view content) {
  auto file = sys::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  REQUIRE(file.ok());
  REQUIRE(sys::write_all(file.value().get(), content).ok());
}

}  // namespace

TEST_CASE("images: what is put is found, under any name that is allowed") {
  const State state;
  const Store store = state.store();
  const std::string layer = state.layer("a");
  CHECK(workspace::is_layer_id(layer));
  for (const char* name : {"debian", "team/tools:2", "h:5000/a/b@sha256:77", "a.json"}) {
    CAPTURE(name);
    REQUIRE(put(store, image_of(name, {layer})).ok());
    const auto found = store.find(name);
    REQUIRE(found.ok());
    CHECK(found.value().name == name);
    CHECK(found.value().layers.at(0).id == layer);
  }
  std::vector<std::string> problems;
  const auto all = store.list(problems);
  REQUIRE(all.ok());
  CHECK(all.value().size() == 4);
  CHECK(all.value().front().name == "a.json");
  CHECK(store.names() ==
        std::vector<std::string>{"a.json", "debian", "h:5000/a/b@sha256:77", "team/tools:2"});
}

TEST_CASE("images: the longest name that is allowed fits into a file name") {
  const State state;
  std::string name(194, 'a');
  name += "/a";
  REQUIRE(check_name(name).ok());
  CHECK(put(state.store(), image_of(name, {})).ok());
}

TEST_CASE("images: a name that is not there is answered with a near one") {
  const State state;
  const Store store = state.store();
  REQUIRE(put(store, image_of("debian", {})).ok());
  const auto found = store.find("debain");
  REQUIRE(!found.ok());
  CHECK(found.error().code() == Errc::kNotFound);
  CHECK(found.error().hint().find("debian") != std::string::npos);
  CHECK(store.find("../../etc/passwd").error().code() == Errc::kNotFound);
  CHECK(store.remove("debain").error().code() == Errc::kNotFound);
}

TEST_CASE("images: a name is given to another image as a whole, and taken away") {
  const State state;
  const Store store = state.store();
  const std::string a = state.layer("a");
  const std::string b = state.layer("b");
  REQUIRE(put(store, image_of("x", {a})).ok());
  REQUIRE(put(store, image_of("x", {a, b})).ok());
  CHECK(store.find("x").value().layers.size() == 2);
  CHECK(store.used_layers().value().size() == 2);
  REQUIRE(store.remove("x").ok());
  CHECK(!store.find("x").ok());
  CHECK(store.used_layers().value().empty());
}

TEST_CASE("images: a layer that is not there is not named") {
  const State state;
  const Status status = put(state.store(), image_of("x", {image_layer_id("nowhere")}));
  REQUIRE(!status.ok());
  CHECK(status.error().code() == Errc::kNotFound);
  CHECK(!state.store().find("x").ok());
  CHECK(!put(state.store(), image_of("x", {"../../etc"})).ok());
}

TEST_CASE("images: a record that cannot be read is listed with its problem and keeps all layers") {
  const State state;
  const Store store = state.store();
  REQUIRE(put(store, image_of("good", {state.layer("a")})).ok());
  write(state.path() + "/images/bad.json", "{");
  std::vector<std::string> problems;
  const auto all = store.list(problems);
  REQUIRE(all.ok());
  REQUIRE(all.value().size() == 2);
  CHECK(all.value()[0].name == "bad");
  CHECK(!problems[0].empty());
  CHECK(problems[1].empty());
  CHECK(!store.used_layers().ok());
  CHECK(store.find("bad").error().message().find("image bad") != std::string::npos);
  // It can be taken away like any other.
  CHECK(store.remove("bad").ok());
  CHECK(store.used_layers().ok());
}

TEST_CASE("images: a file that is being written is none") {
  const State state;
  const Store store = state.store();
  write(state.path() + "/images/.sbx-0123456789abcdef", "{");
  std::vector<std::string> problems;
  CHECK(store.list(problems).value().empty());
  CHECK(store.used_layers().ok());
}

TEST_CASE("images: an open one holds its layers, and lets go with its end") {
  SKIP_UNLESS("image-ids");
  const State state;
  const Store store = state.store();
  const std::string layer = state.layer("a");
  REQUIRE(put(store, image_of("x", {layer})).ok());
  const auto dir = sys::open(state.path() + "/layers/" + layer, O_RDONLY | O_DIRECTORY);
  REQUIRE(dir.ok());
  {
    const auto opened = open_image(state.path(), "x");
    REQUIRE(opened.ok());
    CHECK(opened.value().layer_dirs ==
          std::vector<std::string>{state.path() + "/layers/" + layer + "/fs/root"});
    CHECK(::flock(dir.value().get(), LOCK_EX | LOCK_NB) == -1);
    CHECK(open_image(state.path(), "x").ok());
  }
  CHECK(::flock(dir.value().get(), LOCK_EX | LOCK_NB) == 0);
  // Somebody is removing it.
  CHECK(open_image(state.path(), "x").error().code() == Errc::kTimeout);
}

TEST_CASE("images: one whose layer is gone says so, and how to get it back") {
  SKIP_UNLESS("image-ids");
  const State state;
  const Store store = state.store();
  const std::string layer = state.layer("a");
  REQUIRE(put(store, image_of("x", {layer})).ok());
  REQUIRE(fs::remove_tree(store.layers(), layer).ok());
  const auto opened = open_image(state.path(), "x");
  REQUIRE(!opened.ok());
  CHECK(opened.error().code() == Errc::kNotFound);
  CHECK(opened.error().message().find("is gone") != std::string::npos);
  CHECK(opened.error().hint().find("a test") != std::string::npos);
}
