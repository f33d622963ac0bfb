// Log_json test: every byte of both streams comes out of the JSON again.
#include "core/session/log_json.h"

#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace sbx;
using namespace sbx::session;
using Json = nlohmann::json;

namespace {

LogRecord piece(LogKind kind, std::string_view bytes, std::int64_t time_ns = 0) {
  return {.kind = kind, .time_ns = time_ns, .bytes = bytes, .dropped = {}};
}

std::vector<Json> parsed(const std::string& lines) {
  std::vector<Json> all;
  std::istringstream in(lines);
  std::string line;
  while (std::getline(in, line)) {
    all.push_back(Json::parse(line));
  }
  return all;
}

}  // namespace

TEST_CASE("log json: text is text, other bytes are base64, each with time, exec and stream") {
  LogJson json(7);
  const auto lines = parsed(json.add(piece(LogKind::kOut, "h\xc3\xa9\n\x1b\x00", 1000000)) +
                            json.add(piece(LogKind::kErr, "\xff\xfe\n", 2000000)) + json.finish());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] ==
        Json::parse(
            R"({"time":"1970-01-01T00:00:00.001Z","exec":7,"stream":"out","text":"hé\n\u001b"})"));
  CHECK(lines[1] ==
        Json::parse(
            R"({"time":"1970-01-01T00:00:00.002Z","exec":7,"stream":"err","base64":"//4K"})"));
}

TEST_CASE("log json: a character written in pieces stays whole, on each stream by itself") {
  const std::string four = "\xf0\x9f\x98\x80";
  for (std::size_t cut = 1; cut < four.size(); ++cut) {
    LogJson json(1);
    std::string all = json.add(piece(LogKind::kOut, "a" + four.substr(0, cut)));
    all += json.add(piece(LogKind::kErr, "e"));
    all += json.add(piece(LogKind::kOut, four.substr(cut) + "b"));
    all += json.finish();
    const auto lines = parsed(all);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0]["text"] == "a");
    CHECK(lines[1]["text"] == "e");
    CHECK(lines[2]["text"] == four + "b");
  }
}

TEST_CASE("log json: byte by byte nothing is lost, and an unfinished character comes at the end") {
  LogJson json(1);
  const std::string text = "x\xe2\x82\xac\xc3";
  std::string all;
  for (const char c : text) {
    all += json.add(piece(LogKind::kOut, {&c, 1}));
  }
  const auto before = parsed(all);
  REQUIRE(before.size() == 2);
  CHECK(before[1]["text"] == "\xe2\x82\xac");
  const auto end = parsed(json.add(piece(LogKind::kEnd, "")));
  REQUIRE(end.size() == 1);
  CHECK(end[0]["base64"] == "ww==");
  CHECK(json.finish().empty());
}

TEST_CASE("log json: continuation bytes without a beginning are not waited for") {
  LogJson json(1);
  for (const std::string bytes : {"\x80", "\x80\x80\x80\x80", "\xc0", "\xf8", "a\xc1"}) {
    CHECK(!json.add(piece(LogKind::kOut, bytes)).empty());
  }
}

TEST_CASE("log json: what is not kept has its counts, and ends what waited") {
  LogJson json(3);
  CHECK(json.add(piece(LogKind::kOut, "\xe2")).empty());
  LogRecord dropped{.kind = LogKind::kDropped, .time_ns = 0, .bytes = {}, .dropped = {10, 20}};
  const auto lines = parsed(json.add(dropped));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["base64"] == "4g==");
  CHECK(lines[1] == Json::parse(R"({"exec":3,"stream":"dropped","out_bytes":10,"err_bytes":20})"));
}
