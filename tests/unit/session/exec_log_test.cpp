// Exec_log test: what is appended comes out again, through rotation, crashes and full disks.
#include "core/session/exec_log.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/session/exec_log_reader.h"

using namespace sbx;
using namespace sbx::session;

namespace {

fs::TempDir scratch() {
  Result<fs::TempDir> dir = fs::TempDir::create("/tmp", "sbx-log-");
  REQUIRE(dir.ok());
  return std::move(dir).value();
}

ExecLog log_in(const fs::TempDir& dir, LogCaps caps = {}) {
  Result<ExecLog> log = ExecLog::create(dir.fd(), 7, caps);
  REQUIRE(log.ok());
  return std::move(log).value();
}

ExecLogReader reader_of(const fs::TempDir& dir) {
  Result<ExecLogReader> reader = ExecLogReader::open(dir.fd(), 7);
  REQUIRE(reader.ok());
  return std::move(reader).value();
}

struct All {
  std::string out;
  std::string err;
  StreamBytes dropped;
  std::size_t records = 0;
  bool has_ended = false;
};

/// Everything that can be read now.
void drain(ExecLogReader& reader, All& all) {
  while (true) {
    const auto record = reader.next();
    REQUIRE(record.ok());
    if (!record.value()) return;
    ++all.records;
    all.dropped.out += record.value()->dropped.out;
    all.dropped.err += record.value()->dropped.err;
    if (record.value()->kind == LogKind::kOut) all.out += record.value()->bytes;
    if (record.value()->kind == LogKind::kErr) all.err += record.value()->bytes;
    all.has_ended = all.has_ended || record.value()->kind == LogKind::kEnd;
  }
}

All read_all(const fs::TempDir& dir) {
  ExecLogReader reader = reader_of(dir);
  All all;
  drain(reader, all);
  return all;
}

std::string every_byte() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
  }
  return bytes;
}

/// "line 000123\n", 12 bytes.
std::string line(int number) {
  std::string digits = std::to_string(number);
  return "line " + std::string(6 - digits.size(), '0') + digits + "\n";
}

