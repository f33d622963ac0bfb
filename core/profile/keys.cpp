// Keys: the table, and what to say about a key that is not in it.
#include "core/profile/keys.h"

#include <algorithm>
#include <array>

#include "core/base/text.h"
#include "core/profile/package_rules.h"
#include "core/profile/rules.h"

namespace sbx::profile {
namespace {

constexpr std::uint64_t kMiB = 1024UL * 1024;
constexpr std::uint64_t kTiB = kMiB * kMiB;
constexpr std::uint64_t kDay = 24UL * 3600 * 1000;

// `+` turns the lambda into a plain function pointer.
#define SBX_FIELD(type, member) +[](Profile& p) -> type& { return p.member; }

const std::array kTable{
    Key{"extends",
        std::monostate{},
        "the profile whose values this one starts from",
        {},
        {},
        name_complaint,
        "^[A-Za-z0-9][A-Za-z0-9._-]*$"},
    Key{"description",
        SBX_FIELD(std::string, description),
        "one line for sbx profile ls",
        {},
        {},
        line_complaint,
        {},
        without_last_newline},
    Key{"isolation",
        SBX_FIELD(Isolation, isolation),
        "the kind of sandbox: namespaces (jail), a virtual machine (vm), or what the host can do",
        "SBX_ISOLATION"},
    Key{"image",
        SBX_FIELD(std::string, image),
        "the image whose files are the root; empty takes the host's own programs",
        "SBX_IMAGE",
        {},
        image_complaint,
        "^([A-Za-z0-9][A-Za-z0-9._/:@+-]*)?$"},
    Key{"language.compile",
        SBX_FIELD(std::vector<std::string>, language.compile),
        "the compiler and its arguments, with {source} and {program}; empty compiles nothing",
        {},
        {},
        argument_complaint},
    Key{"language.interpreter",
        SBX_FIELD(std::vector<std::string>, language.interpreter),
        "the command and arguments in front of a script; empty runs the file itself",
        {},
        {},
        argument_complaint},
    Key{"language.path",
        SBX_FIELD(HostTool, language.path),
        "the host's own interpreter or compiler to use, shown with the tree it is installed in"},
    Key{"language.extensions",
        SBX_FIELD(std::vector<std::string>, language.extensions),
        "file name extensions that choose this profile",
        {},
        {},
        extension_complaint,
        "^\\.[^./]+$"},
    Key{"language.shebangs",
        SBX_FIELD(std::vector<std::string>, language.shebangs),
        "interpreter names in a #! line that choose this profile",
        {},
        {},
        base_name_complaint,
        "^[^/]+$"},
    Key{"language.main",
        SBX_FIELD(std::string, language.main),
        "the name that code from -c or standard input gets in /work",
        {},
        {},
        base_name_complaint,
        "^[^/]+$"},
    Key{"language.package",
        SBX_FIELD(std::string, language.package),
        "the Debian package to name when the interpreter is missing",
        {},
        {},
        package_complaint,
        "^[a-z0-9][a-z0-9+.-]*$"},
    Key{"env",
        SBX_FIELD(std::vector<EnvVar>, env),
        "variables set inside; values are taken as they are written",
        {},
        {},
        env_value_complaint},
    Key{"env_pass",
        SBX_FIELD(std::vector<std::string>, env_pass),
        "variables taken over from the caller's environment when they are set there",
        {},
        {},
        env_name_complaint,
        "^[A-Za-z_][A-Za-z0-9_]*$"},
    Key{"workdir",
        SBX_FIELD(std::string, workdir),
        "the directory inside that the program starts in",
        "SBX_WORKDIR",
        {},
        workdir_complaint,
        "^/",
        normal_path},
    Key{"hostname",
        SBX_FIELD(std::string, hostname),
        "the host name inside",
        {},
        {},
        hostname_complaint,
        "^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$"},
    Key{"mounts",
        SBX_FIELD(std::vector<Mount>, mounts),
        "files and directories of the host to show"},
    Key{"limits.memory",
        SBX_FIELD(std::optional<Bytes>, limits.memory),
        "memory of all processes together, files in /work and /tmp included; no swap",
        "SBX_MEMORY",
        {4 * kMiB, 16 * kTiB}},
    Key{"limits.pids",
        SBX_FIELD(std::optional<std::uint64_t>, limits.pids),
        "processes and threads at one time",
        "SBX_PIDS",
        {1, 4194304}},
    Key{"limits.timeout",
        SBX_FIELD(std::optional<Millis>, limits.timeout),
        "wall-clock time, then SIGTERM, two seconds later SIGKILL",
        "SBX_TIMEOUT",
        {10, 365 * kDay}},
    Key{"limits.cpu_time",
        SBX_FIELD(std::optional<Millis>, limits.cpu_time),
        "processor time of all processes together, then SIGXCPU, two seconds later SIGKILL",
        "SBX_CPU_TIME",
        {10, 365 * kDay}},
    Key{"limits.output",
        SBX_FIELD(std::optional<Bytes>, limits.output),
        "bytes passed on from each of standard output and standard error",
        "SBX_OUTPUT",
        {0, 16 * kTiB}},
    Key{"limits.open_files",
        SBX_FIELD(std::uint64_t, limits.open_files),
        "open files of one process",
        "SBX_OPEN_FILES",
        {16, 1048576}},
    Key{"limits.disk",
        SBX_FIELD(std::optional<Bytes>, limits.disk),
        "/work, /tmp, /dev/shm and the home directory together",
        "SBX_DISK",
        {64UL * 1024, 16 * kTiB}},
    Key{"limits.inodes",
        SBX_FIELD(std::optional<std::uint64_t>, limits.inodes),
        "files and directories in /work, /tmp, /dev/shm and the home directory together",
        "SBX_INODES",
        {16, 4294967295}},
    Key{"limits.cpus",
        SBX_FIELD(std::optional<std::uint32_t>, limits.cpu_millis),
        "processor time per second of wall-clock time, 1.5 is one and a half processors",
        "SBX_CPUS",
        {10, 1024UL * 1000}},
    Key{"limits.visible",
        SBX_FIELD(bool, limits.visible),
        "show the limits at /sys/fs/cgroup inside, as happens when memory or cpus are asked for"},
    Key{"limits.best_effort",
        SBX_FIELD(bool, limits.best_effort),
        "run even where a limit cannot be enforced on this host",
        "SBX_BEST_EFFORT"},
    Key{"capabilities",
        SBX_FIELD(std::vector<std::string>, capabilities),
        "capabilities(7) that the program gets inside its own namespaces",
        {},
        {},
        capability_complaint,
        {},
        canonical_capability},
    Key{"nesting",
        SBX_FIELD(bool, nesting),
        "allow user namespaces and mounts inside, for sandboxes within the sandbox"},
    Key{"require",
        SBX_FIELD(std::vector<std::string>, require),
        "patterns of files that must exist in the working directory at the end",
        {},
        {},
        glob_complaint,
        "^[^/]"},
    Key{"services",
        SBX_FIELD(std::vector<Service>, services),
        "programs that a session starts by itself, each with command, restart and env",
        {},
        {},
        service_name_complaint,
        "^[a-z0-9][a-z0-9-]*$"},
    Key{"session.idle_pause",
        SBX_FIELD(std::optional<Millis>, session.idle_pause),
        "pause a session after so long without use",
        {},
        {1000, 365 * kDay}},
    Key{"session.ttl",
        SBX_FIELD(std::optional<Millis>, session.ttl),
        "remove a session after so long without use",
        {},
        {1000, 3650 * kDay}},
    Key{"packages.pip",
        SBX_FIELD(std::vector<std::string>, packages.pip),
        "Python packages to add, such as numpy==1.26.4",
        {},
        {},
        pip_spec_complaint,
        "^[A-Za-z0-9]",
        without_spaces},
    Key{"packages.npm",
        SBX_FIELD(std::vector<std::string>, packages.npm),
        "Node.js packages to add, such as left-pad@1.3.0",
        {},
        {},
        npm_spec_complaint,
        "^[A-Za-z0-9@]"},
    Key{"packages.allow",
        SBX_FIELD(std::vector<std::string>, packages.allow),
        "patterns of the names that may be added, dependencies too; empty allows every name",
        {},
        {},
        package_pattern_complaint,
        "^[A-Za-z0-9@*]"},
    Key{"packages.deny",
        SBX_FIELD(std::vector<std::string>, packages.deny),
        "patterns of names that are refused, whatever packages.allow says",
        {},
        {},
        package_pattern_complaint,
        "^[A-Za-z0-9@*]"},
    Key{"packages.frozen",
        SBX_FIELD(bool, packages.frozen),
        "take exactly what packages.lock names and choose no version anew",
        "SBX_PACKAGES_FROZEN"},
    Key{"packages.lock",
        SBX_FIELD(HostPath, packages.lock),
        "the file with exact versions and digests; written when it is missing or out of date"},
    Key{"packages.source",
        SBX_FIELD(HostPath, packages.source),
        "the directory of wheels and npm tarballs that packages are taken from",
        "SBX_PACKAGES_SOURCE"},
    Key{"vm.accel",
        SBX_FIELD(std::string, vm.accel),
        "what runs a virtual machine: the processor (kvm), or slow software emulation (tcg)",
        "SBX_ACCEL",
        {},
        accel_complaint,
        "^(kvm|tcg)$"},
    Key{"vm.kernel",
        SBX_FIELD(std::string, vm.kernel),
        "the guest kernel of a virtual machine; empty takes the newest of sbx kernel ls",
        {},
        {},
        kernel_complaint,
        "^([A-Za-z0-9][A-Za-z0-9._+~-]*)?$"},
    Key{"vm.warm",
        SBX_FIELD(bool, vm.is_warm),
        "start a virtual machine from a memory image that has booted; false boots each time"},
    Key{"labels",
        SBX_FIELD(Labels, labels),
        "words on a session for people and programs to find it by",
        {},
        {},
        label_name_complaint,
        "^[A-Za-z0-9][A-Za-z0-9._/-]*$"},
};
#undef SBX_FIELD

constexpr std::array<std::string_view, 5> kGroups{
    "language", "limits", "packages", "session", "vm"};

// Keys that the design knows and this version does not have: saying so beats "unknown key".
constexpr std::array<std::string_view, 8> kLater{
    "root", "network", "net", "secrets", "hooks", "ports", "browser", "approvals"};

struct Synonym {
  std::string_view word;
  std::string_view path;
};
constexpr std::array kSynonyms{
    Synonym{"environment", "env"},
    Synonym{"volumes", "mounts"},
    Synonym{"binds", "mounts"},
    Synonym{"command", "language.interpreter"},
    Synonym{"compiler", "language.compile"},
    Synonym{"cmd", "language.interpreter"},
    Synonym{"mem", "limits.memory"},
    Synonym{"cpu", "limits.cpus"},
    Synonym{"processes", "limits.pids"},
    Synonym{"nofile", "limits.open_files"},
    Synonym{"working_dir", "workdir"},
    Synonym{"cwd", "workdir"},
    Synonym{"caps", "capabilities"},
    Synonym{"cap_add", "capabilities"},
    Synonym{"inherits", "extends"},
    Synonym{"backend", "isolation"},
    Synonym{"service", "services"},
    Synonym{"daemons", "services"},
    Synonym{"label", "labels"},
    Synonym{"idle_timeout", "session.idle_pause"},
    Synonym{"time_to_live", "session.ttl"},
    Synonym{"requirements", "packages.pip"},
    Synonym{"dependencies", "packages.npm"},
    Synonym{"wheels", "packages.source"},
};

/// "Open-Files" as "open_files".
std::string folded(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c >= 'A' && c <= 'Z') {
      out += static_cast<char>(c - 'A' + 'a');
    } else {
      out += c == '-' ? '_' : c;
    }
  }
  return out;
}

