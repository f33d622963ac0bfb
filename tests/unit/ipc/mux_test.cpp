// Mux tests: frames and parcels survive the wire, and nothing malformed gets through.
#include "core/ipc/mux.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sbx;
using ipc::Flow;
using ipc::FrameKind;
using ipc::Side;

TEST_CASE("mux: frames are taken off one by one, and only when they are whole") {
  const std::string big(ipc::kMaxPayload, 'b');
  const std::string bytes = ipc::encode_mux_frame(FrameKind::kData, 6, big) +
                            ipc::encode_mux_frame(FrameKind::kEof, 6) +
                            ipc::encode_mux_frame(FrameKind::kCredit, 7, ipc::encode_u32(99));
  std::string_view rest(bytes);
  const auto data = ipc::take_frame(rest);
  REQUIRE(data.ok());
  CHECK(data.value()->kind == FrameKind::kData);
  CHECK(data.value()->stream == 6);
  CHECK(data.value()->payload == big);
  CHECK(ipc::take_frame(rest).value()->kind == FrameKind::kEof);
  const auto credit = ipc::take_frame(rest);
  CHECK(ipc::decode_u32(credit.value()->payload) == 99);
  CHECK(rest.empty());
  for (const size_t size : {size_t{0}, size_t{8}, size_t{9}, big.size()}) {
    std::string_view part = std::string_view(bytes).substr(0, size);
    const auto none = ipc::take_frame(part);
    REQUIRE(none.ok());
    CHECK_FALSE(none.value().has_value());
    CHECK(part.size() == size);
  }
}

TEST_CASE("mux: a header says a known kind, a length that it has, and a stream where it has one") {
  struct Row {
    FrameKind kind;
    uint32_t length;
    uint32_t stream;
    bool is_good;
  };
  const uint32_t most = ipc::kMaxPayload;
  for (const Row& row : std::vector<Row>{
           {FrameKind::kHello, 11, 0, true},         {FrameKind::kHello, 12, 0, false},
           {FrameKind::kHello, 11, 1, false},        {FrameKind::kMessage, 1, 0, true},
           {FrameKind::kMessage, 0, 0, false},       {FrameKind::kMessage, most + 1, 0, false},
           {FrameKind::kMessage, 1, 2, false},       {FrameKind::kData, most, 1, true},
           {FrameKind::kData, most + 1, 1, false},   {FrameKind::kData, 0, 1, false},
           {FrameKind::kData, 1, 0, false},          {FrameKind::kCredit, 4, 1, true},
           {FrameKind::kCredit, 5, 1, false},        {FrameKind::kEof, 0, 1, true},
           {FrameKind::kEof, 1, 1, false},           {FrameKind::kEof, 0, 0, false},
           {FrameKind::kReset, 0, 1, true},          {FrameKind::kOpen, 0, 1, true},
           {FrameKind::kOpen, 4096, 1, true},        {FrameKind::kOpen, 4097, 1, false},
           {FrameKind::kAccept, 0, 1, true},         {FrameKind::kRefuse, 4, 1, true},
           {FrameKind::kRefuse, 0, 1, false},        {FrameKind::kEnding, 0, 0, true},
           {FrameKind::kEnding, 0, 1, false},        {FrameKind::kEnd, 0, 0, true},
           {static_cast<FrameKind>(0), 0, 0, false}, {static_cast<FrameKind>(12), 0, 0, false}}) {
    CAPTURE(static_cast<int>(row.kind));
    CAPTURE(row.length);
    const auto header = ipc::encode_frame_header({row.length, row.kind, row.stream});
    const auto decoded = ipc::decode_frame_header({header.data(), header.size()});
    CHECK(decoded.ok() == row.is_good);
    if (!decoded.ok()) CHECK(decoded.error().code() == Errc::kProtocol);
  }
}

TEST_CASE("mux: a greeting decodes to what was encoded") {
  const auto hello = ipc::decode_hello(ipc::encode_hello({3, Side::kAgent, 77}));
  REQUIRE(hello.ok());
  CHECK(hello.value().version == 3);
  CHECK(hello.value().side == Side::kAgent);
  CHECK(hello.value().epoch == 77);
  CHECK_FALSE(ipc::decode_hello("hello world").ok());
}

