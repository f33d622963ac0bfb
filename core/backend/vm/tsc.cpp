// TSC: see tsc.h.
#include "core/backend/vm/tsc.h"

#include <time.h>
#include <x86intrin.h>

#include <array>
#include <optional>

#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace sbx::vm {

namespace {

constexpr const char* kFile = "tsc-khz";
constexpr int64_t kNsPerSecond = 1'000'000'000;

struct Sample {
  uint64_t ticks = 0;
  int64_t ns = 0;
};

int64_t raw_ns() {
  timespec now{};
  (void)::clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

/// Of several tries the one that was interrupted least between its two readings.
Sample sample() {
  constexpr int kTries = 8;
  Sample best;
  int64_t shortest = INT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const int64_t before = raw_ns();
    const uint64_t ticks = __rdtsc();
    const int64_t after = raw_ns();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = {ticks, before + (after - before) / 2};
  }
  return best;
}

std::string boot_id() {
  const auto id = fs::read_file("/proc/sys/kernel/random/boot_id", Bytes{64});
  return id.ok() ? std::string(text::trim(id.value())) : std::string();
}

/// "BOOT_ID KHZ\n"
std::optional<uint64_t> kept(int dirfd, const std::string& boot) {
  const auto content = fs::read_file_at(dirfd, kFile, Bytes{128});
  if (!content.ok() || boot.empty()) return std::nullopt;
  const auto words = text::split(text::trim(content.value()), ' ');
  if (words.size() != 2 || words[0] != boot) return std::nullopt;
  const auto khz = parse_count(words[1]);
  // What cannot be a processor's was not written by us.
  constexpr uint64_t kLeast = 100'000;
  constexpr uint64_t kMost = 20'000'000;
  if (!khz.ok() || khz.value() < kLeast || khz.value() > kMost) return std::nullopt;
  return khz.value();
}

}  // namespace

uint64_t measure_tsc_khz() {
  constexpr int64_t kLength = 30'000'000;
  constexpr uint64_t kNsPerMs = 1'000'000;
  const Sample begin = sample();
  const timespec length{0, kLength};
  (void)::nanosleep(&length, nullptr);
  const Sample end = sample();
  // 64 bits are enough for a sleep of an hour.
  return (end.ticks - begin.ticks) * kNsPerMs / static_cast<uint64_t>(end.ns - begin.ns);
}

Result<uint64_t> tsc_khz(const std::string& state_dir) {
  SBX_ASSIGN(const UniqueFd dir, fs::open_dir(state_dir));
  const std::string boot = boot_id();
  if (const auto khz = kept(dir.get(), boot)) return *khz;
  const uint64_t khz = measure_tsc_khz();
  // On a full disk it is measured again the next time.
  if (!boot.empty())
    (void)fs::write_atomic(dir.get(), kFile, text::cat(boot, " ", khz, "\n"), 0600);
  return khz;
}

}  // namespace sbx::vm
