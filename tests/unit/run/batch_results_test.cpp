// batch_results_test: result lines, and what a killed batch left in its file.
#include "core/run/batch_results.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"

using namespace sbx;
using namespace sbx::run;

namespace {

std::string line_of(const std::string& job,
                    std::uint64_t line,
                    const std::string& cause,
                    int status,
                    const std::string& out = "") {
  return result_line({.job = job, .line = line, .digest = job_digest(job), .cause = {}},
                     R"({"schema":1,"error":{"cause":"no","exit_code":9},"cause":")" + cause +
                         R"(","exit_code":)" + std::to_string(status) + R"(,"stdout":")" + out +
                         R"("})");
}

class Place {
 public:
  Place() : dir_(std::move(fs::TempDir::create("/tmp", "sbx-results-")).value()) {}
  std::string path() const { return dir_.path() + "/r.jsonl"; }
  std::string dir() const { return dir_.path(); }
  void write(const std::string& text) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << text;
  }
  std::string read() const {
    std::ostringstream all;
    all << std::ifstream(path(), std::ios::binary).rdbuf();
    return all.str();
  }
  Result<EarlierResults> recover() const {
    SBX_ASSIGN(ResultFile file, ResultFile::open(path(), ResultFile::Mode::kResume));
    return file.recover();
  }

 private:
  fs::TempDir dir_;
};

}  // namespace

