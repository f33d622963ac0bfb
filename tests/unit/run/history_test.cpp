// history test: records on disk, and the text of locks.
#include "core/run/history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/run/lock.h"

#include "tests/unit/run/tree.h"

namespace sbx::run {

namespace {

RunRecord sample(const std::string& id, std::uint64_t sequence) {
  RunRecord record;
  record.id = id;
  record.sequence = sequence;
  record.lock = "daily";
  record.series = "lock:daily";
  record.command = {"report.py", "bad\xff"};
  record.cwd = "/srv";
  record.started_ns = 1'700'000'000'000'000'001;
  record.process = confine::identity_of(::getpid()).value();
  return record;
}

std::vector<std::string> ids_of(const std::vector<HistoryEntry>& all) {
  std::vector<std::string> ids;
  for (const HistoryEntry& entry : all) {
    ids.push_back(entry.record.id + (entry.problem.empty() ? "" : "!"));
  }
  return ids;
}

using Ids = std::vector<std::string>;

}  // namespace

TEST_CASE("history: a record comes back as it was written") {
  const Tree state;
  const auto history = History::open(state.path());
  REQUIRE(history.ok());
  RunRecord record = sample("abcdefghij", 1);
  REQUIRE(history.value().write(record).ok());
  record.state = RunState::kFinished;
  record.ended_ns = record.started_ns + 5;
  record.out.emplace();
  record.out->kind = OutPlace::Kind::kDirectory;
  record.out->path = "/srv/reports/2026-01-31";
  record.out->inode = 77;
  record.out->digest = "00ff";
  record.result =
      R"({"cause":"exited","exit_code":3,"error":{"message":"m"},"usage":{"wall_s":1.5}})";
  REQUIRE(history.value().write(record).ok());
  const auto all = history.value().list();
  REQUIRE(all.ok());
  REQUIRE(all.value().size() == 1);
  const RunRecord& back = all.value()[0].record;
  CHECK(back.id == record.id);
  CHECK(back.sequence == 1);
  CHECK(back.state == RunState::kFinished);
  CHECK(back.lock == "daily");
  CHECK(back.series == "lock:daily");
  CHECK(back.command == std::vector<std::string>{"report.py", "bad\\xff"});
  CHECK(back.started_ns == record.started_ns);
  CHECK(back.ended_ns == record.ended_ns);
  CHECK(back.process == record.process);
  CHECK(back.out == record.out);
  CHECK(back.cause == "exited");
  CHECK(back.exit_code == 3);
  CHECK(back.message == "m");
  CHECK(back.wall_s == 1.5);
  CHECK(status_word(back) == "exit 3");
  CHECK((state.stat("runs").st_mode & 0777U) == 0700);
}

TEST_CASE("history: the order is that of the starts, whatever the clock said") {
  const Tree state;
  const auto history = History::open(state.path());
  REQUIRE(history.ok());
  CHECK(history.value().next_sequence().value() == 1);
  RunRecord future = sample("future", 1);
  future.started_ns *= 2;
  REQUIRE(history.value().write(future).ok());
  CHECK(history.value().next_sequence().value() == 2);
  REQUIRE(history.value().write(sample("now", 2)).ok());
  CHECK(ids_of(history.value().list().value()) == Ids{"now", "future"});
  REQUIRE(history.value().remove(future).ok());
  REQUIRE(history.value().remove(future).ok());
  CHECK(ids_of(history.value().list().value()) == Ids{"now"});
}

TEST_CASE("history: running is what has a living process, else it crashed") {
  RunRecord record = sample("a", 1);
  CHECK(status_word(record) == "running");
  record.process.start += 1;
  CHECK(status_word(record) == "crashed");
  record.state = RunState::kFinished;
  record.cause = "timeout";
  CHECK(status_word(record) == "timeout");
}

TEST_CASE(
    "history: rubbish and newer formats are shown, not taken for records, and not rewritten") {
  const Tree state;
  const auto history = History::open(state.path());
  REQUIRE(history.ok());
  state.write("runs/00000003-rubbish.json", "{");
  state.write("runs/00000002-newer.json", R"({"format":2,"id":"newer"})");
  state.write("runs/00000001-other.json", record_text(sample("wrong", 1)));
  state.write("runs/notes.txt", "mine");
  CHECK(ids_of(history.value().list().value()) == Ids{"rubbish!", "newer!", "other!"});
  CHECK(state.read("runs/00000002-newer.json") == R"({"format":2,"id":"newer"})");
  CHECK(state.exists("runs/notes.txt"));
  for (const std::string text : {"",
                                 "[]",
                                 "null",
                                 "{}",
                                 R"({"format":"1"})",
                                 R"({"format":1})",
                                 R"({"format":1,"id":1,"state":"running"})"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_record(text).ok());
  }
}

TEST_CASE("history: temporary files of an hour ago go, younger ones may have a writer") {
  const Tree state;
  const auto history = History::open(state.path());
  REQUIRE(history.ok());
  state.write("runs/.sbx-old", "");
  state.write("runs/.sbx-new", "");
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  REQUIRE(::utimensat(state.fd(), "runs/.sbx-old", times, 0) == 0);
  REQUIRE(history.value().list().ok());
  CHECK_FALSE(state.exists("runs/.sbx-old"));
  CHECK(state.exists("runs/.sbx-new"));
}

TEST_CASE("history: the beginning of an id is enough when it is the only one") {
  std::vector<HistoryEntry> all(3);
  all[0].record.id = "abcd";
  all[1].record.id = "abxy";
  all[2].record.id = "ab";
  CHECK(find_run(all, "abc").value()->record.id == "abcd");
  CHECK(find_run(all, "ab").value()->record.id == "ab");  // an exact one wins
  CHECK(find_run(all, "a").error().code() == Errc::kUsage);
  CHECK(find_run(all, "z").error().code() == Errc::kNotFound);
  CHECK(find_run(all, "").error().code() == Errc::kNotFound);
}

TEST_CASE("lock: its text says who holds it, always has one size, and rubbish says nobody") {
  Holder holder;
  holder.process = confine::identity_of(::getpid()).value();
  holder.run = "abcdefghij";
  holder.since_ns = 5;
  CHECK(parse_lock(lock_text(&holder)) == holder);
  holder.init = holder.process;
  CHECK(parse_lock(lock_text(&holder)) == holder);
  CHECK(lock_text(&holder).size() == kLockTextSize);
  CHECK(lock_text(nullptr).size() == kLockTextSize);
  CHECK_FALSE(parse_lock(lock_text(nullptr)).has_value());
  for (const std::string text : {"", "{", "[]", R"({"process":{"pid":-1}})", "\0\0"}) {
    CHECK_FALSE(parse_lock(text).has_value());
  }
}

TEST_CASE("lock: kill ends what began before us, and gives way to what began later") {
  Holder holder;
  holder.process = {.pid = 5, .start = 100, .pid_namespace = 1, .boot = "b"};
  const confine::ProcessIdentity self{.pid = 6, .start = 100, .pid_namespace = 1, .boot = "b"};
  CHECK(is_to_be_replaced(holder, self));
  holder.process.start = 99;
  CHECK(is_to_be_replaced(holder, self));
  holder.process.start = 101;
  CHECK_FALSE(is_to_be_replaced(holder, self));
}

TEST_CASE("lock: a second holder is refused, a third gets it after the first") {
  const Tree state;
  auto first = RunLock::open(state.path(), "a");
  auto second = RunLock::open(state.path(), "a");
  REQUIRE((first.ok() && second.ok()));
  LockRequest request;
  request.run = "one";
  CHECK(first.value().take(request).value() == LockEnd::kTaken);
  CHECK(second.value().take(request).value() == LockEnd::kSkipped);
  REQUIRE(second.value().holder().has_value());
  CHECK(second.value().holder()->run == "one");
  request.overlap = Overlap::kWait;
  request.deadline_ns = 0;
  bool has_waited = false;
  request.before_waiting = [&] { has_waited = true; };
  CHECK(second.value().take(request).value() == LockEnd::kDeadline);
  CHECK(has_waited);
  { const RunLock gone = std::move(first).value(); }
  CHECK(second.value().take(request).value() == LockEnd::kTaken);
  CHECK((state.stat("locks/a").st_mode & 0777U) == 0600);
}

}  // namespace sbx::run
