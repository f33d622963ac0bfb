// Doctor: what this host can do for sbx, one row per capability, each found by doing it.
//
// Theory of operation
//  1. Each probe runs in a process of its own, all at the same time: what it makes or changes
//     (namespaces, mounts, filters) ends with that process, and one that hangs or crashes costs a
//     row, not the answer.
//  2. The rows are collected in the order of the table, until one common deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/host/facts.h"
#include "core/host/paths.h"

namespace sbx::host {

enum class Verdict : std::uint8_t {
  kOk,             ///< works
  kWarn,           ///< works, but not as well as it could
  kNo,             ///< does not work
  kNotApplicable,  ///< plays no part here
};
/// "ok", "warn", "no", "n/a".
std::string_view name(Verdict verdict);

/// The answer of one probe.
struct Finding {
  Verdict verdict = Verdict::kNo;
  std::string tried;  ///< what was done and seen
  std::string cause;  ///< why it is not "ok"; empty when it is
  std::string fix;    ///< the exact command or setting; empty when there is none
};

/// A program that a profile runs scripts with.
struct Interpreter {
  std::string profile;  ///< "python"
  std::string path;     ///< inside and, /usr being the host's, outside: "/usr/bin/python3"
};

/// The kernel that virtual machines would be started with: what it is, or why there is none.
struct GuestKernel {
  std::string found;                 ///< "6.1.0-57-amd64"
  std::vector<std::string> lacking;  ///< what a guest cannot do with it, a sentence each
};

/// What the probes look at; the default is this process on this host.
struct DoctorContext {
  HostFiles files;
  PathContext paths;
  std::string binary;  ///< absolute path of the running sbx; empty when it cannot be read
  std::vector<Interpreter> interpreters;
  /// Looks for it, from above: kernels are kept by a layer that this one does not know. Not set: it
  /// is not looked for.
  std::function<Result<GuestKernel>()> find_guest_kernel;
  /// Found here and not in a probe's process, whose parent is not the user's shell.
  Result<confine::CgroupLayout> cgroups;

  DoctorContext();
};

enum class Need : std::uint8_t {
  kRun,      ///< `sbx run` does not work without it
  kFeature,  ///< only what the row names
};

struct DoctorRow {
  std::string_view name;        ///< "cgroup-memory": a word for the command line
  std::string_view needed_for;  ///< "limits on memory; …"
  Need need = Need::kFeature;
  Finding (*probe)(const DoctorContext&) = nullptr;
};
/// The table, in the order of the report.
std::span<const DoctorRow> doctor_rows();

struct Diagnosis {
  const DoctorRow* row = nullptr;
  Finding finding;
};

/// How long the slowest probe may take: long enough for a busy or emulated host, where a run takes
/// seconds.
inline constexpr Millis kDoctorDeadline{30'000};
/// The same for a program that a probe starts.
inline constexpr Millis kHelperDeadline{25'000};

/// Runs the probes of `rows` side by side. Blocks, at most about `deadline`: whatever has not
/// answered by then is a "no" that says so.
std::vector<Diagnosis> diagnose(const DoctorContext& context,
                                std::span<const DoctorRow* const> rows,
                                Millis deadline = kDoctorDeadline);

/// Whether nothing that `sbx run` needs is missing.
bool can_run(std::span<const Diagnosis> diagnoses);

}  // namespace sbx::host
