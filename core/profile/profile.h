// Profile: what a sandbox is to be like, as plain data, and the functions that load and show it.
//
// It does not know how any of it is brought about: backends turn a Profile into a plan. YAML never
// leaves this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::profile {

enum class Isolation { kJail, kVm, kAuto };
std::string_view name(Isolation isolation);

/// A file of the host that takes the place of a command of the sandbox.
struct HostTool {
  std::string path;     // absolute, normalised; empty: none
  std::string beneath;  // as Mount::beneath
};

/// A file or directory of the host that sbx itself reads or writes.
struct HostPath {
  std::string path;     // absolute, normalised; empty: none
  std::string beneath;  // as Mount::beneath
};

/// How a profile runs code that comes as a file or as text.
struct Language {
  std::vector<std::string> compile;      // argv of the compiler; empty: nothing to compile
  std::vector<std::string> interpreter;  // argv in front of the script; empty: the file itself, or
                                         // what the compiler made
  HostTool path;                         // instead of the first word of compile, else interpreter
  std::vector<std::string> extensions;   // ".py": files that choose this profile
  std::vector<std::string> shebangs;     // "python3": base names in a #! line that choose it
  std::string main;                      // "main.py": name inside /work of -c and - code
  std::string package;                   // Debian package to name when the interpreter is missing
};

struct EnvVar {
  std::string name;
  std::string value;
};

/// kOverlay: what is there can be changed, and the host's directory is not; only of directories.
enum class MountMode { kReadOnly, kReadWrite, kOverlay };
/// As it is written in profiles: "ro", "rw", "overlay".
std::string_view mode_name(MountMode mode);

struct Mount {
  std::string source;  // absolute host path; relative ones are resolved when they are read
  std::string target;  // absolute path inside, normalised
  MountMode mode = MountMode::kReadOnly;
  /// Not empty: `source` came from a project's own profile. It must be opened below this directory
  /// with RESOLVE_BENEATH, so that a link in the project cannot lead out of it.
  std::string beneath;
};

/// nullopt means "no limit" everywhere here. Whether a limit that cannot be enforced is an error
/// depends on Profile::is_explicit.
struct Limits {
  std::optional<Bytes> memory;
  std::optional<std::uint64_t> pids;
  std::optional<Millis> timeout;
  std::optional<Millis> cpu_time;  // of all processes together
  std::optional<Bytes> output;     // relayed or captured, per stream
  std::uint64_t open_files = 1024;
  std::optional<Bytes> disk;                // /work, /tmp, /dev/shm and home together
  std::optional<std::uint64_t> inodes;      // files and directories there
  std::optional<std::uint32_t> cpu_millis;  // 1500 is 1.5 CPUs (key: limits.cpus)
  bool visible = false;                     // show memory and cpus inside even when only shipped
  bool best_effort = false;                 // run even where a limit cannot be enforced
};

/// Later layers win: built-in < user or system or other file < SBX_* variable < flag.
enum class Layer { kBuiltin, kSystem, kUser, kFile, kEnv, kFlag };
std::string_view name(Layer layer);

struct Origin {
  Layer layer = Layer::kBuiltin;
  std::string where;  // "python.yaml:3:5", "SBX_MEMORY", "--memory"
};

/// When a service that has ended is started again.
enum class Restart { kNo, kOnFailure, kAlways };
std::string_view name(Restart restart);

/// A program that a session runs by itself from its start on. One-shot runs ignore it.
struct Service {
  std::string name;                  // [a-z0-9-], starts with a letter or digit, at most 32
  std::vector<std::string> command;  // argv, never empty, first word never empty
  Restart restart = Restart::kNo;
  std::vector<EnvVar> env;  // over Profile::env; names are unique
};

/// What a session does by itself. One-shot runs ignore it.
struct SessionSettings {
  std::optional<Millis> idle_pause;  // paused after so long without use; nullopt: never
  std::optional<Millis> ttl;         // removed after so long without use; nullopt: never
};

/// Packages that are added to what the root has. See core/packages.
struct Packages {
  std::vector<std::string> pip;    // "numpy==1.26.4"
  std::vector<std::string> npm;    // "@types/node@^20"
  std::vector<std::string> allow;  // patterns of names; empty: every name
  std::vector<std::string> deny;   // patterns of names; wins over allow
  bool frozen = false;             // nothing but what the lock file names
  HostPath lock;                   // file with exact versions and digests
  HostPath source;                 // directory of wheels and tarballs

  bool any() const { return !pip.empty() || !npm.empty(); }
};

/// An item of a variable that is a list with colons, such as PATH.
struct ListItem {
  std::string variable;
  std::string item;
  bool is_first = false;  // before the items that are there, else behind them
  bool operator==(const ListItem&) const = default;
};

/// What concerns only virtual machines.
struct VmSettings {
  std::string accel = "kvm";  // "kvm", or "tcg": software emulation, slow; never fallen back to
  std::string kernel;         // name of a guest kernel; empty: the newest that is installed
  bool is_warm = true;        // start from a template that has booted already
};

using Labels = std::map<std::string, std::string, std::less<>>;

struct Profile {
  std::string name;
  std::string description;
  std::string file;  // empty for a shipped profile
  Isolation isolation = Isolation::kJail;
  std::string image;  // name of an image whose files are the root; empty: the host's tree
  Language language;
  std::vector<EnvVar> env;            // in order of first mention; names are unique
  std::vector<std::string> env_pass;  // names taken from the host's environment; env wins
  std::string workdir = "/work";
  std::string hostname = "sbx";
  std::vector<Mount> mounts;  // targets are unique
  Limits limits;
  std::vector<std::string> capabilities;  // "CAP_NET_BIND_SERVICE"
  bool nesting = false;
  std::vector<std::string> require;  // globs of artifacts that must exist at the end
  std::vector<Service> services;     // in order of first mention; names are unique
  SessionSettings session;
  Labels labels;
  Packages packages;
  VmSettings vm;
  /// No key: what comes with packages, put into the environment after everything else.
  std::vector<ListItem> list_items;

