// Doctor: the table, and that no probe can hang, crash or change the process that asks.
#include "core/host/doctor.h"

#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace sbx::host {
namespace {

Finding answers(const DoctorContext& context) {
  return {Verdict::kWarn, "tried " + context.binary, "because", ""};
}
Finding hangs(const DoctorContext& /*context*/) {
  for (;;) {
    ::pause();
  }
}
Finding crashes(const DoctorContext& /*context*/) {
  std::abort();
}
Finding moves_away(const DoctorContext& /*context*/) {
  if (::chdir("/proc") != 0) return {};
  return {Verdict::kOk, {}, {}, {}};
}

std::vector<Diagnosis> ask(const std::vector<DoctorRow>& rows, Millis deadline = kDoctorDeadline) {
  std::vector<const DoctorRow*> chosen;
  for (const DoctorRow& row : rows) {
    chosen.push_back(&row);
  }
  DoctorContext context;
  context.binary = "it";
  return diagnose(context, chosen, deadline);
}

}  // namespace

TEST_CASE("doctor: a probe's answer arrives whole, in the order of the table") {
  const std::vector<DoctorRow> rows{{"a", "x", Need::kFeature, moves_away},
                                    {"b", "x", Need::kFeature, answers}};
  const auto found = ask(rows);
  REQUIRE(found.size() == 2);
  CHECK(found[0].row == &rows[0]);
  CHECK(found[0].finding.verdict == Verdict::kOk);
  CHECK(found[1].finding.verdict == Verdict::kWarn);
  CHECK(found[1].finding.tried == "tried it");
  CHECK(found[1].finding.cause == "because");
  CHECK(found[1].finding.fix.empty());
}

TEST_CASE("doctor: a probe that hangs or crashes costs its own row only") {
  const std::vector<DoctorRow> rows{{"hangs", "x", Need::kRun, hangs},
                                    {"crashes", "x", Need::kFeature, crashes},
                                    {"answers", "x", Need::kFeature, answers}};
  const auto found = ask(rows, Millis{500});
  CHECK(found[0].finding.verdict == Verdict::kNo);
  CHECK(found[0].finding.cause == "it did not end within 500ms");
  CHECK(found[1].finding.verdict == Verdict::kNo);
  CHECK(found[1].finding.cause.find("signal 6") != std::string::npos);
  CHECK(found[2].finding.verdict == Verdict::kWarn);
  CHECK_FALSE(can_run(found));
  CHECK(can_run(std::span(found).subspan(1)));  // the crashed row is not needed by run
}

TEST_CASE("doctor: every row has a name of its own, says what it is for, and answers here") {
  std::set<std::string_view> names;
  std::vector<const DoctorRow*> rows;
  for (const DoctorRow& row : doctor_rows()) {
    CHECK(names.insert(row.name).second);
    CHECK(row.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string_view::npos);
    CHECK_FALSE(row.needed_for.empty());
    if (row.name != "run") rows.push_back(&row);  // the test is not sbx
  }
  for (const Diagnosis& diagnosis : diagnose(DoctorContext(), rows)) {
    const Finding& finding = diagnosis.finding;
    CAPTURE(diagnosis.row->name);
    CAPTURE(finding.cause);
    CHECK_FALSE(finding.tried.empty());
    const bool is_good =
        finding.verdict == Verdict::kOk || finding.verdict == Verdict::kNotApplicable;
    CHECK(finding.cause.empty() == is_good);
  }
}

}  // namespace sbx::host
