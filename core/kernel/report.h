// Report: kernels as JSON, one object a line.
#pragma once

#include <string>
#include <vector>

#include "core/kernel/store.h"

namespace sbx::kernel {

/// {"schema":1,"name":…}, without the line's end.
std::string listing_json(const Kernel& kernel);
/// The same with what an install adds.
std::string installed_json(const Kernel& kernel,
                           bool is_new,
                           const std::vector<std::string>& warnings);
std::string removed_json(const std::string& name);

/// "blk 9p overlay …": what a guest has with it; "not known" for a bare kernel.
std::string features_text(const Features& features);

}  // namespace sbx::kernel
