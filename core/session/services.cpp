// Services: see services.h.
#include "core/session/services.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/session/daemon.h"

namespace sbx::session {

namespace {

constexpr std::int64_t kFirstPause = 1000;
constexpr std::int64_t kLongestPause = 60'000;
constexpr std::int64_t kLastedNs = 10'000'000'000;

}  // namespace

Millis restart_pause(std::uint32_t quick_ends) {
  std::int64_t pause = kFirstPause;
  for (std::uint32_t i = 0; i < quick_ends && pause < kLongestPause; ++i) {
    pause *= 2;
  }
  return Millis{std::min(pause, kLongestPause)};
}

bool is_to_restart(profile::Restart rule, const ExecRecord& record) {
  switch (rule) {
    case profile::Restart::kNo:
      return false;
    case profile::Restart::kAlways:
      return true;
    case profile::Restart::kOnFailure:
      break;
  }
  return record.exit_status != 0;
}

void Services::start_all() {
  for (const profile::Service& service : daemon_.profile().services) {
    start(service);
  }
}

const profile::Service* Services::find(const std::string& name) const {
  const auto& all = daemon_.profile().services;
  const auto at = std::find_if(
      all.begin(), all.end(), [&name](const profile::Service& each) { return each.name == name; });
  return at == all.end() ? nullptr : &*at;
}

void Services::start(const profile::Service& service) {
  ExecRequest request;
  request.spec = daemon_.base_spec(false, {});
  request.spec.argv = service.command;
  for (const profile::EnvVar& variable : service.env) {
    const std::string head = variable.name + "=";
    std::erase_if(request.spec.env,
                  [&](const std::string& each) { return each.starts_with(head); });
    request.spec.env.push_back(head + variable.value);
  }
  request.is_detached = true;
  request.service = service.name;
  const auto id = daemon_.exec(std::move(request), {});
  if (id.ok()) {
    daemon_.note(EventKind::kServiceStarted,
                 {{"service", service.name}, {"exec", std::uint64_t{id.value()}}});
    return;
  }
  daemon_.note(EventKind::kServiceFailed,
               {{"service", service.name}, {"error", id.error().message()}});
}

void Services::ended(const ExecRecord& record) {
  const profile::Service* const service = find(record.service);
  if (service == nullptr || is_stopping_) return;
  daemon_.note(record.error.empty() ? EventKind::kServiceExited : EventKind::kServiceFailed,
               {{"service", record.service},
                {"exec", std::uint64_t{record.id}},
                {"exit_status", std::int64_t{record.exit_status}}});
  if (!is_to_restart(service->restart, record)) return;
  Running& running = running_[record.service];
  if (record.ended_ns - record.started_ns >= kLastedNs) running.quick_ends = 0;
  const Millis pause = restart_pause(running.quick_ends++);
  running.restart = daemon_.loop().add_timer(pause, [this, service] { start(*service); });
}

void Services::stop() {
  is_stopping_ = true;
  running_.clear();
}

}  // namespace sbx::session