std::string_view group_of(std::string_view path) {
  const std::size_t dot = path.find('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view leaf_of(std::string_view path) {
  const std::size_t dot = path.find('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string place(std::string_view path) {
  const std::string_view group = group_of(path);
  return group.empty() ? "at the top level" : text::cat("below \"", group, "\"");
}

std::vector<std::string_view> names_in(std::string_view group) {
  std::vector<std::string_view> names;
  if (group.empty()) names.assign(kGroups.begin(), kGroups.end());
  for (const Key& key : kTable) {
    if (group_of(key.path) == group) names.push_back(leaf_of(key.path));
  }
  return names;
}

struct TypeName {
  std::string_view operator()(std::monostate /*extends*/) const { return "name"; }
  std::string_view operator()(Get<std::string> /*get*/) const { return "text"; }
  std::string_view operator()(Get<bool> /*get*/) const { return "boolean"; }
  std::string_view operator()(Get<Isolation> /*get*/) const { return "jail, vm or auto"; }
  std::string_view operator()(Get<HostTool> /*get*/) const { return "path"; }
  std::string_view operator()(Get<HostPath> /*get*/) const { return "path"; }
  std::string_view operator()(Get<std::uint64_t> /*get*/) const { return "number"; }
  std::string_view operator()(Get<std::optional<std::uint64_t>> /*get*/) const {
    return "number or unlimited";
  }
  std::string_view operator()(Get<std::optional<Bytes>> /*get*/) const {
    return "size or unlimited";
  }
  std::string_view operator()(Get<std::optional<Millis>> /*get*/) const {
    return "duration or unlimited";
  }
  std::string_view operator()(Get<std::optional<std::uint32_t>> /*get*/) const {
    return "decimal or unlimited";
  }
  std::string_view operator()(Get<std::vector<std::string>> /*get*/) const {
    return "list of texts";
  }
  std::string_view operator()(Get<std::vector<EnvVar>> /*get*/) const { return "map of texts"; }
  std::string_view operator()(Get<std::vector<Mount>> /*get*/) const { return "list of mounts"; }
  std::string_view operator()(Get<std::vector<Service>> /*get*/) const { return "map of services"; }
  std::string_view operator()(Get<Labels> /*get*/) const { return "map of texts"; }
};

}  // namespace

std::span<const Key> keys() {
  return kTable;
}

const Key* find_key(std::string_view path) {
  const auto* const found =
      std::find_if(kTable.begin(), kTable.end(), [&](const Key& key) { return key.path == path; });
  return found == kTable.end() ? nullptr : found;
}

bool is_group(std::string_view path) {
  return std::find(kGroups.begin(), kGroups.end(), path) != kGroups.end();
}

std::string_view type_name(const Key& key) {
  return std::visit(TypeName{}, key.field);
}

std::string unknown_key(std::string_view group, std::string_view key) {
  const std::string shown = text::cat('"', text::escape(key.substr(0, 80)), '"');
  const std::string fold = folded(key);
  const std::vector<std::string_view> siblings = names_in(group);
  const auto exact = std::find(siblings.begin(), siblings.end(), fold);
  if (exact != siblings.end()) {
    return text::cat("unknown key ", shown, " (did you mean \"", *exact, "\"?)");
  }
  if (group.empty() && fold == "name") {
    return text::cat("unknown key ", shown, ": a profile is named by its file, NAME.yaml");
  }
  if (group.empty() && std::find(kLater.begin(), kLater.end(), fold) != kLater.end()) {
    return text::cat("key ", shown, " is not supported by this version of sbx");
  }
  if (const Key* dotted = find_key(fold); dotted != nullptr && group.empty()) {
    return text::cat("key ",
                     shown,
                     " is written as \"",
                     leaf_of(dotted->path),
                     "\" below \"",
                     group_of(dotted->path),
                     '"');
  }
  for (const Key& other : kTable) {
    if (leaf_of(other.path) != fold) continue;
    return text::cat("key ", shown, " belongs ", place(other.path));
  }
  for (const Synonym& synonym : kSynonyms) {
    if (synonym.word != fold) continue;
    return text::cat(
        "unknown key ", shown, ": use \"", leaf_of(synonym.path), "\" ", place(synonym.path));
  }
  if (const auto close = text::closest(fold, siblings)) {
    return text::cat("unknown key ", shown, " (did you mean \"", *close, "\"?)");
  }
  for (const Key& other : kTable) {  // "memroy" at the top level
    const std::array<std::string_view, 1> leaf{leaf_of(other.path)};
    if (group_of(other.path) == group || !text::closest(fold, leaf)) continue;
    return text::cat("unknown key ",
                     shown,
                     " (did you mean \"",
                     leaf[0],
                     "\", which belongs ",
                     place(other.path),
                     "?)");
  }
  const std::string known = [&] {
    std::vector<std::string> names(siblings.begin(), siblings.end());
    return text::join(names, ", ");
  }();
  return text::cat("unknown key ",
                   shown,
                   group.empty() ? "" : text::cat(" below \"", group, '"'),
                   "; known: ",
                   known);
}

std::vector<KeyInfo> key_infos() {
  std::vector<KeyInfo> infos;
  infos.reserve(kTable.size());
  for (const Key& key : kTable) {
    infos.push_back(KeyInfo{key.path, type_name(key), key.env, key.doc});
  }
  return infos;
}

}  // namespace sbx::profile