TEST_CASE("mux: a message has the descriptors of its kind, or it is refused") {
  ipc::Exec exec;
  exec.id = 4;
  exec.argv = {"a"};
  ipc::Exec terminal = exec;
  terminal.tty = true;
  const ipc::Files unpack{1, ipc::FilesOp::kUnpack, "p", "", false, false, false};
  const ipc::Files resume{1, ipc::FilesOp::kPack, "p", "", false, false, true};
  const std::vector<ipc::Port> three{{2, Flow::kToGuest}, {4, Flow::kToHost}, {6, Flow::kToHost}};
  const std::vector<ipc::Port> null{{0, Flow::kNull}, {4, Flow::kToHost}, {6, Flow::kToHost}};
  struct Row {
    Side from;
    ipc::Message message;
    std::vector<ipc::Port> ports;
    bool is_good;
  };
  for (const Row& row :
       std::vector<Row>{{Side::kHost, exec, three, true},
                        {Side::kHost, exec, null, true},
                        {Side::kHost, exec, {}, false},
                        {Side::kHost, exec, {three[0], three[1]}, false},
                        {Side::kHost, exec, {three[1], three[1], three[2]}, false},
                        {Side::kHost, exec, {three[0], null[0], three[2]}, false},
                        {Side::kHost, exec, {{0, Flow::kToGuest}, three[1], three[2]}, false},
                        {Side::kHost, exec, {{2, Flow::kNull}, three[1], three[2]}, false},
                        {Side::kAgent, exec, three, false},
                        {Side::kHost, terminal, {}, true},
                        {Side::kHost, terminal, three, false},
                        {Side::kHost, unpack, {three[0], three[1]}, true},
                        {Side::kHost, unpack, {three[1], three[1]}, false},
                        {Side::kHost, resume, {three[1], three[2], three[0]}, true},
                        {Side::kHost, resume, {three[1], three[2]}, false},
                        {Side::kHost, ipc::Signal{1, 2}, {}, true},
                        {Side::kAgent, ipc::Signal{1, 2}, {}, false},
                        {Side::kAgent, ipc::Started{1, 2}, {}, true},
                        {Side::kAgent, ipc::Started{1, 2}, {{1, Flow::kBoth}}, true},
                        {Side::kAgent, ipc::Started{1, 2}, {{1, Flow::kToHost}}, false},
                        {Side::kHost, ipc::Started{1, 2}, {}, false},
                        {Side::kAgent, ipc::Ready{1}, {}, true},
                        {Side::kAgent, ipc::Ready{1}, {{1, Flow::kToHost}}, false},
                        {Side::kAgent, ipc::Running{}, {}, false},
                        {Side::kHost, ipc::Setup{}, {}, false},
                        {Side::kHost, ipc::Begin{}, {}, false}}) {
    CAPTURE(row.message.index());
    CAPTURE(row.ports.size());
    const std::string bytes = ipc::pack_parcel(row.message, row.ports);
    const auto parcel = ipc::unpack_parcel(bytes, row.from);
    CHECK(parcel.ok() == row.is_good);
    if (!parcel.ok()) continue;
    CHECK(parcel.value().ports == row.ports);
    CHECK(ipc::pack_parcel(parcel.value().message, parcel.value().ports) == bytes);
    for (size_t size = 0; size < bytes.size(); ++size) {
      CHECK_FALSE(ipc::unpack_parcel(bytes.substr(0, size), row.from).ok());
    }
  }
}

TEST_CASE("mux: the pieces of a message are put together, up to its limit") {
  ipc::ExecFailed failed;
  failed.what = std::string(50'000, 'w');
  const std::string bytes = ipc::pack_parcel(failed, {});
  ipc::ParcelReader reader(Side::kAgent);
  for (size_t at = 0; at < bytes.size(); at += 1000) {
    const bool is_last = at + 1000 >= bytes.size();
    const auto parcel = reader.take((is_last ? '\1' : '\0') + bytes.substr(at, 1000));
    REQUIRE(parcel.ok());
    CHECK(parcel.value().has_value() == is_last);
  }
  CHECK(reader.buffered() == 0);
  const std::string piece = std::string(1, '\0') + std::string(30'000, 'x');
  CHECK(reader.take(piece).ok());
  CHECK(reader.take(piece).ok());
  const auto over = reader.take(piece);
  REQUIRE_FALSE(over.ok());
  CHECK(over.error().code() == Errc::kProtocol);
  CHECK_FALSE(ipc::ParcelReader(Side::kHost).take("\2").ok());
}
