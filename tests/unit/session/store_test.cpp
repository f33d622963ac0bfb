// Tests of the store of sessions: claims, locks, lives, leftovers.
#include "core/session/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"

using namespace sbx;
using namespace sbx::session;

namespace {

Record record_of(const std::string& name) {
  Record record;
  record.name = name;
  record.id = "abcdefghij";
  record.lowers = {"base-00"};
  record.upper = "aaaaaaaaaa";
  return record;
}

struct Fixture {
  fs::TempDir dir = std::move(fs::TempDir::create("/tmp", "sbx-store-")).value();
  Store store = std::move(Store::open(dir.path())).value();
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "store: a name is claimed once, and free again after removal") {
  auto first = store.create(record_of("web"));
  REQUIRE(first.ok());
  const auto second = store.create(record_of("web"));
  REQUIRE(!second.ok());
  CHECK(second.error().code() == Errc::kExists);
  REQUIRE(store.remove(std::move(first).value()).ok());
  CHECK(store.names().empty());
  CHECK(store.create(record_of("web")).ok());
}

TEST_CASE_FIXTURE(Fixture, "store: a claim that fails leaves nothing behind") {
  auto held = store.create(record_of("web"));
  REQUIRE(held.ok());
  REQUIRE(!store.create(record_of("web")).ok());
  const auto left = fs::open_dir(dir.path() + "/sessions");
  REQUIRE(left.ok());
  CHECK(store.names() == std::vector<std::string>{"web"});
  store.clear_leftovers();
  CHECK(store.list().value().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "store: an unknown name is told with a near one") {
  REQUIRE(store.create(record_of("website")).ok());
  const auto missing = store.look("webstie");
  REQUIRE(!missing.ok());
  CHECK(missing.error().code() == Errc::kNotFound);
  CHECK(missing.error().hint() == "did you mean website?");
}

TEST_CASE_FIXTURE(Fixture,
                  "store: a second command waits for the lock, no longer than it has patience") {
  const auto held = store.create(record_of("web"));
  REQUIRE(held.ok());
  const auto second = store.lock("web", Millis{20});
  REQUIRE(!second.ok());
  CHECK(second.error().code() == Errc::kTimeout);
}

TEST_CASE_FIXTURE(Fixture, "store: whoever waited for the lock of a removed session gets nothing") {
  auto held = store.create(record_of("web"));
  REQUIRE(held.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto waited = store.lock("web", Millis{5000});
    ::_exit(!waited.ok() && waited.error().code() == Errc::kNotFound ? 0 : 1);
  }
  REQUIRE(store.remove(std::move(held).value()).ok());
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE_FIXTURE(Fixture, "store: a session lives as long as its life lock is held") {
  const auto lease = store.create(record_of("web"));
  REQUIRE(lease.ok());
  CHECK(store.look("web").value().state == SessionState::kStopped);
  {
    const auto life = LifeLock::take(lease.value().dir());
    REQUIRE(life.ok());
    Life text;
    text.supervisor = confine::identity_of(::getpid()).value();
    text.state = LifeState::kPaused;
    REQUIRE(life.value().write(text).ok());
    CHECK(store.look("web").value().state == SessionState::kPaused);
    CHECK(store.look("web").value().life->supervisor.pid == ::getpid());
    CHECK(!wait_for_end(lease.value().dir(), Millis{5}).value());
  }
  CHECK(wait_for_end(lease.value().dir(), Millis{5}).value());
  CHECK(!store.look("web").value().is_alive());
}

TEST_CASE_FIXTURE(Fixture, "store: one that was running and has no supervisor has crashed") {
  const auto lease = store.create(record_of("web"));
  REQUIRE(lease.ok());
  RunFile run;
  run.state = RunState::kRunning;
  REQUIRE(fs::write_atomic(lease.value().dir(), "run.json", to_json(run), 0600).ok());
  CHECK(store.look("web").value().state == SessionState::kCrashed);
}

TEST_CASE_FIXTURE(Fixture, "store: a newer record is listed with its problem and not changed") {
  const auto lease = store.create(record_of("web"));
  REQUIRE(lease.ok());
  const std::string newer = R"({"format":99,"name":"web"})";
  REQUIRE(fs::write_atomic(lease.value().dir(), "record.json", newer, 0600).ok());
  const auto all = store.list();
  REQUIRE(all.ok());
  REQUIRE(all.value().size() == 1);
  CHECK(all.value()[0].problem.find("newer") != std::string::npos);
  CHECK(!store.used_layers().ok());  // nothing may be called unused then
  CHECK(fs::read_file_at(lease.value().dir(), "record.json", Bytes{100}).value() == newer);
}

TEST_CASE_FIXTURE(Fixture,
                  "store: the layers of all sessions are in use, and a removed one's are not") {
  auto web = store.create(record_of("web"));
  Record other = record_of("other");
  other.upper = "zzzzzzzzzz";
  REQUIRE(store.create(other).ok());
  CHECK(store.used_layers().value() ==
        std::vector<std::string>{"aaaaaaaaaa", "base-00", "zzzzzzzzzz"});
  REQUIRE(store.remove(std::move(web).value()).ok());
  CHECK(store.used_layers().value() == std::vector<std::string>{"base-00", "zzzzzzzzzz"});
}

TEST_CASE_FIXTURE(Fixture,
                  "store: what killed commands left is removed, but nothing that is young") {
  const auto sessions = fs::open_dir(dir.path() + "/sessions");
  REQUIRE(sessions.ok());
  for (const char* name : {".rm-gone", ".new-old", ".new-young"}) {
    REQUIRE(sys::mkdirat(sessions.value().get(), name, 0700).ok());
  }
  const timespec past[2] = {{1, 0}, {1, 0}};
  REQUIRE(::utimensat(sessions.value().get(), ".new-old", past, 0) == 0);
  store.clear_leftovers();
  CHECK(!sys::fstatat(sessions.value().get(), ".rm-gone", 0).ok());
  CHECK(!sys::fstatat(sessions.value().get(), ".new-old", 0).ok());
  CHECK(sys::fstatat(sessions.value().get(), ".new-young", 0).ok());
}

TEST_CASE("life: its text has one size, and is read back") {
  Life life;
  life.supervisor = {4711, 99, 5, "boot"};
  life.init = confine::ProcessIdentity{4712, 100, 5, "boot"};
  life.state = LifeState::kEnding;
  life.id = "abcdefghij";
  life.protocol = 3;
  life.version = "9.9";
  life.used_ns = 8;
  const std::string text = life_text(life);
  CHECK(text.size() == kLifeTextSize);
  const auto back = parse_life(text);
  REQUIRE(back.has_value());
  CHECK(life_text(*back) == text);
  CHECK(!parse_life("").has_value());
  CHECK(!parse_life("null").has_value());
}
