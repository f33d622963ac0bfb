// Tests of the records of sessions: what is written is read back, newer and torn ones are refused.
#include "core/session/record.h"

#include <doctest/doctest.h>

#include "core/base/text.h"

using namespace sbx;
using namespace sbx::session;

namespace {

Record example() {
  Record record;
  record.name = "web";
  record.id = "abcdefghij";
  record.created_ns = 1'700'000'000'000'000'000;
  record.profile = "agent";
  record.saved_profile = R"({"name":"agent"})";
  record.isolation = "jail";
  record.isolation_reason = "asked for";
  record.labels = {{"task", "42"}, {"owner", "me"}};
  record.lowers = {"base-00ff", "aaaaaaaaaa"};
  record.upper = "bbbbbbbbbb";
  record.checkpoints = {{"c1", 5, {"base-00ff", "aaaaaaaaaa"}, false, "stacked", 0, ""},
                        {"auto1", 6, {"base-00ff", "cccccccccc"}, true, "copied", 77, ""}};
  record.forked_from = "other";
  return record;
}

}  // namespace

TEST_CASE("session record: everything that is written is read back") {
  const Record before = example();
  const auto after = parse_record(to_json(before));
  REQUIRE(after.ok());
  CHECK(to_json(after.value()) == to_json(before));
  CHECK(after.value().labels == before.labels);
  REQUIRE(after.value().find_checkpoint("auto1") != nullptr);
  CHECK(after.value().find_checkpoint("auto1")->is_automatic);
  CHECK(after.value().find_checkpoint("auto1")->pause_ns == 77);
  CHECK(after.value().find_checkpoint("none") == nullptr);
}

TEST_CASE(
    "session record: a disk is read back, one outside of the session's directory is refused") {
  Record before = example();
  CHECK(to_json(before).find("disk") == std::string::npos);
  before.isolation = "vm";
  before.lowers.clear();
  before.upper.clear();
  before.disk = Disk{"disk-ab12", Bytes{std::uint64_t{16} << 30U}};
  before.checkpoints = {{"c1", 5, {}, false, "copied", 0, "disk-cd34"}};
  const auto after = parse_record(to_json(before));
  REQUIRE(after.ok());
  REQUIRE(after.value().disk.has_value());
  CHECK(after.value().disk->file == "disk-ab12");
  CHECK(after.value().disk->size.v == before.disk->size.v);
  CHECK(after.value().checkpoints.at(0).disk == "disk-cd34");
  CHECK(to_json(after.value()) == to_json(before));
  CHECK(to_json(before).find("\"format\":2") != std::string::npos);
  for (const std::string_view file : {"disk-ab12", "disk-cd34"}) {
    for (const std::string_view other : {"", "../disk", "record.json", "disk/../x", "disk\\n"}) {
      std::string text = to_json(before);
      text.replace(text.find(file), file.size(), other);
      CHECK(!parse_record(text).ok());
    }
  }
  std::string empty = to_json(before);
  empty.replace(empty.find("17179869184"), 11, "0");
  CHECK(!parse_record(empty).ok());
}

TEST_CASE("session record: what it is made of is read back, and older versions refuse it") {
  Record before = example();
  before.lowers = {"img-aa", "img-bb", "base-00ff", "aaaaaaaaaa"};
  before.image = {R"({"name":"debian"})", 33, 44, {5, 65534}, "/root"};
  const auto after = parse_record(to_json(before));
  REQUIRE(after.ok());
  REQUIRE(after.value().image.has_value());
  CHECK(after.value().image->record == before.image->record);
  CHECK(after.value().image->uid == 33);
  CHECK(after.value().image->gid == 44);
  CHECK(after.value().image->groups == before.image->groups);
  CHECK(to_json(before).find("\"format\":2") != std::string::npos);
  for (const std::string_view part : {"33", "[5,65534]", "44"}) {
    std::string text = to_json(before);
    text.replace(text.find(part), part.size(), "-1");
    CHECK(!parse_record(text).ok());
  }
}

TEST_CASE("session record: layers of the image are those below the base") {
  CHECK(base_index({"img-aa", "img-bb", "base-00ff", "aaaaaaaaaa"}) == 2);
  CHECK(base_index({"base-00ff", "aaaaaaaaaa"}) == 0);
  CHECK(base_index({"img-aa"}) == 1);
  CHECK(base_index({}) == 0);
}

TEST_CASE("session record: a newer format is refused with what to do") {
  std::string text = to_json(example());
  text.replace(text.find("\"format\":1"), 10, "\"format\":3");
  const auto record = parse_record(text);
  REQUIRE(!record.ok());
  CHECK(record.error().code() == Errc::kUnsupported);
  CHECK(record.error().hint().find("use that sbx") != std::string::npos);
}

TEST_CASE("session record: a text cut anywhere is no record") {
  const std::string text = to_json(example());
  for (std::size_t size = 0; size + 2 < text.size(); ++size) {
    CHECK(!parse_record(std::string_view(text).substr(0, size)).ok());
  }
}

TEST_CASE("session record: a part that is missing or of another kind spoils it") {
  for (const std::string_view part :
       {R"("name":"web")", R"("upper":"bbbbbbbbbb")", R"("checkpoints":[)"}) {
    std::string text = to_json(example());
    const std::size_t at = text.find(part);
    REQUIRE(at != std::string::npos);
    text[at + 1] = 'X';
    CHECK(!parse_record(text).ok());
  }
}

TEST_CASE("session record: its layers are those of all checkpoints, each once") {
  const std::vector<std::string> layers = layers_of(example());
  CHECK(layers == std::vector<std::string>{"aaaaaaaaaa", "base-00ff", "bbbbbbbbbb", "cccccccccc"});
}

TEST_CASE("session names: letters, digits, dot, underscore and dash, not more than 64") {
  for (const std::string_view good : {"a", "web", "run", "a.b-c_d", "9", "logs"}) {
    CHECK(check_name(good).ok());
  }
  for (const std::string_view bad :
       {"", ".", "..", ".hidden", "-x", "a/b", "a b", "a\n", "\xff", "a:b", "é"}) {
    CHECK(!check_name(bad).ok());
  }
  CHECK(check_name(std::string(64, 'a')).ok());
  CHECK(!check_name(std::string(65, 'a')).ok());
}

TEST_CASE("session labels: KEY=VALUE, where the value may be anything") {
  const auto label = parse_label("a/b=x=y");
  REQUIRE(label.ok());
  CHECK(label.value() == std::pair<std::string, std::string>("a/b", "x=y"));
  CHECK(parse_label("a=").ok());
  CHECK(!parse_label("=x").ok());
  CHECK(!parse_label("novalue").ok());
  CHECK(!parse_label("a=\xff").ok());
}

TEST_CASE("session run file: states are read back, rubbish is refused") {
  for (const RunState state : {RunState::kNever, RunState::kRunning, RunState::kStopped}) {
    const auto file = parse_run_file(to_json(RunFile{state, 1, 2, "why"}));
    REQUIRE(file.ok());
    CHECK(file.value().state == state);
    CHECK(file.value().reason == "why");
  }
  CHECK(!parse_run_file("").ok());
  CHECK(!parse_run_file(R"({"format":1,"state":"odd"})").ok());
}
