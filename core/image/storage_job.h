// Storage job: work on stored layers in a process of its own that is root of the storage ids, with
// a text or an error as its answer.
#pragma once

#include <functional>
#include <string>

#include "core/base/process.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/storage_ids.h"

namespace sbx::image {

class StorageJob {
 public:
  /// Forks it (confine::fork_as_storage_root); `body` runs there with our descriptors. Its answer
  /// is bounded to 1 MiB. It dies with this process.
  static Result<StorageJob> start(const confine::StorageIds& ids,
                                  const std::function<Result<std::string>()>& body);

  /// Waits for its end: what `body` returned. kSystem, beginning with `what`, when it died. Blocks.
  Result<std::string> finish(std::string_view what);

 private:
  StorageJob(ChildProcess child, UniqueFd answer)
      : child_(std::move(child)), answer_(std::move(answer)) {}

  ChildProcess child_;
  UniqueFd answer_;
};

/// The two in one.
Result<std::string> run_storage_job(const confine::StorageIds& ids,
                                    std::string_view what,
                                    const std::function<Result<std::string>()>& body);

}  // namespace sbx::image
