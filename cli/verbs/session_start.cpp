// Verb session start: makes a session, or starts a stopped one again.
#include <array>
#include <string>
#include <utility>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/packages.h"
#include "cli/run_options.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/session/report.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx session start [NAME] [FLAG...]"};

constexpr std::string_view kDetails =
    "Makes a workspace that keeps its files, and starts it; without NAME one is made up. Prints "
    "the name. A session that is stopped starts again, with its files and with what it was made "
    "with; flags are for new ones. /work, the home directory and the rest of the root are kept; "
    "/tmp, /dev/shm and processes are not kept over a stop.\n\n"
    "The session has a supervisor of its own and no terminal: it goes on after logout, until "
    "sbx session stop or rm.";

constexpr std::string_view kWhat = "What it is like";
constexpr std::string_view kLimits = "Limits (the profile's when not given; unlimited lifts one)";
constexpr std::string_view kResult = "Result";
constexpr std::array<std::string_view, 3> kIsolations = {"jail", "vm", "auto"};
constexpr std::array<std::string_view, 2> kAccels = {"kvm", "tcg"};

constexpr std::array kFlags = {
    Flag{'p',
         "profile",
         "NAME",
         "Profile, by name or path of a .yaml file (default agent)",
         kWhat,
         Repeat::kLast,
         Complete::kProfile},
    Flag{'\0',
         "image",
         "NAME",
         "Take the files of this image as the root instead of the host's; see sbx image ls",
         kWhat},
    Flag{'\0',
         "isolation",
         "KIND",
         "jail, vm or auto (default jail)",
         kWhat,
         Repeat::kLast,
         Complete::kChoice,
         kIsolations},
    Flag{'\0',
         "accel",
         "HOW",
         "What runs a virtual machine: kvm (the default), or tcg, which needs nothing and is slow",
         kWhat,
         Repeat::kLast,
         Complete::kChoice,
         kAccels},
    Flag{'\0', "label", "KEY=VALUE", "A label, for ls --label; repeatable", kWhat, Repeat::kAll},
    Flag{'e',
         "env",
         "NAME[=VALUE]",
         "Set a variable; without =VALUE pass on ours; repeatable",
         kWhat,
         Repeat::kAll},
    Flag{'w', "workdir", "DIR", "Programs start in this directory (default /work)", kWhat},
    Flag{'v',
         "mount",
         "SRC:DST[:ro|rw|overlay]",
         "Show a host file or directory at DST: read-only, with :rw to be changed, with :overlay "
         "changes stay in the session; repeatable",
         kWhat,
         Repeat::kAll,
         Complete::kFile},
    Flag{'P',
         "package",
         "SPEC",
         "Add a package: numpy==1.26.4 with a Python profile, left-pad@1.3.0 with a Node.js one, "
         "pip:SPEC or npm:SPEC with any; repeatable",
         kWhat,
         Repeat::kAll},
    Flag{'\0',
         "set",
         "KEY=VALUE",
         "Set any key of the profile; a flag of its own wins over it; repeatable",
         kWhat,
         Repeat::kAll},
    Flag{'\0',
         "allow-outside",
         "",
         "Let a project's own profile reach outside its directory (mounts, variables)",
         kWhat},
    Flag{'m', "memory", "SIZE", "Memory of all processes together: 512M, 2G", kLimits},
    Flag{'\0', "pids", "N", "Processes and threads", kLimits},
    Flag{'\0', "disk", "SIZE", "All files that it writes", kLimits},
    Flag{'\0', "cpus", "N", "Processor time per second of time: 1.5 is one and a half", kLimits},
    Flag{'\0', "output-limit", "SIZE", "Output passed on, of each stream of a program", kLimits},
    Flag{'\0', "open-files", "N", "Open files of each process", kLimits},
    Flag{'\0', "json", "", "Print one JSON object", kResult},
    Flag{'q', "quiet", "", "No warnings, and no name on stdout", kResult},
};

constexpr std::array kExamples = {
    Example{"sbx session start web -p agent -m 4G", "a workspace with 4 GiB of memory"},
    Example{"sbx session start web", "start it again after a stop or a reboot"},
    Example{"sbx session start try -v ~/src/app:/work/app:overlay",
            "work on a project without changing it"},
};

bool has_flags_of_new(const Invocation& given) {
  for (const GivenFlag& flag : given.flags()) {
    if (flag.flag->group != kResult) return true;
  }
  return false;
}

int show(const session::Store& store, const std::string& name, const Invocation& given) {
  if (given.has("json")) {
    Result<session::Listing> now = store.look(name);
    if (!now.ok()) return failed(now.error());
    return printed(print(session::listing_json(now.value()) + "\n"));
  }
  return given.has("quiet") ? 0 : printed(print(name + "\n"));
}

Result<session::NewSession> wanted_of(const Invocation& given, const Directories& dirs) {
  session::NewSession wanted;
  if (!given.words().empty()) wanted.name = given.words()[0];
  wanted.profile.state_dir = dirs.state;
  wanted.profile.private_dirs = dirs.all;
  wanted.profile.fallback = "agent";
  if (const std::string* profile = given.last("profile")) wanted.profile.name_or_path = *profile;
  SBX_ASSIGN(wanted.profile.overrides, overrides_of(given));
  wanted.packages = given.all("package");
  wanted.add_packages = packages_hook(wanted.profile, given.has("quiet") ? Talk::kNo : Talk::kYes);
  wanted.profile.allow_outside = given.has("allow-outside");
  for (const std::string& label : given.all("label")) {
    SBX_ASSIGN(auto parsed, session::parse_label(label));
    wanted.labels.push_back(std::move(parsed));
  }
  return wanted;
}

int start(const Invocation& given) {
  Result<Directories> dirs = directories(State::kNeeded);
  if (!dirs.ok()) return failed(dirs.error());
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  session::remove_expired(store.value());
  const session::Warn warn = given.has("quiet") ? session::Warn() : print_warning;
  if (!given.words().empty()) {
    const std::string& name = given.words()[0];
    if (Status valid = session::check_name(name); !valid.ok()) return failed(valid.error());
    const Result<session::Listing> now = store.value().look(name);
    if (now.ok() && !now.value().is_alive() && !has_flags_of_new(given)) {
      Status started = session::start_again(store.value(), name, profile::process_env, warn);
      if (!started.ok()) return failed(started.error());
      if (!given.has("quiet")) {
        (void)print_notice(
            "sbx: files are as they were; processes, /tmp and /dev/shm are not kept\n");
      }
      return show(store.value(), name, given);
    }
  }
  Result<session::NewSession> wanted = wanted_of(given, dirs.value());
  if (!wanted.ok()) return failed(wanted.error());
  Result<session::Record> made = session::start_new(store.value(), wanted.value(), warn);
  if (!made.ok()) return failed(made.error());
  return show(store.value(), made.value().name, given);
}

}  // namespace

constexpr Verb kSessionStartVerb = {
    .name = "session start",
    .summary = "Make a workspace that lasts, or start a stopped one",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.max = 1, .name = "NAME"},
    .examples = kExamples,
    .run = start,
};

}  // namespace sbx::cli
