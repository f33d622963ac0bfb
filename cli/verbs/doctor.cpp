// Verb doctor: what this host can do for sbx, and what mends what it cannot.
#include "core/host/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/base/text.h"
#include "core/host/paths.h"
#include "core/kernel/store.h"
#include "core/profile/profile.h"

namespace sbx::cli {
namespace {

using host::Diagnosis;
using host::DoctorRow;
using host::Verdict;

constexpr std::array<std::string_view, 2> kUsage = {"sbx doctor [--json] [CHECK...]",
                                                    "sbx doctor --apparmor-profile"};
constexpr std::string_view kDetails =
    "Each row is found by doing it: a namespace is made, a limit written and read back, a program "
    "run in a sandbox. Nothing is left, no rights are needed. A row that does not work says why, "
    "what mends it, and what depends on it. CHECK names the rows to look at; without one, all.\n\n"
    "The exit status is 0 when sbx run works here, 1 when something that it needs is missing, 2 "
    "for a mistake in the command.";
constexpr std::array<Flag, 2> kFlags = {{
    {.name = "json", .help = "Print one JSON object"},
    {.name = "apparmor-profile",
     .help = "Print an AppArmor profile that lets this sbx make user namespaces (Ubuntu)"},
}};
constexpr std::array<Example, 4> kExamples = {{
    {"sbx doctor", "everything"},
    {"sbx doctor user-namespaces cgroup-memory", "two rows only"},
    {"sbx doctor --json", "for programs"},
    {"sbx doctor --apparmor-profile | sudo tee /etc/apparmor.d/sbx",
     "on Ubuntu; then: sudo apparmor_parser -r /etc/apparmor.d/sbx"},
}};

constexpr std::size_t kNameWidth = 18;
constexpr std::size_t kVerdictWidth = 6;
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kFaint = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

/// `program` as a sandbox finds it, whose /usr is the host's.
std::string path_inside(const std::string& program) {
  if (program.starts_with('/')) return program;
  for (const std::string_view dir : {"/usr/local/bin/", "/usr/bin/", "/bin/"}) {
    std::string path = text::cat(dir, program);
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return text::cat("/usr/bin/", program);
}

/// The interpreters of the shipped profiles.
std::vector<host::Interpreter> interpreters() {
  std::vector<host::Interpreter> out;
  profile::LoadRequest request;
  for (const profile::Listing& listing : profile::list(request)) {
    if (listing.layer != profile::Layer::kBuiltin || !listing.problem.empty()) continue;
    request.name_or_path = listing.name;
    const auto loaded = profile::load(request);
    if (!loaded.ok() || loaded.value().language.interpreter.empty()) continue;
    out.push_back({listing.name, path_inside(loaded.value().language.interpreter.front())});
  }
  return out;
}

Result<std::vector<const DoctorRow*>> chosen_rows(const std::vector<std::string>& words) {
  std::vector<const DoctorRow*> out;
  std::vector<std::string_view> names;
  for (const DoctorRow& row : host::doctor_rows()) {
    names.push_back(row.name);
    if (words.empty() || std::find(words.begin(), words.end(), row.name) != words.end()) {
      out.push_back(&row);
    }
  }
  for (const std::string& word : words) {
    if (std::find(names.begin(), names.end(), word) != names.end()) continue;
    Error error(Errc::kUsage, text::cat("there is no check \"", text::escape(word), "\""));
    const auto near = text::closest(word, names);
    return std::move(error).with_hint(near ? text::cat("did you mean ", *near, "?")
                                           : std::string("sbx doctor shows all of them"));
  }
  return out;
}

std::string_view colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return kGreen;
    case Verdict::kWarn:
      return kYellow;
    case Verdict::kNo:
      return kRed;
    case Verdict::kNotApplicable:
      return kFaint;
  }
  return {};
}

Result<host::GuestKernel> find_guest_kernel() {
  SBX_ASSIGN(const host::Dir state, host::open_state_dir());
  SBX_ASSIGN(const kernel::Kernel found, kernel::find(state.path, ""));
  host::GuestKernel out{.found = found.name(), .lacking = kernel::lacking(found.features())};
  if (!found.features().is_known) {
    out.lacking.emplace_back("it has no modules here, and what is built in is not known");
  }
  return out;
}

/// What is to be known of all rows, in one line.
std::string summary(const std::vector<Diagnosis>& diagnoses) {
  std::string lacking;
  std::string weak;
  for (const auto& [row, finding] : diagnoses) {
    if (finding.verdict != Verdict::kNo && finding.verdict != Verdict::kWarn) continue;
    const bool is_fatal = finding.verdict == Verdict::kNo && row->need == host::Need::kRun;
    std::string& list = is_fatal ? lacking : weak;
    list += text::cat(list.empty() ? "" : ", ", row->name);
  }
  std::string out = lacking.empty() ? std::string("sbx run works here")
                                    : text::cat("sbx run does not work here: ", lacking);
  if (!weak.empty()) out += text::cat("; look at: ", weak);
  return out;
}

/// The row before `diagnosis` that fails for the same cause, so that it is told once; or null.
const DoctorRow* same_cause(const std::vector<Diagnosis>& all, const Diagnosis& diagnosis) {
  if (diagnosis.finding.cause.empty()) return nullptr;
  for (const Diagnosis& other : all) {
    if (&other == &diagnosis) return nullptr;
    if (other.finding.cause == diagnosis.finding.cause &&
        other.finding.fix == diagnosis.finding.fix) {
      return other.row;
    }
  }
  return nullptr;
}

std::string row_text(const Diagnosis& diagnosis, const DoctorRow* same, bool colour) {
  const auto& [row, finding] = diagnosis;
  const std::string indent(kVerdictWidth + kNameWidth, ' ');
  const std::string_view verdict = host::name(finding.verdict);
  std::string out;
  if (colour) out += colour_of(finding.verdict);
  out += verdict;
  if (colour) out += kPlain;
  out.append(kVerdictWidth - verdict.size(), ' ');
  out += row->name;
  out.append(kNameWidth - row->name.size(), ' ');
  out += text::escape(finding.tried) + '\n';
  const auto add = [&](std::string_view label, std::string_view words) {
    if (!words.empty()) out += text::cat(indent, label, text::escape(words), "\n");
  };
  if (same != nullptr) {
    add("cause: ", text::cat("the same as of ", same->name));
  } else {
    add("cause: ", finding.cause);
    add("fix:   ", finding.fix);
  }
  if (finding.verdict == Verdict::kNo || finding.verdict == Verdict::kWarn) {
    add("for:   ", row->needed_for);
  }
  return out;
}

std::string as_text(const std::vector<Diagnosis>& diagnoses) {
  const bool colour = has_colour(Stream::kOut);
  std::string out;
  for (const Diagnosis& diagnosis : diagnoses) {
    out += row_text(diagnosis, same_cause(diagnoses, diagnosis), colour);
  }
  return out + '\n' + summary(diagnoses) + '\n';
}

std::string as_json(const std::vector<Diagnosis>& diagnoses) {
  std::string out = text::cat(R"({"schema":1,"version":)",
                              json_string(SBX_VERSION),
                              R"(,"run_works":)",
                              host::can_run(diagnoses) ? "true" : "false",
                              R"(,"summary":)",
                              json_string(summary(diagnoses)),
                              R"(,"checks":[)");
  bool is_first = true;
  for (const auto& [row, finding] : diagnoses) {
    const auto text_or_null = [](const std::string& text) {
      return text.empty() ? std::string("null") : json_string(text);
    };
    out += text::cat(is_first ? "" : ",",
                     R"({"name":)",
                     json_string(row->name),
                     R"(,"status":)",
                     json_string(host::name(finding.verdict)),
                     R"(,"needed_by_run":)",
                     row->need == host::Need::kRun ? "true" : "false",
                     R"(,"tried":)",
                     json_string(finding.tried),
                     R"(,"cause":)",
                     text_or_null(finding.cause),
                     R"(,"fix":)",
                     text_or_null(finding.fix),
                     R"(,"needed_for":)",
                     json_string(row->needed_for),
                     "}");
    is_first = false;
  }
  return out + "]}\n";
}

int print_apparmor_profile(const host::DoctorContext& context) {
  if (context.binary.empty()) {
    return failed(Error(Errc::kSystem, "read /proc/self/exe: the path of sbx cannot be read"));
  }
  return printed(print(host::apparmor_profile(context.binary)));
}

int doctor(const Invocation& invocation) {
  host::DoctorContext context;
  if (invocation.has("apparmor-profile")) return print_apparmor_profile(context);
  const auto rows = chosen_rows(invocation.words());
  if (!rows.ok()) return failed(rows.error());
  context.interpreters = interpreters();
  context.find_guest_kernel = find_guest_kernel;
  const std::vector<Diagnosis> diagnoses = host::diagnose(context, rows.value());
  const int status =
      printed(print(invocation.has("json") ? as_json(diagnoses) : as_text(diagnoses)));
  if (status != kExitOk) return status;
  return host::can_run(diagnoses) ? kExitOk : kExitFailure;
}

}  // namespace

constexpr Verb kDoctorVerb = {
    .name = "doctor",
    .summary = "Check what this host can do, with cause and fix of what it cannot",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 0, .max = 64, .complete = Complete::kNothing, .name = "CHECK"},
    .examples = kExamples,
    .run = doctor,
};

}  // namespace sbx::cli
