// Tests of the records of images: what is written is read back, newer, torn and oversized ones are
// refused; names and identities.
#include "core/image/record.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sbx;
using namespace sbx::image;

namespace {

Record example() {
  Record record;
  record.name = "team/tools:2";
  record.created_ns = 1'700'000'000'000'000'000;
  record.source = "import tools.tar";
  record.architecture = "amd64";
  record.config.entrypoint = {"/bin/tool", "-x"};
  record.config.cmd = {"serve"};
  record.config.env = {"PATH=/bin", "A=b=c", "EMPTY="};
  record.config.user = "web:www";
  record.config.workdir = "/srv";
  record.config.volumes = {"/data"};
  record.config.exposed_ports = {"80/tcp"};
  record.config.labels = {{"a", "1"}, {"b", "\xc3\xa4\n"}};
  record.config.stop_signal = "SIGQUIT";
  record.layers = {{"img-0123456789abcdef01234567", "sha256:00", 77},
                   {"img-0123456789abcdef01234568", "", std::uint64_t{1} << 40U}};
  record.id = identity(record);
  return record;
}

}  // namespace

TEST_CASE("image record: everything that is written is read back") {
  const Record before = example();
  const auto after = parse_record(to_json(before));
  REQUIRE(after.ok());
  CHECK(to_json(after.value()) == to_json(before));
  CHECK(after.value().config.labels == before.config.labels);
  CHECK(after.value().config.env == before.config.env);
  CHECK(after.value().layers[1].bytes == before.layers[1].bytes);
  CHECK(identity(after.value()) == before.id);
}

TEST_CASE("image record: a newer format is refused with what to do") {
  std::string text = to_json(example());
  text.replace(text.find("\"format\":1"), 10, "\"format\":2");
  const auto record = parse_record(text);
  REQUIRE(!record.ok());
  CHECK(record.error().code() == Errc::kUnsupported);
  CHECK(record.error().hint().find("use that sbx") != std::string::npos);
}

TEST_CASE("image record: a text cut anywhere is no record") {
  const std::string text = to_json(example());
  for (std::size_t size = 0; size + 2 < text.size(); ++size) {
    CHECK(!parse_record(std::string_view(text).substr(0, size)).ok());
  }
}

TEST_CASE("image record: a part that is missing or of another kind spoils it") {
  for (const std::string_view part : {"\"config\"",
                                      "\"layers\"",
                                      "\"os\"",
                                      "\"diff_id\"",
                                      "\"bytes\"",
                                      "\"entrypoint\"",
                                      "\"workdir\""}) {
    CAPTURE(part);
    std::string text = to_json(example());
    const std::size_t at = text.find(part);
    REQUIRE(at != std::string::npos);
    text[at + 1] = 'X';
    CHECK(!parse_record(text).ok());
  }
  std::string text = to_json(example());
  text.replace(text.find("\"bytes\":77"), 10, "\"bytes\":7.5");
  CHECK(!parse_record(text).ok());
}

TEST_CASE("image record: more text or layers than an image can have are refused") {
  Record many = example();
  many.layers.resize(kMostLayers, many.layers[0]);
  CHECK(parse_record(to_json(many)).ok());
  many.layers.push_back(many.layers[0]);
  CHECK(!parse_record(to_json(many)).ok());

  Record longest = example();
  longest.config.env.emplace_back(kLongestRecord.v, 'x');
  const auto read = parse_record(to_json(longest));
  REQUIRE(!read.ok());
  CHECK(read.error().code() == Errc::kLimit);
}

TEST_CASE("image record: deep nesting is refused, not followed") {
  const std::string deep(1'000'000, '[');
  CHECK(!parse_record(deep).ok());
  CHECK(!parse_record(R"({"format":1,"config":)" + deep).ok());
}

TEST_CASE("image record: the identity is that of layers and settings, not of the name") {
  const Record record = example();
  Record other = record;
  other.name = "another";
  other.created_ns = 5;
  other.source = "pull";
  CHECK(identity(other) == record.id);
  CHECK(record.id.size() == 7 + 64);

  other = record;
  other.config.env.push_back("X=1");
  CHECK(identity(other) != record.id);
  other = record;
  std::swap(other.layers[0], other.layers[1]);
  CHECK(identity(other) != record.id);
  // A border between two lists is part of it.
  other = record;
  other.config.cmd.insert(other.config.cmd.begin(), other.config.entrypoint.back());
  other.config.entrypoint.pop_back();
  CHECK(identity(other) != record.id);
}

TEST_CASE("image names: letters, digits and . _ / : @ + -, not more than 200 with '/' as three") {
  for (const std::string_view good :
       {"a", "debian:12", "host.example:5000/team/tools@sha256:00", "9", "a+b", "a-"}) {
    CAPTURE(good);
    CHECK(check_name(good).ok());
  }
  for (const std::string_view bad :
       {"", ".", "..", "-a", "/a", "a b", "a%2Fb", "a\n", "\xc3\xa4"}) {
    CAPTURE(bad);
    const Status status = check_name(bad);
    REQUIRE(!status.ok());
    CHECK(status.error().code() == Errc::kUsage);
    CHECK(!status.error().hint().empty());
  }
  CHECK(check_name(std::string(200, 'a')).ok());
  CHECK(!check_name(std::string(201, 'a')).ok());
  std::string deep = "a";
  while (deep.size() < 131)
    deep += "/a";
  CHECK(!check_name(deep).ok());
}

TEST_CASE("image record: this machine has a platform with a name") {
  CHECK(host_architecture() != "unknown");
}
