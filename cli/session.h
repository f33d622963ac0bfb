// Session: what the verbs of `sbx session` share.
#pragma once

#include <string>
#include <vector>

#include "cli/verb.h"
#include "core/base/result.h"
#include "core/profile/profile.h"
#include "core/session/client.h"
#include "core/session/lifecycle.h"
#include "core/session/store.h"

namespace sbx::cli {

/// The sessions of our state directory. What killed commands left of them is removed.
Result<session::Store> open_sessions();

/// Words of a verb that takes one NAME.
inline constexpr Words kOneSession{.min = 1, .max = 1, .name = "NAME"};
/// The flag of all that would start a stopped session.
inline constexpr Flag kNoStartFlag{.name = "no-start",
                                   .help = "Fail at once when the session is stopped or paused"};
inline constexpr Flag kJsonFlag{.name = "json", .help = "Print one JSON object"};
inline constexpr Flag kJsonLinesFlag{.name = "json", .help = "Print one JSON object a line"};

/// A connection to the session's supervisor; a stopped one is started unless --no-start was given.
struct Connected {
  session::Record record;
  session::Client client;
};
Result<Connected> connect(const session::Store& store,
                          const Invocation& given,
                          const std::string& name);
/// A connection to a session that must be alive already. Of its record only name and id are sure.
Result<Connected> connect_alive(const session::Store& store, const std::string& name);

/// The ids of `text` from -u: "root", "sbx", or numbers UID[:GID]; in a session of an image what
/// the session's own /etc/passwd and /etc/group say.
Result<backend::User> user_of(const session::Store& store,
                              const std::string& name,
                              const std::string& text);

/// Does `one` for each NAME; the exit status is that of the first that failed.
int for_each_session(const Invocation& given,
                     Status (*one)(const session::Store&, const std::string&, const Invocation&));

}  // namespace sbx::cli
