// Guest data: trees that come in and go out over the data port.
#pragma once

#include <cstddef>

#include "core/backend/backend.h"
#include "core/base/result.h"
#include "core/ipc/fields.h"

namespace sbx::vm {

/// Unpacks what control::op::kTakeInput announced: where the jail finds it, as the host has it.
/// Blocks until it is there.
Result<backend::InputMount> take_input(int port, const ipc::Fields& request, std::size_t index);

/// Sends what is in the directory. Blocks.
Status give_work(int port, int dir);

}  // namespace sbx::vm
