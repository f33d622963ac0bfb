// Log_watch test: growth, rotation and new names wake the loop; polling covers the rest.
#include "core/session/log_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/session/exec_log.h"
#include "core/session/exec_log_reader.h"

using namespace sbx;
using namespace sbx::session;

namespace {

fs::TempDir scratch() {
  Result<fs::TempDir> dir = fs::TempDir::create("/tmp", "sbx-watch-");
  REQUIRE(dir.ok());
  return std::move(dir).value();
}

}  // namespace

TEST_CASE("log watch: a follower gets everything through rotations, and the end") {
  const fs::TempDir dir = scratch();
  Result<ExecLog> log = ExecLog::create(dir.fd(), 1, {.file = kLeastLogFile});
  REQUIRE(log.ok());
  Result<ExecLogReader> reader = ExecLogReader::open(dir.fd(), 1);
  REQUIRE(reader.ok());
  Loop loop;
  std::string written;
  std::string seen;
  int rounds = 0;
  LogWatch watch(loop, dir.fd(), [&] {
    while (true) {
      const auto record = reader.value().next();
      if (!record.ok() || !record.value()) break;
      seen += record.value()->bytes;
      if (record.value()->kind == LogKind::kEnd) loop.stop();
    }
    watch.watch_file(reader.value().fd());
  });
  watch.watch_file(reader.value().fd());
  Watch writer;
  const std::function<void()> write = [&] {
    for (int i = 0; i < 5; ++i) {
      const std::string piece(100, static_cast<char>('a' + rounds % 26));
      written += piece;
      CHECK(log.value().append(Stream::kOut, piece, rounds).ok());
    }
    if (++rounds == 100) {
      CHECK(log.value().end(rounds).ok());
    } else {
      writer = loop.add_timer(Millis{1}, write);
    }
  };
  writer = loop.add_timer(Millis{1}, write);
  REQUIRE(loop.run().ok());
  CHECK(seen == written);
}

TEST_CASE("log watch: it calls without any word of the kernel, so that nothing hangs") {
  const fs::TempDir dir = scratch();
  Loop loop;
  int calls = 0;
  const LogWatch watch(loop, dir.fd(), [&] {
    if (++calls == 2) loop.stop();
  });
  REQUIRE(loop.run().ok());
  CHECK(calls == 2);
}

TEST_CASE("log watch: a name that appears or goes is told") {
  const fs::TempDir dir = scratch();
  Loop loop;
  bool is_there = false;
  LogWatch watch(loop, dir.fd(), [&] {
    is_there = ::faccessat(dir.fd(), "x", F_OK, 0) == 0;
    if (is_there) loop.stop();
  });
  const Watch maker = loop.add_timer(Millis{1}, [&] {
    const UniqueFd made(::openat(dir.fd(), "x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    CHECK(made.valid());
  });
  REQUIRE(loop.run().ok());
  CHECK(is_there);
}
