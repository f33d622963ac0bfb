// Tests of fields: frames are read as they were written, and nothing else is.
#include "core/ipc/fields.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sbx;
using namespace sbx::ipc;

TEST_CASE("fields: a frame is read as it was written") {
  Fields fields("op");
  fields.set("empty", std::string());
  fields.set("bytes", std::string("\0\xff", 2));
  fields.set("long", std::string(70'000, 'x'));
  fields.set("list", Fields::List{"a", "", std::string(300, 'b')});
  fields.set("none", Fields::List());
  fields.set("yes", true).set("no", false);
  for (const std::int64_t number : {std::int64_t{0},
                                    std::int64_t{-1},
                                    std::int64_t{23},
                                    std::int64_t{24},
                                    std::int64_t{-300},
                                    std::int64_t{70'000},
                                    std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min()}) {
    fields.set("number", number);
    const std::string frame = encode_frame(fields);
    CHECK(frame_length(frame) == frame.size() - kFrameLengthSize);
    const auto back = decode_frame(std::string_view(frame).substr(kFrameLengthSize));
    REQUIRE(back.ok());
    CHECK(back.value().all() == fields.all());
  }
}

TEST_CASE("fields: what is no frame is refused") {
  const std::string frame = encode_frame(Fields("op").set("list", Fields::List{"a"}));
  const std::string body = frame.substr(kFrameLengthSize);
  for (std::size_t size = 0; size < body.size(); ++size) {
    CHECK_FALSE(decode_frame(std::string_view(body).substr(0, size)).ok());
  }
  CHECK_FALSE(decode_frame(body + "x").ok());
  for (const char* bytes : {"\x80",
                            "\xa1\x01\x01",
                            "\xa1\x61\x61\xf6",
                            "\xa1\x61\x61\x81\x01",
                            "\xa1\x61\x61\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
                            "\xbf\xff",
                            "\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
                            "\xa1\x61\x61\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
                            "\xa1\x61\x61\x7b\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    CHECK(decode_frame(bytes).error().code() == Errc::kProtocol);
  }
}

TEST_CASE("fields: deep nesting does not exhaust the stack") {
  CHECK_FALSE(decode_frame(std::string(kLongestFrame, '\x81')).ok());
  std::string maps = "\xa1\x61\x61";
  maps += std::string(kLongestFrame, '\x81');
  CHECK_FALSE(decode_frame(maps).ok());
}
