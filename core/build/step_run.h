// Step run: one step of a recipe in a session of its own.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/build/build.h"
#include "core/image/store.h"
#include "core/session/store.h"

namespace sbx::build {

/// The destructor removes the session.
class StepRun {
 public:
  /// `state`: the image before the step, under the name that it has in `images`. All are not owned.
  StepRun(const BuildRequest& request,
          const session::Store& sessions,
          const image::Store& images,
          const image::Record& state)
      : request_(request), sessions_(sessions), images_(images), state_(state) {}
  ~StepRun();
  StepRun(const StepRun&) = delete;
  StepRun& operator=(const StepRun&) = delete;

  /// Starts the session and does what a kRun or kCopy step says.
  Result<std::optional<FailedStep>> carry_out(const Step& step);
  /// Stops the session; the image after the step, under `name`.
  Result<image::Record> commit(const std::string& name);

 private:
  Status start(const Step& step);
  Result<std::optional<FailedStep>> run(const Step& step);
  Result<std::optional<FailedStep>> copy(const Step& step);

  const BuildRequest& request_;
  const session::Store& sessions_;
  const image::Store& images_;
  const image::Record& state_;
  std::optional<session::Record> session_;
};

}  // namespace sbx::build
