// Log: the only spdlog user; the logger is made by the first enabled message.
#include "core/base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::log {
namespace {

struct LevelRow {
  Level level;
  std::string_view word;
  spdlog::level::level_enum theirs;
};

constexpr std::array kLevels{
    LevelRow{Level::kTrace, "trace", spdlog::level::trace},
    LevelRow{Level::kDebug, "debug", spdlog::level::debug},
    LevelRow{Level::kInfo, "info", spdlog::level::info},
    LevelRow{Level::kWarn, "warn", spdlog::level::warn},
    LevelRow{Level::kError, "error", spdlog::level::err},
    LevelRow{Level::kOff, "off", spdlog::level::off},
};

// Constant-initialised: costs nothing at start.
std::atomic<Level> g_level = Level::kWarn;

/// One write(2) a line straight to descriptor 2, so that lines of several processes do not mix and
/// stdio's buffers are never touched (a forked child would print them twice).
class StderrSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // There is nowhere to report that the report failed.
    static_cast<void>(sys::write_all(STDERR_FILENO, std::string_view(line.data(), line.size())));
  }
  void flush_() override {}
};

/// Made on first use and never destroyed: a message may come from any destructor.
spdlog::logger& logger() {
  static spdlog::logger* const kLogger = [] {
    auto* made = new spdlog::logger("sbx", std::make_shared<StderrSink>());
    made->set_level(spdlog::level::trace);  // enabled() decides
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ sbx[%P] %l: %v", spdlog::pattern_time_type::utc));
    return made;
  }();
  return *kLogger;
}

}  // namespace

void set_level(Level level) {
  g_level.store(level, std::memory_order_relaxed);
}

bool enabled(Level level) {
  return level != Level::kOff && level >= g_level.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view message) {
  if (!enabled(level)) return;
  const std::string line = text::escape(message);
  for (const LevelRow& row : kLevels) {
    if (row.level == level) logger().log(row.theirs, spdlog::string_view_t(line));
  }
}

std::optional<Level> parse_level(std::string_view word) {
  for (const LevelRow& row : kLevels) {
    if (row.word == word) return row.level;
  }
  return std::nullopt;
}

}  // namespace sbx::log
