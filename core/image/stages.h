// Stages: the layers of one import before they are published, "0/fs/root", "1/fs/root" … in one
// directory, and what they have used up of the budget.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/image/import.h"
#include "core/image/layer_sink.h"
#include "core/image/layer_writer.h"

namespace sbx::image {

class Stages {
 public:
  /// `dir` is not owned.
  Stages(int dir, const Budget& budget) : dir_(dir), budget_(budget), left_(budget) {}

  struct Begun {
    std::string stage;
    UniqueFd root;
    LayerLimits limits;
  };
  /// The next one, empty.
  Result<Begun> begin();
  /// Takes what a layer has used from what is left. What is above it names the whole budget.
  void use(const LayerReport& report);
  std::uint64_t ratio() const { return budget_.ratio; }

 private:
  int dir_;
  Budget budget_;
  Budget left_;
  std::size_t count_ = 0;
};

}  // namespace sbx::image
