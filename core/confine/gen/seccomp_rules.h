// Seccomp rules: which system calls a sandbox may make, as filter instructions. Build time only.
#pragma once

#include <linux/filter.h>

#include <string>
#include <vector>

namespace sbx::confine::gen {

enum class Variant { kDefault, kNesting, kFiles, kImage };

/// The filter's instructions; empty with `error` filled when a name is unknown.
std::vector<sock_filter> build_filter(Variant variant, std::string& error);

}  // namespace sbx::confine::gen
