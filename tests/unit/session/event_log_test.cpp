// Event_log test: lines appended by several writers come out once each, over rotation and crashes.
#include "core/session/event_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"

#include <nlohmann/json.hpp>

using namespace sbx;
using namespace sbx::session;
using Json = nlohmann::json;

namespace {

fs::TempDir scratch() {
  Result<fs::TempDir> dir = fs::TempDir::create("/tmp", "sbx-events-");
  REQUIRE(dir.ok());
  return std::move(dir).value();
}

EventLog log_in(const fs::TempDir& dir, Bytes cap = Bytes{1UL << 20U}) {
  Result<EventLog> log = EventLog::open(dir.fd(), cap);
  REQUIRE(log.ok());
  return std::move(log).value();
}

EventLogReader reader_of(const fs::TempDir& dir) {
  Result<EventLogReader> reader = EventLogReader::open(dir.fd());
  REQUIRE(reader.ok());
  return std::move(reader).value();
}

void drain(EventLogReader& reader, std::vector<EventLine>& all) {
  while (true) {
    auto event = reader.next();
    REQUIRE(event.ok());
    if (!event.value()) return;
    all.push_back(*std::move(event).value());
  }
}

std::vector<EventLine> read_all(const fs::TempDir& dir) {
  EventLogReader reader = reader_of(dir);
  std::vector<EventLine> all;
  drain(reader, all);
  return all;
}

std::int64_t number_of(const EventLine& event) {
  return Json::parse(event.text)["exec"].get<std::int64_t>();
}

void append_raw(const fs::TempDir& dir, std::string_view bytes) {
  const UniqueFd file(::openat(dir.fd(), "events.jsonl", O_WRONLY | O_CREAT | O_APPEND, 0600));
  REQUIRE(file.valid());
  REQUIRE(sys::write_all(file.get(), bytes).ok());
}

}  // namespace

TEST_CASE("event log: a line is an object with time, event and fields of every type") {
  const std::string line = event_line(EventKind::kExecExited,
                                      {{"exec", std::uint64_t{7}},
                                       {"status", std::int64_t{-1}},
                                       {"seconds", 1.5},
                                       {"is_service", true},
                                       {"command", std::string("a\n\"b\"\xff")}},
                                      1769851800125000000);
  CHECK(line.ends_with("\n"));
  CHECK(line.find('\n') == line.size() - 1);
  const Json json = Json::parse(line);
  CHECK(json["time"] == "2026-01-31T09:30:00.125Z");
  CHECK(json["event"] == "exec_exited");
  CHECK(json["exec"] == 7);
  CHECK(json["status"] == -1);
  CHECK(json["seconds"] == 1.5);
  CHECK(json["is_service"] == true);
  CHECK(json["command"] == "a\n\"b\"\xef\xbf\xbd");
  CHECK(line.starts_with("{\"time\":"));
}

TEST_CASE("event log: long texts are cut between characters, and a line has a longest length") {
  std::string text;
  while (text.size() < 5000) {
    text += "\xe2\x82\xac";
  }
  const Json json = Json::parse(event_line(EventKind::kStarted, {{"a", text}}, 0));
  CHECK(json["a"].get<std::string>().size() == 4095);
  std::vector<EventField> fields;
  const std::vector<std::string> names{"b", "c", "d", "e", "f", "g", "h", "i"};
  for (const std::string& name : names) {
    fields.push_back({name, std::string(4096, '\x01')});  // six bytes each in JSON
  }
  const std::string line = event_line(EventKind::kStarted, fields, 0);
  CHECK(line.size() <= kLongestEventLine);
  CHECK(Json::parse(line)["cut"] == true);
  CHECK(Json::parse(line).contains("b"));
}

TEST_CASE("event log: what is no event is none") {
  for (const char* text : {"",
                           "[]",
                           "1",
                           "{}",
                           R"({"time":1,"event":"a"})",
                           R"({"time":"2026-01-31T09:30:00Z"})",
                           R"({"time":"yesterday","event":"a"})",
                           R"({"time":"2026-01-31T09:30:00Z","event":"a")"}) {
    CAPTURE(text);
    CHECK(!parse_event(text).has_value());
  }
  const auto event = parse_event(R"({"time":"1970-01-01T00:00:01Z","event":"from_the_future"})");
  REQUIRE(event.has_value());
  CHECK(event->time_ns == 1000000000);
  CHECK(event->event == "from_the_future");
}

TEST_CASE("event log: a reader that waits sees what is appended, also before there is a file") {
  const fs::TempDir dir = scratch();
  EventLogReader reader = reader_of(dir);
  std::vector<EventLine> all;
  drain(reader, all);
  CHECK(all.empty());
  EventLog log = log_in(dir);
  REQUIRE(log.append(EventKind::kCreated).ok());
  drain(reader, all);
  REQUIRE(log.append(EventKind::kStarted).ok());
  drain(reader, all);
  REQUIRE(all.size() == 2);
  CHECK(all[0].event == "created");
  CHECK(all[1].event == "started");
  CHECK(all[1].time_ns >= all[0].time_ns);
}

