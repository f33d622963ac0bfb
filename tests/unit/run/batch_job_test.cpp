// batch_job_test: one line of a job list: every field, and what is wrong with it in words.
#include "core/run/batch_job.h"

#include <array>
#include <string>

#include <doctest/doctest.h>

using namespace sbx;
using namespace sbx::run;

namespace {

constexpr std::array<KeyField, 3> kKeys = {
    {{"memory", "limits.memory"}, {"timeout", "limits.timeout"}, {"pids", "limits.pids"}}};

BatchJob good(std::string_view line) {
  auto job = parse_batch_job(line, kKeys);
  REQUIRE_MESSAGE(job.ok(), job.error().to_string());
  return std::move(job).value();
}

std::string bad(std::string_view line) {
  auto job = parse_batch_job(line, kKeys);
  REQUIRE_MESSAGE(!job.ok(), line);
  CHECK(job.error().code() == Errc::kUsage);
  return job.error().to_string();
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("batch job: a code, a file and a command are told apart") {
  BatchJob code = good(R"j({"code":"print(1)","args":["a","b"]})j");
  CHECK(code.program.kind == ProgramKind::kCode);
  CHECK(code.program.text == "print(1)");
  CHECK(code.program.args == std::vector<std::string>{"a", "b"});
  BatchJob file = good(R"({"id":"x","file":"a.py"})");
  CHECK(file.id == "x");
  CHECK(file.program.kind == ProgramKind::kFile);
  CHECK(file.program.text == "a.py");
  BatchJob command = good(R"({"command":["ls","-l",""]})");
  CHECK(command.program.kind == ProgramKind::kCommand);
  CHECK(command.program.args == std::vector<std::string>{"ls", "-l", ""});
}

TEST_CASE("batch job: every field arrives where the flag of its name would put it") {
  BatchJob job = good(R"({"id":7,"profile":"bash","code":"x","stdin":"a\u0000b","in":["f=g","h"],
    "out":"o","require":"*.png","mount":["/a:/b"],"env":{"A":"1"},"set":{"limits.pids":9,"nesting":true},
    "allow-outside":true,"memory":"1G","pids":5,"timeout":"3s"})");
  CHECK(job.id == "7");
  CHECK(job.profile == "bash");
  CHECK(job.input == std::string("a\0b", 3));
  CHECK(job.inputs == std::vector<std::string>{"f=g", "h"});
  CHECK(job.out == "o");
  CHECK(job.require == std::vector<std::string>{"*.png"});
  CHECK(job.allow_outside);
  std::string all;
  for (const profile::Override& one : job.overrides) {
    all += one.key + "=" + one.value + (one.mode == profile::Override::Mode::kAdd ? "+ " : " ");
  }
  // --set first, so that a field of its own wins over it.
  CHECK(all ==
        "limits.pids=9 nesting=true limits.memory=1G limits.pids=5 limits.timeout=3s env.A=1 "
        "mounts=/a:/b+ ");
}

TEST_CASE("batch job: env and set can be arrays, and a name alone passes a variable on") {
  BatchJob job = good(R"({"code":"x","env":["A=1=2","B"],"set":["workdir=/tmp"]})");
  REQUIRE(job.overrides.size() == 3);
  CHECK(job.overrides[0].key == "workdir");
  CHECK(job.overrides[1].key == "env_pass");
  CHECK(job.overrides[1].value == "B");
  CHECK(job.overrides[2].key == "env.A");
  CHECK(job.overrides[2].value == "1=2");
}

TEST_CASE("batch job: a mistake is said in words, with what was meant") {
  struct Row {
    std::string_view line;
    std::string_view says;
  };
  const std::array<Row, 26> rows = {{
      {"", "no valid JSON"},
      {"{", "no valid JSON"},
      {"{\"code\":\"x\"} {}", "no valid JSON"},
      {"[1]", "not an array"},
      {"\"x\"", "not a string"},
      {"null", "not null"},
      {R"({"code":"x","memroy":"1G"})", R"(did you mean "memory"?)"},
      {R"({"code":"x","tty":true})", R"(unknown field "tty")"},
      {R"({"code":"x","code":"y"})", R"("code" is given twice)"},
      {R"({"code":"x","env":{"A":"1","A":"2"}})", R"("env" has "A" twice)"},
      {R"({"code":1})", R"("code" is a string, not a number)"},
      {R"({"code":null})", R"("code" is a string, not null)"},
      {R"({"code":["x"]})", R"("code" is a string, not an array)"},
      {R"({"command":"ls -l"})", R"("command" is an array of strings, not a string)"},
      {R"({"command":[1]})", R"("command" is an array of strings, not with a number)"},
      {R"({"command":[["a"]]})", R"(not with an array)"},
      {R"({"command":[]})", "names no program"},
      {R"({"code":"x","stdin":true})", R"("stdin" is a string)"},
      {R"({"code":"x","allow-outside":"yes"})", R"("allow-outside" is true or false)"},
      {R"({"code":"x","env":{"A":1}})", R"("env" is an object of strings)"},
      {R"({"code":"x","set":["a"]})", "is not NAME=VALUE"},
      {R"({"id":"a"})", "nothing to run"},
      {R"({"code":"x","file":"y"})", "more than one of"},
      {R"({"command":["x"],"args":["y"]})", "do not go together"},
      {R"({"file":"a\u0000b"})", "NUL"},
      {R"({"code":"x","id":""})", "1 to 200 bytes"},
  }};
  for (const Row& row : rows) {
    const std::string said = bad(row.line);
    CHECK_MESSAGE(has(said, row.says), row.line, ": ", said);
  }
}

TEST_CASE("batch job: bytes that are no UTF-8, NUL bytes and deep nests are errors with a column") {
  CHECK(has(bad("{\"code\":\"\xff\"}"), "column 10"));
  CHECK(has(bad(std::string_view("{\"code\":\"a\0\"}", 12)), "column 11: a NUL byte"));
  CHECK(has(bad("{\"code\":\"\\ud800\"}"), "no valid JSON"));
  CHECK(has(bad("{\"code\":" + std::string(100'000, '[')), "not an array"));
}

TEST_CASE("batch job: its own words win over the defaults, lists are added to") {
  Options defaults;
  defaults.profile = "python";
  defaults.inputs = {"common"};
  defaults.overrides = {{"limits.memory", "1G", "--memory"}};
  const Options options =
      batch_options(defaults, good(R"({"profile":"bash","code":"x","memory":"2G","in":"own"})"));
  CHECK(options.profile == "bash");
  CHECK(options.inputs == std::vector<std::string>{"common", "own"});
  REQUIRE(options.overrides.size() == 2);
  CHECK(options.overrides.back().value == "2G");
  CHECK(options.capture);
}