void write_file(const fs::TempDir& dir, const std::string& name, const std::string& bytes) {
  const UniqueFd file(::openat(dir.fd(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  REQUIRE(file.valid());
  REQUIRE(sys::write_all(file.get(), bytes).ok());
}

std::string file_text(const fs::TempDir& dir, const std::string& name) {
  const auto text = fs::read_file_at(dir.fd(), name, Bytes{64UL << 20U});
  REQUIRE(text.ok());
  return text.value();
}

}  // namespace

TEST_CASE("exec log: both streams come out as they went in, in order, with their times") {
  const fs::TempDir dir = scratch();
  ExecLog log = log_in(dir);
  REQUIRE(log.append(Stream::kOut, "one\n", 1000).ok());
  REQUIRE(log.append(Stream::kErr, every_byte(), 2000).ok());
  REQUIRE(log.append(Stream::kOut, "", 2500).ok());
  REQUIRE(log.append(Stream::kOut, "two", 3000).ok());
  REQUIRE(log.end(4000).ok());
  ExecLogReader reader = reader_of(dir);
  auto record = reader.next();
  REQUIRE(record.value().has_value());
  CHECK(record.value()->kind == LogKind::kOut);
  CHECK(record.value()->time_ns == 1000);
  CHECK(record.value()->bytes == "one\n");
  record = reader.next();
  CHECK(record.value()->kind == LogKind::kErr);
  CHECK(record.value()->bytes == every_byte());
  record = reader.next();
  CHECK(record.value()->bytes == "two");
  CHECK(record.value()->time_ns == 3000);
  CHECK(reader.next().value()->kind == LogKind::kEnd);
  CHECK(!reader.next().value().has_value());
  CHECK(log.totals().written == 263);
  CHECK(log.totals().dropped == 0);
}

TEST_CASE("exec log: a reader that was at the end goes on when more is written") {
  const fs::TempDir dir = scratch();
  ExecLog log = log_in(dir);
  ExecLogReader reader = reader_of(dir);
  All all;
  drain(reader, all);
  CHECK(all.records == 0);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(log.append(Stream::kOut, line(i), i).ok());
    drain(reader, all);
    CHECK(all.out.size() == 12UL * static_cast<std::size_t>(i + 1));
  }
  CHECK(!all.has_ended);
  REQUIRE(log.end(1).ok());
  drain(reader, all);
  CHECK(all.has_ended);
}

TEST_CASE("exec log: rotation keeps the newest and counts the rest to the byte") {
  const fs::TempDir dir = scratch();
  ExecLog log = log_in(dir, {.file = kLeastLogFile});
  std::string out;
  for (int i = 0; i < 5000; ++i) {
    REQUIRE(log.append(i % 3 == 0 ? Stream::kErr : Stream::kOut, line(i), i).ok());
    if (i % 3 != 0) out += line(i);
    struct stat st {};
    REQUIRE(::fstatat(dir.fd(), "7.log", &st, 0) == 0);
    CHECK(st.st_size <= 4096);
  }
  const All all = read_all(dir);
  CHECK(all.out.size() + all.err.size() + all.dropped.sum() == 60000);
  CHECK(all.dropped.sum() == log.totals().dropped);
  CHECK(all.dropped.out == out.size() - all.out.size());
  CHECK(out.ends_with(all.out));
  CHECK(all.out.size() + all.err.size() > 1900);
  CHECK(log.totals().written == 60000);
  CHECK(log.totals().refused == 0);
}

TEST_CASE("exec log: a follower loses nothing when it keeps up with rotation, else it is told") {
  const fs::TempDir dir = scratch();
  ExecLog log = log_in(dir, {.file = kLeastLogFile});
  ExecLogReader keeps_up = reader_of(dir);
  ExecLogReader is_slow = reader_of(dir);
  All good;
  All slow;
  std::string out;
  for (int i = 0; i < 3000; ++i) {
    REQUIRE(log.append(Stream::kOut, line(i), i).ok());
    out += line(i);
    if (i % 50 == 0) drain(keeps_up, good);
    if (i % 1000 == 0) drain(is_slow, slow);
  }
  drain(keeps_up, good);
  drain(is_slow, slow);
  CHECK(good.out == out);
  CHECK(good.dropped.sum() == 0);
  CHECK(slow.dropped.out > 0);
  CHECK(slow.out.size() + slow.dropped.out == out.size());
  CHECK(out.ends_with(slow.out.substr(slow.out.size() - 2000)));
}

TEST_CASE("exec log: a piece larger than a record and than a file is cut and comes out whole") {
  const fs::TempDir dir = scratch();
  std::string big;
  while (big.size() < (3UL << 20U) + 17) {
    big += every_byte();
  }
  ExecLog log = log_in(dir);
  REQUIRE(log.append(Stream::kOut, big, 1).ok());
  CHECK(read_all(dir).out == big);

  const fs::TempDir other = scratch();
  ExecLog small = log_in(other, {.file = Bytes{1}});  // raised to the least
  REQUIRE(small.append(Stream::kErr, big, 1).ok());
  const All all = read_all(other);
  CHECK(big.ends_with(all.err));
  CHECK(all.err.size() + all.dropped.err == big.size());
  CHECK(all.dropped.out == 0);
}

TEST_CASE("exec log: since passes over what is older, and over what was dropped before it") {
  const fs::TempDir dir = scratch();
  ExecLog log = log_in(dir, {.file = kLeastLogFile});
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(log.append(Stream::kOut, line(i), i).ok());
  }
  ExecLogReader reader = reader_of(dir);
  reader.since(990);
  All all;
  drain(reader, all);
  CHECK(all.out == line(990) + line(991) + line(992) + line(993) + line(994) + line(995) +
                       line(996) + line(997) + line(998) + line(999));
  CHECK(all.dropped.sum() == 0);
}

TEST_CASE("exec log: a record torn anywhere by a crash is passed over, those before it are read") {
  const fs::TempDir dir = scratch();
  ExecLog log = log_in(dir);
  REQUIRE(log.append(Stream::kOut, "first\n", 1).ok());
  const std::size_t first_end = file_text(dir, "7.log").size();
  REQUIRE(log.append(Stream::kOut, "second\n", 2).ok());
  const std::string whole = file_text(dir, "7.log");
  for (std::size_t size = kLogHeader; size < whole.size(); ++size) {
    CAPTURE(size);
    write_file(dir, "7.log", whole.substr(0, size));
    CHECK(read_all(dir).out == (size < first_end ? "" : "first\n"));
  }
  // Blocks of zeros, as after a loss of power.
  write_file(dir, "7.log", whole.substr(0, first_end) + std::string(5000, '\0'));
  CHECK(read_all(dir).out == "first\n");
}

TEST_CASE("exec log: files that are no log, of a newer sbx, or of another exec are refused") {
  const fs::TempDir dir = scratch();
  CHECK(ExecLogReader::open(dir.fd(), 7).error().code() == Errc::kNotFound);
  { const ExecLog log = log_in(dir); }
  const std::string good = file_text(dir, "7.log");
  write_file(dir, "7.log", std::string(100, 'x'));
  CHECK(ExecLogReader::open(dir.fd(), 7).error().code() == Errc::kProtocol);
  std::string newer = good;
  newer[8] = 2;
  write_file(dir, "7.log", newer);
  CHECK(ExecLogReader::open(dir.fd(), 7).error().code() == Errc::kUnsupported);
  write_file(dir, "8.log", good);
  CHECK(ExecLogReader::open(dir.fd(), 8).error().code() == Errc::kProtocol);
  REQUIRE(::mkfifoat(dir.fd(), "9.log", 0600) == 0);
  CHECK(ExecLogReader::open(dir.fd(), 9).error().code() == Errc::kProtocol);
  REQUIRE(::symlinkat("/etc/passwd", dir.fd(), "10.log") == 0);
  CHECK(!ExecLogReader::open(dir.fd(), 10).ok());
}

