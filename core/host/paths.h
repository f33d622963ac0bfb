// Paths: where sbx keeps state, configuration and sockets. Works with an empty environment.
//
// State:   $SBX_STATE_DIR; root: /var/lib/sbx; else $XDG_STATE_HOME/sbx, else ~/.local/state/sbx
//          (home from $HOME, else from /etc/passwd). Only a place named by SBX_STATE_DIR is a must;
//          of the others the first that can be used is taken.
// Runtime: $XDG_RUNTIME_DIR/sbx when that directory really exists and is ours alone, else "run"
//          below the state directory.
// Config:  $XDG_CONFIG_HOME/sbx, else ~/.config/sbx. Never created.
// State and runtime directories are made with mode 0700; one that is a link, another user's, or
// open to group or others is refused.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::host {

using EnvLookup = std::function<std::optional<std::string>(std::string_view)>;

/// What the answers depend on; the default is this process on this host.
struct PathContext {
  EnvLookup env;  ///< empty: the process's environment
  uid_t uid;      ///< effective uid: the owner that directories must have
  bool is_root;   ///< uses the system's places
  std::string passwd_file = "/etc/passwd";
  std::string system_state = "/var/lib/sbx";
  std::string system_run = "/run/sbx";

  PathContext();
};

struct Dir {
  std::string path;
  UniqueFd fd;  ///< O_DIRECTORY, readable
};

/// The state directory, made if missing and checked. kDenied or kSystem names the place and why.
Result<Dir> open_state_dir(const PathContext& context = {});
/// Where it is, when it exists; makes and checks nothing. For looking through what earlier commands
/// left.
std::optional<std::string> existing_state_dir(const PathContext& context = {});
/// The directory for sockets.
Result<Dir> open_runtime_dir(const PathContext& context = {});
/// Where root's claims on id ranges live: /run/sbx/ids (one per host whatever SBX_STATE_DIR says,
/// gone with a reboot), else below the state directory. For IdRange::claim.
Result<std::string> id_claim_dir(const PathContext& context = {});

/// Where root directories that jails share are kept: "roots" below /run/sbx for root, else below
/// $XDG_RUNTIME_DIR/sbx; kNotFound without one, because a job reads the place of its root in
/// /proc/self/mountinfo, and a state directory would tell it the user's name. Its parent is checked
/// to be ours alone; it need not exist itself.
Result<std::string> kept_roots_dir(const PathContext& context = {});

/// "$XDG_CONFIG_HOME/sbx" or "~/.config/sbx"; nullopt without a home.
std::optional<std::string> config_dir(const PathContext& context = {});
/// $HOME when it is absolute, else the passwd line's; nullopt when there is neither.
std::optional<std::string> home_dir(const PathContext& context = {});

}  // namespace sbx::host
