// Guest wake: see guest_wake.h.
#include "core/backend/vm/guest_wake.h"

#include <fcntl.h>
#include <linux/random.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <ctime>
#include <string>

#include "core/base/sys.h"

namespace sbx::vm {

namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
constexpr int kBitsPerByte = 8;

/// rand_pool_info with its bytes (random(4)).
struct Seed {
  int entropy_bits = static_cast<int>(control::kSeedSize) * kBitsPerByte;
  int size = static_cast<int>(control::kSeedSize);
  std::array<char, control::kSeedSize> bytes{};
};

Status reseed(const std::string& bytes) {
  SBX_ASSIGN(const UniqueFd random, sys::open("/dev/urandom", O_RDWR));
  Seed seed;
  std::memcpy(seed.bytes.data(), bytes.data(), seed.bytes.size());
  if (::ioctl(random.get(), RNDADDENTROPY, &seed) != 0) return sys_error("add entropy");
  // Else what was drawn before goes on up to a minute.
  if (::ioctl(random.get(), RNDRESEEDCRNG) != 0) return sys_error("reseed the random numbers");
  explicit_bzero(&seed, sizeof seed);
  return {};
}

}  // namespace

Status wake(const control::Wake& wake) {
  SBX_TRY(reseed(wake.seed));
  timespec now{};
  now.tv_sec = wake.realtime_ns / kNanosPerSecond;
  now.tv_nsec = wake.realtime_ns % kNanosPerSecond;
  if (::clock_settime(CLOCK_REALTIME, &now) != 0) return sys_error("set the clock");
  if (!wake.hostname.empty() && ::sethostname(wake.hostname.data(), wake.hostname.size()) != 0) {
    return sys_error("set the host name");
  }
  return {};
}

}  // namespace sbx::vm
