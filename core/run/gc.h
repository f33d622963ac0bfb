// Gc: what a killed or crashed sbx left on this host, and its removal, one table row per kind.
//
// Theory of operation
//  1. A kind's `find` names what is left, with why it is nobody's any more: the sbx that its name
//     or its note speaks of is gone (pid, start time and pid namespace), or the lock that a living
//     one holds is free. What cannot be told stays.
//  2. `remove` takes away one thing. It looks again first, and something that another gc (or any
//     other command) removed meanwhile is success.
// Nothing is written anywhere, so that a full disk stops nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace sbx::run {

struct GcContext {
  std::string state_dir;    ///< empty: there is none
  std::string runtime_dir;  ///< the directory of sockets; empty: there is none
  std::string roots_dir;    ///< host::kept_roots_dir(); empty: there is none
};

/// One thing that was left.
struct Leftover {
  std::string name;                    ///< its path
  std::string why;                     ///< why it is nobody's, e.g. "process 4711 is gone"
  std::optional<std::uint64_t> bytes;  ///< what it holds; unset where that means nothing
};

struct LeftoverKind {
  std::string_view name;  ///< "cgroup"
  std::vector<Leftover> (*find)(const GcContext&);
  Status (*remove)(const GcContext&, const Leftover&);
};
/// The table.
std::span<const LeftoverKind> leftover_kinds();

enum class Gc : bool { kDryRun, kRemove };

struct GcEntry {
  std::string_view kind;
  Leftover leftover;
  bool is_removed = false;
  std::string problem;  ///< why it could not be removed; empty with kDryRun
};
/// Temporary files of the state directory whose writer is gone, at least so many seconds old: one
/// that is younger may not be locked yet.
struct Age {
  std::int64_t seconds = 60;
};
std::vector<Leftover> find_temporaries(const GcContext& context, Age least);

/// Removes downloads of images that were cut short.
void remove_downloads(const std::string& state_dir);

/// Looks through the whole table. May wait up to half a second for each group whose processes are
/// still ending.
std::vector<GcEntry> collect_garbage(const GcContext& context, Gc how);

}  // namespace sbx::run
