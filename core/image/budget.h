// Budget: how much the state directory may take on its disk, asked before something big is put
// there.
//
// The bound is the environment's SBX_STATE_BUDGET, else what the file "budget" of the state
// directory says: a size like 20G, or "none". Without either only the room on the disk counts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::image {

struct StateBudget {
  std::optional<Bytes> bytes;  ///< nullopt: no bound
  std::string source;          ///< where it was found: a variable or a file; empty: nowhere
};
/// kUsage when what is there is no size.
Result<StateBudget> state_budget(const std::string& state_dir);
/// A size, or "none" (nullopt).
Result<std::optional<Bytes>> parse_budget(std::string_view text);
/// Keeps it in the state directory's file.
Status set_state_budget(const std::string& state_dir, std::optional<Bytes> budget);

/// What the state directory takes on its disk. Blocks, as long as it takes to look at every file.
Result<Bytes> state_use(const std::string& state_dir);

/// How many bytes more may be put there now. Measures only where there is a bound.
struct Room {
  Bytes left;
  bool is_of_budget = false;  ///< else of the disk
};
Result<Room> state_room(const std::string& state_dir);

/// What to say about something that was stopped at `room`.
Error no_room(const std::string& state_dir, const Room& room, std::optional<Bytes> needed);

/// Whether `needed` bytes more fit: kLimit with what to do otherwise. Blocks as state_room().
Status check_budget(const std::string& state_dir, Bytes needed);

}  // namespace sbx::image