TEST_CASE("event log: a line that a crash tore is ended by the next writer and passed over") {
  const fs::TempDir dir = scratch();
  EventLog log = log_in(dir);
  REQUIRE(log.append(EventKind::kStarted).ok());
  append_raw(dir, R"({"time":"2026-01-31T09:30:00Z","event":"to)");
  CHECK(read_all(dir).size() == 1);
  EventLogReader waiting = reader_of(dir);
  std::vector<EventLine> all;
  drain(waiting, all);
  REQUIRE(log.append(EventKind::kStopped).ok());
  drain(waiting, all);
  REQUIRE(all.size() == 2);
  CHECK(all[1].event == "stopped");
  append_raw(dir, std::string(200000, 'x') + "\n" + std::string(5000, '\0'));
  REQUIRE(log.append(EventKind::kStarted).ok());
  CHECK(read_all(dir).size() == 3);
}

TEST_CASE("event log: rotation keeps the newest, and a follower that keeps up loses none") {
  const fs::TempDir dir = scratch();
  EventLog log = log_in(dir, Bytes{4096});
  EventLogReader reader = reader_of(dir);
  std::vector<EventLine> followed;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    REQUIRE(log.append(EventKind::kExecStarted, {{"exec", i}}).ok());
    if (i % 20 == 0) drain(reader, followed);
    struct stat st {};
    REQUIRE(::fstatat(dir.fd(), "events.jsonl", &st, 0) == 0);
    CHECK(st.st_size <= 4096);
  }
  drain(reader, followed);
  REQUIRE(followed.size() == 1000);
  for (std::size_t i = 0; i < followed.size(); ++i) {
    REQUIRE(number_of(followed[i]) == static_cast<std::int64_t>(i));
  }
  const std::vector<EventLine> kept = read_all(dir);
  CHECK(kept.size() > 40);
  CHECK(number_of(kept.back()) == 999);
  CHECK(number_of(kept.front()) == 1000 - static_cast<std::int64_t>(kept.size()));
}

TEST_CASE("event log: several processes append and rotate at once, and no line is torn") {
  const fs::TempDir dir = scratch();
  constexpr int kWriters = 4;
  constexpr int kEach = 300;
  std::vector<pid_t> children;
  for (int w = 0; w < kWriters; ++w) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      Result<EventLog> log = EventLog::open(dir.fd(), Bytes{8192});
      for (int i = 0; i < kEach; ++i) {
        (void)log.value().append(
            EventKind::kExecStarted,
            {{"exec", std::int64_t{w * kEach + i}}, {"padding", std::string(100, 'p')}});
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  for (const char* name : {"events.jsonl", "events.jsonl.1"}) {
    const auto text = fs::read_file_at(dir.fd(), name, Bytes{1UL << 20U});
    REQUIRE(text.ok());
    CHECK(text.value().size() < 16384);
    std::size_t begin = 0;
    while (begin < text.value().size()) {
      const std::size_t end = text.value().find('\n', begin);
      REQUIRE(end != std::string::npos);
      REQUIRE(parse_event(std::string_view(text.value()).substr(begin, end - begin)).has_value());
      begin = end + 1;
    }
  }
  std::set<std::int64_t> seen;
  for (const EventLine& event : read_all(dir)) {
    CHECK(seen.insert(number_of(event)).second);
  }
}

TEST_CASE("event log: somebody who holds the lock and hangs keeps no line back") {
  const fs::TempDir dir = scratch();
  EventLog log = log_in(dir);
  REQUIRE(log.append(EventKind::kStarted).ok());
  const UniqueFd holder(::openat(dir.fd(), "events.jsonl", O_RDWR));
  REQUIRE(::flock(holder.get(), LOCK_EX) == 0);
  CHECK(log.append(EventKind::kStopped).ok());
  CHECK(read_all(dir).size() == 2);
}

TEST_CASE("event log: neither writer nor reader follows a link or waits for a FIFO") {
  const fs::TempDir dir = scratch();
  REQUIRE(::symlinkat("/tmp/sbx-nowhere", dir.fd(), "events.jsonl") == 0);
  CHECK(!log_in(dir).append(EventKind::kStarted).ok());
  CHECK(!EventLogReader::open(dir.fd()).ok());
  REQUIRE(::unlinkat(dir.fd(), "events.jsonl", 0) == 0);
  REQUIRE(::mkfifoat(dir.fd(), "events.jsonl", 0600) == 0);
  CHECK(EventLogReader::open(dir.fd()).error().code() == Errc::kProtocol);
}
