// Rlimits: see rlimits.h.
#include "core/confine/rlimits.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "core/base/text.h"

namespace sbx::confine {
namespace {

constexpr rlim_t kLockedMemory = 8U << 20U;     // the kernel's own default since 5.16
constexpr rlim_t kMessageQueues = 800U << 10U;  // the kernel's own default

void add(RlimitSet& set, int resource, rlim_t wanted) {
  rlimit now{};
  // Only a bad resource number could make this fail; then the kernel refuses the set call as well.
  if (::getrlimit(resource, &now) != 0) now.rlim_max = wanted;
  const rlim_t value = std::min(wanted, now.rlim_max);
  set.entries.at(set.count++) = {.resource = resource,
                                 .value = {.rlim_cur = value, .rlim_max = value}};
}

/// The hard limit stands a second above: a process that catches SIGXCPU is killed there.
void add_cpu(RlimitSet& set, rlim_t seconds) {
  add(set, RLIMIT_CPU, seconds + 1);
  rlimit& value = set.entries.at(set.count - 1).value;
  value.rlim_cur = std::min(seconds, value.rlim_max);
}

}  // namespace

RlimitSet prepare_rlimits(const RlimitRequest& request) {
  RlimitSet set;
  add(set, RLIMIT_CORE, 0);
  add(set, RLIMIT_RTPRIO, 0);
  add(set, RLIMIT_MEMLOCK, kLockedMemory);
  add(set, RLIMIT_MSGQUEUE, kMessageQueues);
  add(set, RLIMIT_NOFILE, request.open_files);
  if (request.data) add(set, RLIMIT_DATA, request.data->v);
  if (request.cpu_seconds) add_cpu(set, *request.cpu_seconds);
  if (request.processes) add(set, RLIMIT_NPROC, *request.processes);
  return set;
}

std::vector<InForce> rlimits_in_force(const RlimitSet& set) {
  std::vector<InForce> out;
  for (std::size_t i = 0; i < set.count; ++i) {
    const RlimitSet::Entry& entry = set.entries.at(i);
    const std::string value = std::to_string(entry.value.rlim_cur);
    if (entry.resource == RLIMIT_NOFILE) {
      out.push_back({.limit = "open_files", .value = value, .mechanism = "RLIMIT_NOFILE"});
    } else if (entry.resource == RLIMIT_DATA) {
      out.push_back({.limit = "memory",
                     .value = value,
                     .mechanism = "RLIMIT_DATA of each process",
                     .approximate = true});
    } else if (entry.resource == RLIMIT_CPU) {
      out.push_back({.limit = "cpu_time",
                     .value = text::cat(entry.value.rlim_cur, "000ms"),
                     .mechanism = "RLIMIT_CPU of each process",
                     .approximate = true});
    } else if (entry.resource == RLIMIT_NPROC) {
      out.push_back({.limit = "pids",
                     .value = value,
                     .mechanism = "RLIMIT_NPROC in the sandbox's own user namespace"});
    }
  }
  return out;
}

int apply_rlimits_in_child(const RlimitSet& set) noexcept {
  for (std::size_t i = 0; i < set.count; ++i) {
    const RlimitSet::Entry& entry = set.entries[i];
    if (::setrlimit(entry.resource, &entry.value) != 0) {
      return errno;
    }
  }
  return 0;
}

}  // namespace sbx::confine
