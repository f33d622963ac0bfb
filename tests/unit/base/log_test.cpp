// Tests of the log: levels, one escaped line a message.
#include "core/base/log.h"

#include <unistd.h>

#include <string>

#include <doctest/doctest.h>

#include "core/base/sys.h"

using namespace sbx;

namespace {

/// What `act` writes to descriptor 2.
template <typename F>
std::string captured(F act) {
  sys::Pipe pipe = sys::pipe().value();
  const UniqueFd before = sys::dup(STDERR_FILENO, 3).value();
  REQUIRE(sys::dup_onto(pipe.w.get(), STDERR_FILENO, false).ok());
  act();
  REQUIRE(sys::dup_onto(before.get(), STDERR_FILENO, false).ok());
  pipe.w.reset();
  return sys::read_all(pipe.r.get(), Bytes{1 << 20}).value();
}

}  // namespace

TEST_CASE("log: only messages at or above the level are written") {
  CHECK(log::enabled(Level::kWarn));
  CHECK(!log::enabled(Level::kInfo));
  CHECK(!log::enabled(Level::kOff));
  CHECK(captured([] { log::write(Level::kInfo, "hidden"); }).empty());
  log::set_level(Level::kTrace);
  const std::string line = captured([] { log::write(Level::kTrace, "shown"); });
  log::set_level(Level::kWarn);
  CHECK(line.find(" trace: shown\n") != std::string::npos);
  log::set_level(Level::kOff);
  CHECK(captured([] { log::write(Level::kError, "hidden"); }).empty());
  log::set_level(Level::kWarn);
}

TEST_CASE("log: a message is one escaped line, braces included") {
  const std::string line = captured([] { log::write(Level::kError, "a\n\x1b[31m{}{0}"); });
  CHECK(line.ends_with(" error: a\\n\\x1b[31m{}{0}\n"));
  CHECK(line.find('\n') == line.size() - 1);
}

TEST_CASE("log: level words are read") {
  CHECK(log::parse_level("debug") == Level::kDebug);
  CHECK(log::parse_level("off") == Level::kOff);
  CHECK(log::parse_level("loud") == std::nullopt);
}
