// Garbage: what killed commands left among the kernels, and initramfs files that nobody has a use
// for any more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::kernel {

enum class StaleKind : std::uint8_t { kKernel, kInitramfs };

struct Stale {
  StaleKind kind = StaleKind::kKernel;
  std::string path;
  std::string why;
  std::uint64_t bytes = 0;
};

/// How long an initramfs that is not this sbx's was not asked for, before it counts as stale.
inline constexpr Millis kUnusedFor{std::int64_t{24} * 3600 * 1000};

/// Half-made and half-removed kernels that nobody holds, initramfs files cut short, those of
/// kernels that are gone, and those of another sbx that were not asked for in `unused_for`. Makes
/// nothing.
std::vector<Stale> stale_files(const std::string& state_dir, Millis unused_for = kUnusedFor);
/// Removes one of them, unless somebody holds it now.
Status remove_stale(const std::string& state_dir, const Stale& stale);

/// Removes the half-made and half-removed kernels.
void sweep_abandoned(const std::string& state_dir);

}  // namespace sbx::kernel
