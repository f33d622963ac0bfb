// Store test: names by content, making, finding, and what gc takes.
#include "core/packages/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"

using namespace sbx::packages;
using sbx::UniqueFd;
using sbx::run::Gc;

namespace {

const std::string kDigest = "sha256:" + std::string(64, 'a');

Locked one_package() {
  Locked locked;
  locked.wants = {"six"};
  locked.packages = {{"six", "1.0", "six.whl", kDigest, ""}};
  locked.site = "lib/python3/site-packages";
  return locked;
}

struct State {
  State() : dir(sbx::fs::TempDir::create("/tmp", "sbx-packages-").value()) {}
  std::string at(const std::string& rel) const { return dir.path() + "/packages/" + rel; }
  Store store() const { return Store::open(dir.path()).value(); }
  /// As if it was last used `days` ago.
  void age(const std::string& rel, int days) const {
    const std::time_t then = std::time(nullptr) - std::time_t{days} * 24 * 3600;
    const std::array<timespec, 2> times{{{then, 0}, {then, 0}}};
    REQUIRE(::utimensat(AT_FDCWD, at(rel).c_str(), times.data(), 0) == 0);
  }
  sbx::fs::TempDir dir;
};

Set make(const Store& store, const std::string& name) {
  NewSet fresh = store.begin().value();
  auto set = store.publish(std::move(fresh), Kind::kPip, name, one_package());
  REQUIRE_MESSAGE(set.ok(), set.error().to_string());
  return std::move(set).value();
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace

TEST_CASE("store: a set's name depends on all that it is made of") {
  const Locked one = one_package();
  const std::string name = set_name(Kind::kPip, "python", one);
  CHECK(is_set_name(name));
  CHECK(set_name(Kind::kPip, "python", one) == name);
  CHECK(set_name(Kind::kPip, "python2", one) != name);
  CHECK(set_name(Kind::kNpm, "python", one).starts_with("npm-"));
  Locked other = one;
  other.packages[0].version = "1.1";
  CHECK(set_name(Kind::kPip, "python", other) != name);
  other = one;
  other.packages[0].digest.back() = 'b';
  CHECK(set_name(Kind::kPip, "python", other) != name);
  other = one;
  other.wants = {"six>0"};
  CHECK(set_name(Kind::kPip, "python", other) == name);
}

TEST_CASE("store: a wish's name depends on specs, interpreter and the state of the source") {
  const std::string wish = wish_name(Kind::kPip, "p", {"a", "b"}, "s");
  CHECK(wish_name(Kind::kPip, "p", {"a", "b"}, "s") == wish);
  CHECK(wish_name(Kind::kNpm, "p", {"a", "b"}, "s") != wish);
  CHECK(wish_name(Kind::kPip, "p", {"ab"}, "s") != wish);
  CHECK(wish_name(Kind::kPip, "p", {"a"}, "s") != wish);
  CHECK(wish_name(Kind::kPip, "q", {"a", "b"}, "s") != wish);
  CHECK(wish_name(Kind::kPip, "p", {"a", "b"}, "t") != wish);
}

TEST_CASE("store: a published set is found, an unfinished one vanishes") {
  const State state;
  const Store store = state.store();
  const std::string name = set_name(Kind::kPip, "python", one_package());
  CHECK(!store.find(name).value().has_value());
  { const NewSet dropped = store.begin().value(); }
  const Set made = make(store, name);
  CHECK(made.tree == state.at(name) + "/tree");
  const auto found = store.find(name);
  REQUIRE(found.value().has_value());
  CHECK(found.value()->locked.packages == one_package().packages);
  // Made a second time by somebody who was as fast: the first one stays.
  const Set again = make(store, name);
  CHECK(again.name == name);
  struct stat info {};
  REQUIRE(::stat(state.at("").c_str(), &info) == 0);
  CHECK(info.st_nlink == 3);  // itself, its parent's name for it, one set
}

TEST_CASE("store: a wish remembers what it came to, and rubbish in its file is nothing") {
  const State state;
  const Store store = state.store();
  const std::string wish = wish_name(Kind::kPip, "p", {"a"}, "s");
  const std::string name = set_name(Kind::kPip, "python", one_package());
  CHECK(store.look_up(wish).empty());
  {
    Wish held = store.lock(wish, {}).value();
    CHECK(held.set().empty());
    REQUIRE(held.fulfil(name).ok());
  }
  CHECK(store.look_up(wish) == name);
  const UniqueFd file = sbx::sys::open(state.at(wish), O_WRONLY | O_TRUNC).value();
  for (const std::string& bad : {std::string("../../etc\n"), name, name.substr(0, 20) + "\n"}) {
    REQUIRE(::ftruncate(file.get(), 0) == 0);
    REQUIRE(::pwrite(file.get(), bad.data(), bad.size(), 0) == static_cast<ssize_t>(bad.size()));
    CHECK(store.look_up(wish).empty());
  }
}

TEST_CASE("store: gc takes what is old and unused, and half-made sets whose maker is gone") {
  const State state;
  const Store store = state.store();
  const std::string name = set_name(Kind::kPip, "python", one_package());
  { const Set made = make(store, name); }
  CHECK(collect_garbage(state.dir.path(), {}, Gc::kRemove).empty());
  state.age(name, 31);
  CHECK(collect_garbage(state.dir.path(), {name}, Gc::kRemove).empty());
  {
    const auto held = store.find(name);  // which is also a use of it
    state.age(name, 31);
    CHECK(collect_garbage(state.dir.path(), {}, Gc::kRemove).empty());
  }
  const auto dry = collect_garbage(state.dir.path(), {}, Gc::kDryRun);
  REQUIRE(dry.size() == 1);
  CHECK(dry[0].leftover.name == state.at(name));
  CHECK(dry[0].leftover.why == "nobody used it for 31 days");
  CHECK(exists(state.at(name)));
  const auto done = collect_garbage(state.dir.path(), {}, Gc::kRemove);
  REQUIRE(done.size() == 1);
  CHECK(done[0].is_removed);
  CHECK(!exists(state.at(name)));

  REQUIRE(::mkdir(state.at(".tmp-abc").c_str(), 0700) == 0);
  CHECK(collect_garbage(state.dir.path(), {}, Gc::kRemove).empty());
  state.age(".tmp-abc", 1);
  {
    const NewSet living = store.begin().value();
    const auto left = collect_garbage(state.dir.path(), {}, Gc::kRemove);
    REQUIRE(left.size() == 1);
    CHECK(left[0].leftover.why == "whoever made it was killed");
  }
  CHECK(!exists(state.at(".tmp-abc")));
}

TEST_CASE("store: the set of a mount is found by its place alone") {
  const std::string name = "pip-" + std::string(32, '0');
  CHECK(set_of_mount("/s", "/s/packages/" + name + "/tree") == name);
  CHECK(set_of_mount("/s", "/s/packages/other/tree").empty());
  CHECK(set_of_mount("/s", "/t/packages/" + name + "/tree").empty());
}
