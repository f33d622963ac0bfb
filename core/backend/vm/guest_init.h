// Guest init: PID 1 of a microVM. It makes a root, answers the control port, and runs one jail.
#pragma once

#include <span>
#include <string_view>

namespace sbx::vm {

/// Whether this process is to be it: PID 1 that a kernel started as "/init".
bool is_guest_init(std::span<const char* const> argv);

/// Never returns: powers the machine off at the end, and on any failure after one line about it
/// ("sbx-init: …") on the console.
[[noreturn]] void guest_init_main();

}  // namespace sbx::vm
