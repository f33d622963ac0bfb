// look test: processes and figures survive the control socket, whatever bytes programs put in them.
#include "core/session/look.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace sbx::session {

namespace {

backend::ProcessInfo hostile() {
  backend::ProcessInfo out;
  out.pid = 7;
  out.host_pid = 4711;
  out.parent = 1;
  out.session = 6;
  out.uid = 65534;
  out.state = 'T';
  out.exec_id = 3;
  out.memory = 1ULL << 40U;
  out.cpu_ns = 123'456'789'012;
  out.started_ns = 987'654'321;
  out.name = "a b\n 1 2";
  out.command = "x \x1b[2J\xff\n 0 0 0";
  return out;
}

Fields over_the_wire(const Fields& fields) {
  constexpr std::size_t kLength = 4;
  const auto again = decode_frame(std::string_view(encode_frame(fields)).substr(kLength));
  REQUIRE(again.ok());
  return again.value();
}

}  // namespace

TEST_CASE("look: a process with hostile texts comes out as it went in") {
  backend::ProcessInfo plain;
  plain.pid = 2;
  const std::vector<backend::ProcessInfo> sent{plain, hostile()};
  const auto got = parse_processes(over_the_wire(processes_frame(sent)));
  REQUIRE(got.ok());
  REQUIRE(got.value().size() == 2);
  CHECK(got.value()[0].pid == 2);
  CHECK_FALSE(got.value()[0].exec_id.has_value());
  CHECK(got.value()[0].command.empty());
  const backend::ProcessInfo& it = got.value()[1];
  const backend::ProcessInfo was = hostile();
  CHECK(it.pid == was.pid);
  CHECK(it.host_pid == was.host_pid);
  CHECK(it.parent == was.parent);
  CHECK(it.session == was.session);
  CHECK(it.uid == was.uid);
  CHECK(it.state == was.state);
  CHECK(it.exec_id == was.exec_id);
  CHECK(it.memory == was.memory);
  CHECK(it.cpu_ns == was.cpu_ns);
  CHECK(it.started_ns == was.started_ns);
  CHECK(it.name == was.name);
  CHECK(it.command == was.command);
}

TEST_CASE("look: ten thousand long command lines still fit a frame") {
  backend::ProcessInfo one = hostile();
  one.command.assign(backend::kMaxCommand, 'c');
  const std::vector<backend::ProcessInfo> all(backend::kMaxProcesses, one);
  const std::string frame = encode_frame(processes_frame(all));
  CHECK(frame.size() < kLongestFrame);
  const auto got = parse_processes(over_the_wire(processes_frame(all)));
  REQUIRE(got.ok());
  CHECK(got.value().size() == all.size());
}

TEST_CASE("look: malformed lines are refused") {
  for (const std::string& text : {std::string(),
                                  std::string("1 2 3"),
                                  std::string("1 2 3 4 5 6 7 8 9 S"),
                                  std::string("1 2 3 4 5 6 7 8 9 S\0n", 21),
                                  std::string("1 2 3 4 5 6 7 8 x S\0n\0c", 23),
                                  std::string("1 2 3 4 5 6 7 8 9 SS\0n\0c", 24),
                                  std::string("1 2 3 4 5 6 7 8 S\0n\0c", 21)}) {
    CAPTURE(text);
    Fields fields("processes");
    fields.set("list", Fields::List{text});
    CHECK_FALSE(parse_processes(fields).ok());
  }
}

TEST_CASE("look: what nobody counts stays unknown") {
  backend::LiveUsage usage;
  usage.cpu_ns = 5;
  usage.processes = 0;
  usage.is_summed = true;
  const backend::LiveUsage got = parse_usage(over_the_wire(usage_frame(usage)));
  CHECK(got.cpu_ns == 5U);
  CHECK(got.processes == 0U);
  CHECK_FALSE(got.memory.has_value());
  CHECK_FALSE(got.memory_peak.has_value());
  CHECK_FALSE(got.write_bytes.has_value());
  CHECK(got.is_summed);
  CHECK_FALSE(got.is_io_summed);
}

}  // namespace sbx::session
