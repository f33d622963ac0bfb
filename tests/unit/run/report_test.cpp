// report_test: the result object, field by field.
#include "core/run/report.h"

#include <string>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace sbx::run {

namespace {

using Json = nlohmann::json;

Report sample() {
  Report report;
  report.id = "abc";
  report.profile = "python";
  report.isolation = "jail";
  report.isolation_reason = "asked for";
  report.out = {.data = "x\n", .bytes = 2};
  report.phases = {.setup_s = 0.0123456789, .run_s = 1.5, .collect_s = 0};
  report.has_usage = true;
  report.usage.cpu_ns = 1'500'000'000;
  report.usage.max_memory = 4096;
  report.limits.push_back({.limit = "memory", .value = "64M", .mechanism = "cgroup v2"});
  return report;
}

}  // namespace

TEST_CASE("report: a plain success has every field, in the documented order") {
  const std::string text = to_json(sample());
  CHECK(
      text ==
      R"({"schema":1,"id":"abc","profile":"python","isolation":"jail",)"
      R"("isolation_reason":"asked for","cause":"exited","exit_code":0,"signal":null,)"
      R"("retryable":false,"error":null,"compile":null,"stdout":"x\n","stderr":"","stdout_bytes":2,)"
      R"("stderr_bytes":0,"truncated":false,"encoding":"utf-8","artifacts":[],)"
      R"("usage":{"wall_s":1.5,"cpu_s":1.5,"max_memory_bytes":4096,"read_bytes":null,)"
      R"("write_bytes":null},"phases":{"setup_s":0.012346,"run_s":1.5,"collect_s":0.0},)"
      R"("limits_in_force":{"memory":{"value":"64M","mechanism":"cgroup v2"}},"denied":[]})");
}

TEST_CASE("report: what became of the compiler has its own object, bounded and byte-exact") {
  Report report = sample();
  report.compile = Compile{.command = "gcc",
                           .exit_status = 1,
                           .output = {.data = "a.c:1", .bytes = 9, .truncated = true},
                           .wall_s = 0.25};
  Json json = Json::parse(to_json(report));
  CHECK(json["compile"].dump() ==
        R"({"command":"gcc","encoding":"utf-8","exit_code":1,"output":"a.c:1","output_bytes":9,)"
        R"("truncated":true,"wall_s":0.25})");
  json = Json::parse(to_status_json(report));
  CHECK(json["compile"]["exit_code"] == 1);
  CHECK_FALSE(json["compile"].contains("output"));
  report.compile->output = {.data = "\xff", .bytes = 1};
  report.compile->exit_status.reset();
  json = Json::parse(to_json(report));
  CHECK(json["compile"]["output"] == "/w==");
  CHECK(json["compile"]["encoding"] == "base64");
  CHECK(json["compile"]["exit_code"].is_null());
}

TEST_CASE("report: output that is no UTF-8 comes as base64, both streams alike") {
  Report report = sample();
  report.out = {.data = std::string("\xff\x00\xfe", 3), .bytes = 3};
  report.err = {.data = "text", .bytes = 4};
  const Json json = Json::parse(to_json(report));
  CHECK(json["encoding"] == "base64");
  CHECK(json["stdout"] == "/wD+");
  CHECK(json["stderr"] == "dGV4dA==");
}

TEST_CASE("report: a character cut by the limit does not turn text into base64") {
  Report report = sample();
  report.out = {.data = "ab\xf0\x9f\x98", .bytes = 100, .truncated = true};
  Json json = Json::parse(to_json(report));
  CHECK(json["encoding"] == "utf-8");
  CHECK(json["stdout"] == "ab");
  CHECK(json["stdout_bytes"] == 100);
  CHECK(json["truncated"] == true);
  report.out.truncated = false;  // the program itself wrote half a character
  json = Json::parse(to_json(report));
  CHECK(json["encoding"] == "base64");
}

TEST_CASE("report: control characters and quotes survive") {
  Report report = sample();
  std::string all;
  for (int c = 0; c < 128; ++c) {
    all.push_back(static_cast<char>(c));
  }
  report.out = {.data = all, .bytes = all.size()};
  CHECK(Json::parse(to_json(report))["stdout"] == all);
}

TEST_CASE("report: a failure, a signal and a limit are named") {
  Report report = sample();
  report.outcome.cause = supervise::Cause::kOom;
  report.outcome.signal = 9;
  report.outcome.limit_hit = "memory";
  report.exit_status = 137;
  report.failure = Failure{.code = "memory_limit", .message = "bad\xff", .fix = "-m"};
  const Json json = Json::parse(to_json(report));
  CHECK(json["cause"] == "oom");
  CHECK(json["exit_code"] == 137);
  CHECK(json["signal"] == "KILL");
  CHECK(json["limit_hit"] == "memory");
  CHECK(json["error"]["code"] == "memory_limit");
  CHECK(json["error"]["message"] == "bad\\xff");
  CHECK(json["error"]["fix"] == "-m");
}

TEST_CASE("report: artifacts of each kind; directories are not listed") {
  Report report = sample();
  Artifact file;
  file.path = "a.txt";
  file.bytes = 3;
  file.sha256 = "00";
  file.mime = "text/plain";
  Artifact dir;
  dir.path = "d";
  dir.type = ArtifactType::kDirectory;
  Artifact link;
  link.path = "l\xff";
  link.type = ArtifactType::kSymlink;
  link.link = "/etc/passwd";
  Artifact big;
  big.path = "big";
  big.bytes = 5;
  big.skipped = "larger than 1K";
  report.artifacts = {file, dir, link, big};
  const Json json = Json::parse(to_json(report))["artifacts"];
  REQUIRE(json.size() == 3);
  CHECK(json[0] == Json{{"path", "a.txt"}, {"bytes", 3}, {"sha256", "00"}, {"mime", "text/plain"}});
  CHECK(json[1] == Json{{"path", "l\\xff"},
                        {"path_base64", "bP8="},
                        {"type", "symlink"},
                        {"target", "/etc/passwd"}});
  CHECK(json[2] == Json{{"path", "big"}, {"bytes", 5}, {"skipped", "larger than 1K"}});
}

TEST_CASE("report: the status line is the same without output and artifacts") {
  Report report = sample();
  report.out.data = "secret";
  const std::string text = to_status_json(report);
  const Json json = Json::parse(text);
  CHECK(json["cause"] == "exited");
  CHECK_FALSE(json.contains("stdout"));
  CHECK_FALSE(json.contains("artifacts"));
  CHECK(text.find('\n') == std::string::npos);
}

TEST_CASE("report: nothing ran: usage is null") {
  Report report;
  report.outcome.cause = supervise::Cause::kUsage;
  report.exit_status = 2;
  const Json json = Json::parse(to_json(report));
  CHECK(json["usage"].is_null());
  CHECK(json["cause"] == "usage");
}

}  // namespace sbx::run
