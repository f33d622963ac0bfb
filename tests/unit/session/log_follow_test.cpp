// Log_follow test: following ends when the exec has ended or when it is said, and loses nothing.
#include "core/session/log_follow.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"

using namespace sbx;
using namespace sbx::session;

namespace {

fs::TempDir scratch() {
  Result<fs::TempDir> dir = fs::TempDir::create("/tmp", "sbx-follow-");
  REQUIRE(dir.ok());
  return std::move(dir).value();
}

Status no_matter() {
  return {};
}

}  // namespace

TEST_CASE("log follow: a writer in another process is followed to its end, byte for byte") {
  const fs::TempDir dir = scratch();
  const Result<sys::Pipe> ready = sys::pipe();
  REQUIRE(ready.ok());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Result<ExecLog> log = ExecLog::create(dir.fd(), 3);
    (void)sys::write(ready.value().w.get(), "x");
    for (int i = 0; i < 20000; ++i) {
      (void)log.value().append(Stream::kOut, std::to_string(i) + "\n", i);
    }
    (void)log.value().end(0);
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(sys::read(ready.value().r.get(), &byte, 1).ok());
  Result<ExecLogReader> reader = ExecLogReader::open(dir.fd(), 3);
  REQUIRE(reader.ok());
  std::string seen;
  const Status done = read_log(
      reader.value(),
      dir.fd(),
      [] { return false; },
      [&](const LogRecord& record) {
        seen += record.bytes;
        return Status();
      },
      no_matter);
  CHECK(done.ok());
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  std::string expected;
  for (int i = 0; i < 20000; ++i) {
    expected += std::to_string(i) + "\n";
  }
  CHECK(seen == expected);
}

TEST_CASE("log follow: a writer that was killed is the end when somebody says so") {
  const fs::TempDir dir = scratch();
  {
    Result<ExecLog> log = ExecLog::create(dir.fd(), 3);
    REQUIRE(log.ok());
    REQUIRE(log.value().append(Stream::kErr, "last words", 1).ok());
  }
  Result<ExecLogReader> reader = ExecLogReader::open(dir.fd(), 3);
  REQUIRE(reader.ok());
  int asked = 0;
  std::string seen;
  const Status done = read_log(
      reader.value(),
      dir.fd(),
      [&] { return ++asked > 3; },
      [&](const LogRecord& record) {
        seen += record.bytes;
        return Status();
      },
      no_matter);
  CHECK(done.ok());
  CHECK(seen == "last words");
  CHECK(asked == 4);
}

TEST_CASE("log follow: without follow it reads what is there, and an error of the taker ends it") {
  const fs::TempDir dir = scratch();
  Result<EventLog> log = EventLog::open(dir.fd());
  REQUIRE(log.ok());
  for (int i = 0; i < 5; ++i) {
    REQUIRE(log.value().append(EventKind::kStarted).ok());
  }
  Result<EventLogReader> reader = EventLogReader::open(dir.fd());
  REQUIRE(reader.ok());
  int taken = 0;
  int caught = 0;
  const Status failed = read_events(
      reader.value(),
      dir.fd(),
      {},
      [&](const EventLine&) {
        return ++taken == 3 ? Status(Error(Errc::kSystem, "stdout is gone")) : Status();
      },
      no_matter);
  CHECK(failed.error().message() == "stdout is gone");
  const Status done = read_events(
      reader.value(),
      dir.fd(),
      {},
      [&](const EventLine&) {
        ++taken;
        return Status();
      },
      [&] {
        ++caught;
        return Status();
      });
  CHECK(done.ok());
  CHECK(taken == 5);
  CHECK(caught == 1);
}

TEST_CASE("log follow: a log that comes later is waited for") {
  const fs::TempDir dir = scratch();
  CHECK(ExecLogReader::open(dir.fd(), 3).error().code() == Errc::kNotFound);
  Result<ExecLogReader> reader = ExecLogReader::open(dir.fd(), 3, Absent::kWait);
  REQUIRE(reader.ok());
  CHECK(!reader.value().next().value().has_value());
  std::string seen;
  int asked = 0;
  const Status done = read_log(
      reader.value(),
      dir.fd(),
      [&] {
        if (++asked == 2) {
          Result<ExecLog> log = ExecLog::create(dir.fd(), 3);
          CHECK(log.value().append(Stream::kOut, "late", 1).ok());
          CHECK(log.value().end(2).ok());
        }
        return false;
      },
      [&](const LogRecord& record) {
        seen += record.bytes;
        return Status();
      },
      no_matter);
  CHECK(done.ok());
  CHECK(seen == "late");
}
