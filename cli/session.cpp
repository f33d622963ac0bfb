// Session: what the verbs of `sbx session` share.
#include "cli/session.h"

#include <utility>

#include "cli/directories.h"
#include "cli/output.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/image/store.h"
#include "core/session/reach.h"

namespace sbx::cli {

Result<session::Store> open_sessions() {
  SBX_ASSIGN(const Directories dirs, directories(State::kNeeded));
  SBX_ASSIGN(session::Store store, session::Store::open(dirs.state));
  store.clear_leftovers();
  return store;
}

Result<Connected> connect(const session::Store& store,
                          const Invocation& given,
                          const std::string& name) {
  const auto when =
      given.has("no-start") ? session::WhenStopped::kRefuse : session::WhenStopped::kStart;
  // What this host cannot do was said when the session was made.
  SBX_ASSIGN(session::Reached reached, session::reach(store, name, when, profile::process_env, {}));
  return Connected{std::move(reached.record), std::move(reached.client)};
}

Result<Connected> connect_alive(const session::Store& store, const std::string& name) {
  // The life file alone says enough of one that is up: no record has to be read.
  SBX_ASSIGN(const UniqueFd dir, store.open_dir(name));
  SBX_ASSIGN(const std::optional<session::Life> life, session::look_at_life(dir.get()));
  if (life.has_value() && !life->id.empty()) {
    session::Record known;
    known.name = name;
    known.id = life->id;
    SBX_ASSIGN(session::Client client, session::Client::connect(store, known));
    return Connected{std::move(known), std::move(client)};
  }
  SBX_ASSIGN(session::Listing now, store.look(name));
  if (!now.is_alive()) {
    return Error(Errc::kDenied, text::cat("session ", name, " is ", session::name(now.state)))
        .with_hint(text::cat("sbx session start ", name));
  }
  SBX_ASSIGN(session::Client client, session::Client::connect(store, now.record));
  return Connected{std::move(now.record), std::move(client)};
}

namespace {

Result<backend::User> parse_user(const std::string& text) {
  constexpr std::uint32_t kJob = 1000;
  constexpr std::uint64_t kMost = 65535;
  if (text == "root") return backend::User{0, 0};
  if (text == "sbx") return backend::User{kJob, kJob};
  const std::size_t colon = text.find(':');
  const auto uid = parse_count(text.substr(0, colon));
  const auto gid = colon == std::string::npos ? uid : parse_count(text.substr(colon + 1));
  if (!uid.ok() || !gid.ok() || uid.value() > kMost || gid.value() > kMost) {
    return Error(Errc::kUsage, text::cat("-u/--user: \"", text::escape(text), "\" is no user"))
        .with_hint("root, sbx, or numbers of the inside: UID or UID:GID up to 65535");
  }
  return backend::User{static_cast<std::uint32_t>(uid.value()),
                       static_cast<std::uint32_t>(gid.value())};
}

}  // namespace

Result<backend::User> user_of(const session::Store& store,
                              const std::string& name,
                              const std::string& text) {
  const auto now = store.look(name);
  if (!now.ok() || !now.value().record.image.has_value()) return parse_user(text);
  std::vector<std::string> layers = now.value().record.lowers;
  if (!now.value().record.upper.empty()) layers.push_back(now.value().record.upper);
  auto found = image::find_user(store.layers(), layers, text);
  if (!found.ok()) {
    return std::move(found).error().with_code(Errc::kUsage).prefixed("-u/--user");
  }
  return backend::User{found.value().uid, found.value().gid};
}

int for_each_session(const Invocation& given,
                     Status (*one)(const session::Store&, const std::string&, const Invocation&)) {
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  int status = 0;
  for (const std::string& name : given.words()) {
    const Status done = one(store.value(), name, given);
    if (done.ok()) continue;
    const int now = failed(done.error());
    if (status == 0) status = now;
  }
  return status;
}

}  // namespace sbx::cli
