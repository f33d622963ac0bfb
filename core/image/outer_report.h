// Outer report: what the process that read the source says, for the one that started it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/image/outer.h"

namespace sbx::image {

/// Longest encoded report.
inline constexpr std::size_t kMaxOuterReport = std::size_t{512} << 20U;

std::string encode(const OuterReport& report);
/// kProtocol when malformed.
Result<OuterReport> decode_outer_report(std::string_view text);

}  // namespace sbx::image
