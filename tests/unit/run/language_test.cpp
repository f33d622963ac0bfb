// language_test: what a failed compiler or a missing tool becomes in the report.
#include "core/run/language.h"

#include <cerrno>
#include <csignal>

#include <doctest/doctest.h>

namespace sbx::run {

namespace {

JobRequest compiled_request() {
  JobRequest request;
  request.compile.emplace().argv = {"cc", "/work/main.c"};
  request.exec.argv = {"/tmp/sbx-program"};
  return request;
}

JobEnd end_of_compiler(int wait_status) {
  JobEnd end;
  end.compile.emplace();
  end.compile->wait_status = wait_status;
  end.compile->output.data = "words";
  end.facts.wait_status = wait_status;
  return end;
}

profile::Profile profile_named(const char* package) {
  profile::Profile profile;
  profile.name = "p";
  profile.language.package = package;
  return profile;
}

Report report_of(const JobEnd& end) {
  Report report;
  report.outcome = supervise::classify(end.facts);
  report.exit_status = supervise::exit_status(report.outcome);
  return report;
}

}  // namespace

TEST_CASE("language: a compiler's own status is the run's, with a code of its own") {
  JobEnd end = end_of_compiler(3 << 8);
  Report report = report_of(end);
  add_compile(compiled_request(), end, report);
  CHECK(report.exit_status == 3);
  REQUIRE(report.failure.has_value());
  CHECK(report.failure->code == "compile_failed");
  CHECK(report.failure->message == "compiling failed: cc ended with exit status 3");
  REQUIRE(report.compile.has_value());
  CHECK(report.compile->exit_status == 3);
  CHECK(report.compile->output.data == "words");
  CHECK(report.compile->has_failed());
}

TEST_CASE("language: a status of 200 is no signal, and a signal is named") {
  JobEnd end = end_of_compiler(200 << 8);
  Report report = report_of(end);
  add_compile(compiled_request(), end, report);
  CHECK(report.failure->message == "compiling failed: cc ended with exit status 200");
  end = end_of_compiler(SIGSEGV);
  report = report_of(end);
  add_compile(compiled_request(), end, report);
  CHECK(report.exit_status == 128 + SIGSEGV);
  CHECK(report.failure->message == "compiling failed: cc was ended by SIGSEGV");
}

TEST_CASE("language: a limit that the compiler met is said with its fix") {
  JobEnd end = end_of_compiler(1 << 8);
  end.facts.oom_kills = 1;
  Report report = report_of(end);
  report.failure = Failure{"memory_limit", "the memory limit was hit", "give it more"};
  add_compile(compiled_request(), end, report);
  CHECK(report.failure->code == "compile_failed");
  CHECK(report.failure->message.ends_with("; the memory limit was hit"));
  CHECK(report.failure->fix == "give it more");
}

TEST_CASE("language: a program that fails after it was compiled is its own affair") {
  JobEnd end = end_of_compiler(0);
  end.facts.wait_status = 1 << 8;
  Report report = report_of(end);
  add_compile(compiled_request(), end, report);
  CHECK_FALSE(report.failure.has_value());
  CHECK(report.compile->exit_status == 0);
}

TEST_CASE("language: a time limit while compiling stays a time limit") {
  JobEnd end;
  end.compile.emplace();
  end.facts.timed_out = true;
  Report report = report_of(end);
  report.failure = Failure{"time_limit", "the time limit of 1s was reached", "more"};
  add_compile(compiled_request(), end, report);
  CHECK(report.failure->code == "time_limit");
  CHECK(report.failure->message == "the time limit of 1s was reached while compiling");
  CHECK_FALSE(report.compile->exit_status.has_value());
}

TEST_CASE("language: only the profile's own command counts as a missing tool") {
  const auto judged = [](const JobRequest& request, bool is_profile_command, int error) {
    JobEnd end;
    end.facts.exec_errno = error;
    end.facts.exec_error = Error(Errc::kSystem, "exec ruby: no");
    judge_missing_tool(request, is_profile_command, profile_named("ruby"), end);
    return end;
  };
  JobRequest request;
  request.exec.argv = {"ruby"};
  const JobEnd missing = judged(request, true, ENOENT);
  REQUIRE(missing.facts.sandbox_error.has_value());
  CHECK(missing.tool_is_missing);
  CHECK(missing.facts.sandbox_error->hint() == "apt-get install ruby");
  CHECK_FALSE(judged(request, false, ENOENT).facts.sandbox_error.has_value());
  CHECK_FALSE(judged(request, true, EACCES).facts.sandbox_error.has_value());
  request.exec.argv = {"/opt/ruby"};
  CHECK(judged(request, true, ENOENT)
            .facts.sandbox_error->hint()
            .ends_with("--set language.path=/opt/ruby"));
}

TEST_CASE("language: a missing compiler is a missing tool, its missing product is not") {
  JobEnd end;
  end.compile.emplace();
  end.compile->exec_errno = end.facts.exec_errno = ENOENT;
  end.compile->exec_error = end.facts.exec_error = Error(Errc::kSystem, "exec cc: no");
  judge_missing_tool(compiled_request(), false, profile_named("gcc"), end);
  REQUIRE(end.facts.sandbox_error.has_value());
  CHECK(end.facts.sandbox_error->hint() == "apt-get install gcc");
  CHECK(end.facts.sandbox_error->message().find("needs cc") != std::string::npos);
  JobEnd product = end_of_compiler(0);
  product.facts.exec_errno = ENOENT;
  product.facts.exec_error = Error(Errc::kSystem, "exec /tmp/sbx-program: no");
  judge_missing_tool(compiled_request(), false, profile_named("gcc"), product);
  CHECK_FALSE(product.facts.sandbox_error.has_value());
}

}  // namespace sbx::run
