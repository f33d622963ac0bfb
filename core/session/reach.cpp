// Reach: see reach.h.
#include "core/session/reach.h"

#include <ctime>
#include <utility>

#include "core/base/clock.h"
#include "core/base/text.h"

namespace sbx::session {

namespace {

constexpr timespec kPause{0, 5'000'000};

/// Connects and greets. kNotFound: this supervisor is ending, or not ready.
Result<Client> greet(const Store& store, const Record& record) {
  SBX_ASSIGN(Client client, Client::connect(store, record));
  auto answer = client.call(Fields("status"));
  if (answer.ok() && answer.value().fields.text("state") != "ending") return client;
  const bool is_final = !answer.ok() && (answer.error().code() == Errc::kUnsupported ||
                                         answer.error().code() == Errc::kTimeout);
  if (is_final) {
    return std::move(answer).error();
  }
  return Error(Errc::kNotFound,
               text::cat("the supervisor of session ", record.name, " does not answer"))
      .with_hint(text::cat("sbx session stop ", record.name));
}

}  // namespace

Result<Reached> reach(const Store& store,
                      const std::string& session,
                      WhenStopped when_stopped,
                      const profile::EnvLookup& env,
                      const Warn& warn) {
  constexpr std::int64_t kPatienceMs = 10'000;
  std::int64_t until = 0;
  while (true) {
    SBX_ASSIGN(Record record, ensure_alive(store, session, when_stopped, env, warn));
    auto client = greet(store, record);
    if (client.ok()) return Reached{std::move(record), std::move(client).value()};
    if (client.error().code() != Errc::kNotFound) return std::move(client).error();
    if (until == 0) until = monotonic_now().v + kPatienceMs;
    if (monotonic_now().v >= until) return std::move(client).error();
    (void)::nanosleep(&kPause, nullptr);
  }
}

}  // namespace sbx::session