  /// Where each value came from: key "limits.memory", "env.NAME", "mounts.TARGET",
  /// "services.NAME", "labels.NAME".
  /// A key that nobody set has no entry.
  std::map<std::string, Origin, std::less<>> origins;

  /// True when a person asked for it: set by a file, variable or flag, not by a shipped profile.
  bool is_explicit(std::string_view key) const;
};

/// One value from a flag. `where` names it in errors and in explain.
struct Override {
  enum class Mode { kSet, kAdd };  // kAdd: one more item of a list key, or of mounts
  std::string key;                 // "limits.memory", "env.NAME", "services.NAME", "mounts"
  /// A scalar's text as it is, never unquoted. A list or map key with kSet takes YAML flow form
  /// ("[a, b]") or one bare item.
  std::string value;
  std::string where;  // "--memory", "--set limits.memory"
  Mode mode = Mode::kSet;
};

using EnvLookup = std::function<std::optional<std::string>(const std::string&)>;
/// The process environment; empty values count as unset.
std::optional<std::string> process_env(const std::string& variable);

struct SearchDirs {
  std::string user;    // $XDG_CONFIG_HOME/sbx/profiles or ~/.config/sbx/profiles; may be empty
  std::string system;  // /etc/sbx/profiles
};
/// Works without HOME (password file) and never fails: a directory that cannot be found is empty.
SearchDirs search_dirs(const EnvLookup& env = process_env);

struct LoadRequest {
  /// A name ("python"), or a path when it has a slash or ends in .yaml or .yml. When absent:
  /// $SBX_PROFILE, else `fallback`.
  std::optional<std::string> name_or_path;
  std::string fallback = "base";
  std::vector<Override> overrides;  // applied in this order, after SBX_* variables
  EnvLookup env = process_env;
  std::optional<SearchDirs> dirs;  // absent: search_dirs(env)
  std::string state_dir;           // holds the trust store; empty: no trusted profiles
  /// sbx's own directories (state, runtime, config): no mount may cover or enter them.
  std::vector<std::string> private_dirs;
  /// --allow-outside: a project's profile may mount paths outside its directory, take any variable
  /// from the host's environment, and extend the user's and the system's profiles.
  bool allow_outside = false;
};

/// The profile with everything applied and checked. kUsage for any mistake (the message is
/// "FILE:LINE:COLUMN: sentence" of the first, the hint tells how to see all), kNotFound for an
/// unknown name (hint: did you mean). Reads only the files on the way to the named profile.
Result<Profile> load(const LoadRequest& request);

struct Diagnostic {
  std::string file;  // or the flag or variable, then line and column are 0
  int line = 0;
  int column = 0;
  std::string message;
  std::string to_string() const;  // "FILE:LINE:COLUMN: message"
};

/// Every mistake of the profile and of those that it extends, in the order of the file; empty when
/// it is fine. An error only when there is nothing to check (no such profile, not readable).
Result<std::vector<Diagnostic>> check(const LoadRequest& request);

/// Names of packages that somebody allows and refuses.
struct PackagePolicy {
  std::vector<std::string> allow;  // as Packages::allow
  std::vector<std::string> deny;
  std::string where;  // the file, for messages
};
/// What the user's and the system's own base.yaml say of packages: it holds for every profile, a
/// project's own too. An error when one of these files is there and has a mistake.
Result<std::vector<PackagePolicy>> package_policies(const LoadRequest& request);

/// The YAML text of a profile as it was written.
Result<std::string> source_text(const LoadRequest& request);

struct Listing {
  std::string name;
  std::string description;
  std::string file;  // empty: shipped
  Layer layer = Layer::kBuiltin;
  bool is_trusted_project = false;  // known through `profile trust`
  bool is_shadowed = false;         // another one of this name is found first
  std::string problem;              // why it cannot be used; empty when it can
};
/// All profiles that can be named, by name; the one in use before those that it shadows.
std::vector<Listing> list(const LoadRequest& request);

/// Remembers the content hash of a project's profile, so that it may be used by name. kExists when
/// the name belongs to a shipped, user or system profile; kUsage when the file has mistakes.
/// Returns the name.
Result<std::string> trust(const LoadRequest& request, const std::string& path);
/// Forgets it again. kNotFound when it was not trusted.
Status untrust(const LoadRequest& request, const std::string& name);

/// The profile for a file name's extension (".py") or the interpreter of a #! line
/// ("#!/usr/bin/env python3", with or without the rest of the file). Shipped profiles first, then
/// the user's and the system's; project files never.
std::optional<std::string> name_for_extension(std::string_view extension,
                                              const LoadRequest& request);
std::optional<std::string> name_for_shebang(std::string_view first_line,
                                            const LoadRequest& request);

/// Every effective value with where it came from. Values of variables that look like credentials
/// are shown as ***.
std::string explain(const Profile& profile);
std::string explain_json(const Profile& profile);

/// A JSON Schema (2020-12) of profile files, for editors.
std::string schema_json();

/// One line per key of a profile file; drives completion of --set.
struct KeyInfo {
  std::string_view path;
  std::string_view type;
  std::string_view env;  // "SBX_MEMORY" or empty
  std::string_view doc;
};
std::vector<KeyInfo> key_infos();

}  // namespace sbx::profile