TEST_CASE("exec log: an id is used once") {
  const fs::TempDir dir = scratch();
  const ExecLog log = log_in(dir);
  CHECK(ExecLog::create(dir.fd(), 7).error().code() == Errc::kExists);
}

TEST_CASE("exec log: what no space is left for is dropped, counted and noted, and it goes on") {
  const fs::TempDir dir = scratch();
  // RLIMIT_FSIZE stands in for the full disk: writes beyond it fail with EFBIG.
  struct rlimit old {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  ExecLog log = log_in(dir);
  REQUIRE(log.append(Stream::kOut, "before\n", 1).ok());
  const rlimit tight{.rlim_cur = 100, .rlim_max = old.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &tight) == 0);
  const Status first = log.append(Stream::kOut, std::string(1000, 'a'), 2);
  const Status second = log.append(Stream::kErr, std::string(500, 'b'), 3);
  ExecLogReader reader = reader_of(dir);
  All all;
  drain(reader, all);
  CHECK(all.out == "before\n");
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
  std::signal(SIGXFSZ, before);
  CHECK(!first.ok());
  CHECK(second.ok());  // told once
  CHECK(log.totals().refused == 1500);
  REQUIRE(log.append(Stream::kOut, "after\n", 4).ok());
  drain(reader, all);
  CHECK(all.out == "before\nafter\n");
  CHECK(all.dropped.out == 1000);
  CHECK(all.dropped.err == 500);
  CHECK(log.totals().dropped == 1500);
}

TEST_CASE("exec log: a directory that is gone does not stop the program") {
  fs::TempDir dir = scratch();
  ExecLog log = log_in(dir, {.file = kLeastLogFile});
  REQUIRE(dir.remove().ok());
  std::size_t failures = 0;
  for (int i = 0; i < 1000; ++i) {
    if (!log.append(Stream::kOut, line(i), i).ok()) ++failures;
  }
  CHECK(failures == 1);
  CHECK(log.totals().written == 12000);
  CHECK(log.totals().refused > 6000);
}

TEST_CASE("exec log: killed at any moment, a whole prefix of the output is there") {
  for (int round = 0; round < 20; ++round) {
    const fs::TempDir dir = scratch();
    const Result<sys::Pipe> ready = sys::pipe();
    REQUIRE(ready.ok());
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      Result<ExecLog> log = ExecLog::create(dir.fd(), 7, {.file = kLeastLogFile});
      for (int i = 0; i < 900000; ++i) {
        (void)log.value().append(Stream::kOut, line(i), i);
        if (i == 500 * round) (void)sys::write(ready.value().w.get(), "x");
      }
      ::_exit(0);
    }
    char byte = 0;
    CHECK(sys::read(ready.value().r.get(), &byte, 1).ok());
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    const All all = read_all(dir);
    REQUIRE(all.out.size() % 12 == 0);
    const std::size_t count = (all.out.size() + all.dropped.out) / 12;
    CHECK(count >= static_cast<std::size_t>(500 * round));
    CHECK((all.out.empty() || all.out.ends_with(line(static_cast<int>(count) - 1))));
    CHECK((all.out.empty() || all.out.starts_with(line(static_cast<int>(all.dropped.out / 12)))));
  }
}

TEST_CASE("exec log: a follower beside a writer in another process gets every byte in order") {
  const fs::TempDir dir = scratch();
  { const ExecLog made = log_in(dir); }
  REQUIRE(::unlinkat(dir.fd(), "7.log", 0) == 0);
  const Result<sys::Pipe> ready = sys::pipe();
  REQUIRE(ready.ok());
  constexpr int kLines = 100000;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Result<ExecLog> log = ExecLog::create(dir.fd(), 7, {.file = Bytes{64UL << 10U}});
    (void)sys::write(ready.value().w.get(), "x");
    for (int i = 0; i < kLines; ++i) {
      (void)log.value().append(Stream::kOut, line(i), i);
    }
    (void)log.value().end(kLines);
    ::_exit(0);
  }
  char byte = 0;
  CHECK(sys::read(ready.value().r.get(), &byte, 1).ok());
  ExecLogReader reader = reader_of(dir);
  std::size_t next = 0;  // bytes
  bool has_ended = false;
  bool is_right = true;
  while (!has_ended && is_right) {
    const auto record = reader.next();
    REQUIRE(record.ok());
    if (!record.value()) continue;
    next += record.value()->dropped.out;
    has_ended = record.value()->kind == LogKind::kEnd;
    if (record.value()->kind != LogKind::kOut) continue;
    is_right = next % 12 == 0 && record.value()->bytes == line(static_cast<int>(next / 12));
    next += record.value()->bytes.size();
  }
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(is_right);
  CHECK(next == 12UL * kLines);
}
