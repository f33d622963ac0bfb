// progress_test: the line of the progress bar fits its terminal; the flags of batch follow those of
// run.
#include "cli/progress.h"

#include <string>

#include <doctest/doctest.h>

#include "cli/run_options.h"
#include "cli/verbs.h"

using sbx::cli::progress_line;
using sbx::run::BatchProgress;

TEST_CASE("progress: the line has a bar, numbers, a rate and the time that is left") {
  BatchProgress progress;
  progress.counts = {.ok = 40, .failed = 10};
  progress.running = 4;
  progress.total = 200;
  CHECK(progress_line(progress, 10, 100) ==
        "[#######.......................] 50/200 done, 10 failed, 4 running, 5.0/s, 30s left");
}

TEST_CASE("progress: a copy shows bytes, and a bar when it knows how much will come") {
  const sbx::session::CopyProgress half{std::uint64_t{512} << 20U, std::uint64_t{1} << 30U};
  CHECK(progress_line(half, 4, 100) ==
        "[###############...............] 512.0 MiB/1.0 GiB, 128.0 MiB/s, 4s left");
  CHECK(progress_line(sbx::session::CopyProgress{12, 0}, 0, 100) == "12 B");
}

TEST_CASE("progress: results of an earlier run do not count for the rate") {
  BatchProgress progress;
  progress.counts = {.ok = 150, .earlier = 100};
  progress.total = 200;
  const std::string line = progress_line(progress, 10, 100);
  CHECK(line.find("5.0/s, 10s left") != std::string::npos);
}

TEST_CASE("progress: without a total there is no bar, and nothing is divided by nothing") {
  BatchProgress progress;
  CHECK(progress_line(progress, 0, 80) == "0 done, 0 failed, 0 running");
  progress.total = 0;
  CHECK(progress_line(progress, 0, 80) == "0/0 done, 0 failed, 0 running");
}

TEST_CASE("progress: the line never reaches the last column") {
  BatchProgress progress;
  progress.counts = {.ok = 123456, .failed = 7};
  progress.total = 999999;
  for (unsigned columns = 0; columns < 150; ++columns) {
    CHECK(progress_line(progress, 3, columns).size() <= (columns > 0 ? columns - 1 : 0));
  }
}

TEST_CASE("batch: each flag of run that sets a key of the profile is one of batch, too") {
  for (const sbx::run::KeyField& field : sbx::cli::key_fields()) {
    CHECK_MESSAGE(sbx::cli::kBatchVerb.find(field.name) != nullptr, field.name);
  }
}