TEST_CASE("batch results: a line begins with its job and can be read back") {
  const std::string line = line_of("a\"\n\xc3\xa9", 7, "exited", 3, std::string(200'000, 'x'));
  CHECK(line.starts_with(R"({"job":"a\"\n)"));
  CHECK(line.ends_with("\"}\n"));
  CHECK(line.find('\n') == line.size() - 1);
  auto head = parse_result_head(std::string_view(line).substr(0, 1000));
  REQUIRE(head.ok());
  CHECK(head.value().job == "a\"\n\xc3\xa9");
  CHECK(head.value().line == 7);
  CHECK(head.value().cause == "exited");
  CHECK(head.value().exit_status == 3);
  CHECK(head.value().digest == job_digest("a\"\n\xc3\xa9"));
}

TEST_CASE("batch results: what is no result is not taken for one") {
  for (const char* text : {"",
                           "{}",
                           "[]",
                           "null",
                           "x",
                           R"({"job":"a"})",
                           R"j({"id":"a","code":"print(1)"})j",
                           R"({"x":{"job":"a","line":1,"job_digest":"0123456789abcdef",)"
                           R"("cause":"exited","exit_code":0}})"}) {
    CHECK_MESSAGE(!parse_result_head(text).ok(), text);
  }
}

TEST_CASE("batch results: a torn last line is cut off wherever it was torn") {
  const Place place;
  const std::string whole = line_of("a", 1, "exited", 0) + line_of("b", 2, "exited", 1);
  const std::string last = line_of("c", 3, "exited", 0);
  for (std::size_t size = 1; size < last.size(); ++size) {
    place.write(whole + last.substr(0, size));
    auto found = place.recover();
    REQUIRE(found.ok());
    CHECK(found.value().was_torn);
    CHECK(found.value().jobs.size() == 2);
    CHECK(found.value().jobs.find("c") == nullptr);
    REQUIRE(place.read() == whole);
  }
  place.write(whole + last);
  auto found = place.recover();
  REQUIRE(found.ok());
  CHECK(!found.value().was_torn);
  CHECK(found.value().jobs.size() == 3);
  CHECK(found.value().counts.ok == 2);
  CHECK(found.value().counts.failed == 1);
  CHECK(found.value().counts.earlier == 3);
}

TEST_CASE("batch results: lines of interrupted jobs are taken out, big ones around them stay") {
  const Place place;
  const std::string a = line_of("a", 1, "exited", 0, std::string(3'000'000, 'a'));
  const std::string b = line_of("b", 2, "interrupted", 130);
  const std::string c = line_of("c", 3, "timeout", 124, std::string(2'000'000, 'c'));
  const std::string d = line_of("d", 4, "interrupted", 130, std::string(1'500'000, 'd'));
  const std::string e = line_of("e", 5, "exited", 0);
  for (const std::string& end : {std::string(), e}) {
    place.write(a + b + c + d + end + "{\"jo");
    ::chmod(place.path().c_str(), 0640);
    std::ofstream(place.path() + ".sbx-new") << "left by a kill";
    auto found = place.recover();
    REQUIRE(found.ok());
    CHECK(found.value().dropped == 2);
    CHECK(found.value().jobs.find("b") == nullptr);
    CHECK(found.value().jobs.find("c") != nullptr);
    CHECK(place.read() == a + c + end);
    struct stat info {};
    REQUIRE(::stat(place.path().c_str(), &info) == 0);
    CHECK((info.st_mode & 0777U) == 0640);
    CHECK(::access((place.path() + ".sbx-new").c_str(), F_OK) != 0);
  }
}

TEST_CASE("batch results: a file of somebody else is refused and stays as it is") {
  const Place place;
  const std::string good = line_of("a", 1, "exited", 0);
  for (const std::string& text : {std::string("{\"code\":\"print(1)\"}\n"),
                                  std::string("no newline"),
                                  good + "\n",
                                  good + good,
                                  good + std::string(100, '\0') + "\n",
                                  good + "rubbish"}) {
    place.write(text);
    auto found = place.recover();
    REQUIRE(!found.ok());
    CHECK(found.error().code() == Errc::kUsage);
    CHECK(found.error().message().find(" line ") != std::string::npos);
    CHECK(place.read() == text);
  }
}

TEST_CASE("batch results: a new file must be new, and two batches do not share one") {
  const Place place;
  auto first = ResultFile::open(place.path(), ResultFile::Mode::kNew);
  REQUIRE(first.ok());
  auto second = ResultFile::open(place.path(), ResultFile::Mode::kResume);
  REQUIRE(!second.ok());
  CHECK(second.error().message().find("in use by another batch") != std::string::npos);
  REQUIRE(first.value().append("x\n").ok());
  first = ResultFile::open(place.dir() + "/other", ResultFile::Mode::kNew);
  REQUIRE(first.ok());
  auto again = ResultFile::open(place.path(), ResultFile::Mode::kNew);
  REQUIRE(!again.ok());
  CHECK(again.error().hint().find("--resume") != std::string::npos);
}

TEST_CASE("batch results: a FIFO, where a write could wait for ever, is refused") {
  const fs::TempDir dir = fs::TempDir::create("/tmp", "sbx-unit-results-").value();
  const std::string path = dir.path() + "/fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const auto opened = run::ResultFile::open(path, run::ResultFile::Mode::kNew);
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().code() == Errc::kUsage);
  CHECK(opened.error().hint().find("standard output") != std::string::npos);
}

TEST_CASE("batch results: a device takes lines and cannot be gone on with") {
  auto null = ResultFile::open("/dev/null", ResultFile::Mode::kNew);
  REQUIRE(null.ok());
  CHECK(null.value().append("x\n").ok());
  CHECK(null.value().sync().ok());
  CHECK(!ResultFile::open("/dev/null", ResultFile::Mode::kResume).ok());
  auto full = ResultFile::open("/dev/full", ResultFile::Mode::kNew);
  REQUIRE(full.ok());
  CHECK(!full.value().append("x\n").ok());
}

TEST_CASE("job set: an id is there once, whatever it is made of") {
  JobSet set;
  for (int i = 0; i < 10'000; ++i) {
    REQUIRE(set.add(std::to_string(i), {.line = static_cast<std::uint64_t>(i)}));
  }
  Finished known;
  CHECK(!set.add("77", {.line = 1}, &known));
  CHECK(known.line == 77);
  CHECK(set.find("10000") == nullptr);
  CHECK(set.size() == 10'000);
}
