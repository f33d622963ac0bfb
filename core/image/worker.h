// Worker: a forked process of an import that does one step of it and says at its end how that went.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/process.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::image {

class Worker {
 public:
  /// Forks; the child runs `body`, hands what it returns to us and ends. It dies with us.
  static Result<Worker> start(std::string_view what, const std::function<std::string()>& body);
  /// A child that was made in another way; `report` is the read end of a pipe whose other end only
  /// the child has.
  Worker(std::string_view what, ChildProcess child, UniqueFd report)
      : what_(what), child_(std::move(child)), report_(std::move(report)) {}

  /// What it returned (kLimit above `cap` bytes), once it has ended. kSystem when it crashed.
  /// Blocks.
  Result<std::string> finish(std::size_t cap);

 private:
  std::string what_;
  ChildProcess child_;
  UniqueFd report_;
};

}  // namespace sbx::image
