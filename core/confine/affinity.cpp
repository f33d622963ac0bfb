// Affinity: see affinity.h.
#include "core/confine/affinity.h"

#include <sched.h>

#include "core/base/clock.h"
#include "core/base/text.h"

namespace sbx::confine {
namespace {

// More processors than the kernel can have (CONFIG_NR_CPUS is at most 8192 on x86-64).
constexpr std::size_t kMostCpus = 8192;

/// A cpu_set_t of that many.
class CpuSet {
 public:
  CpuSet() : words_(CPU_ALLOC_SIZE(kMostCpus) / sizeof(cpu_set_t)) {}
  std::size_t size() const { return words_.size() * sizeof(cpu_set_t); }
  cpu_set_t* get() { return words_.data(); }

 private:
  std::vector<cpu_set_t> words_;
};

}  // namespace

std::vector<std::size_t> choose_cpus(const std::vector<std::size_t>& allowed,
                                     std::size_t count,
                                     std::uint64_t seed) {
  if (allowed.size() <= count) return allowed;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(allowed[(seed + i) % allowed.size()]);
  }
  return out;
}

Status show_cpus(pid_t pid, std::uint32_t cpu_millis) {
  constexpr std::uint32_t kMillis = 1000;
  CpuSet ours;
  if (::sched_getaffinity(0, ours.size(), ours.get()) != 0) return sys_error("sched_getaffinity");
  std::vector<std::size_t> allowed;
  for (std::size_t i = 0; i < kMostCpus; ++i) {
    if (CPU_ISSET_S(i, ours.size(), ours.get())) allowed.push_back(i);
  }
  const std::size_t count = (std::size_t{cpu_millis} + kMillis - 1) / kMillis;
  if (allowed.size() <= count) return {};
  CpuSet chosen;
  for (const std::size_t cpu :
       choose_cpus(allowed, count, static_cast<std::uint64_t>(monotonic_ns()) >> 10U)) {
    CPU_SET_S(cpu, chosen.size(), chosen.get());
  }
  if (::sched_setaffinity(pid, chosen.size(), chosen.get()) != 0) {
    return sys_error(text::cat("sched_setaffinity of process ", pid));
  }
  return {};
}

}  // namespace sbx::confine
