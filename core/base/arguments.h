// Arguments: the memory that /proc/PID/cmdline shows, and how a role takes its words out of it.
#pragma once

namespace sbx {

/// Remembers where the kernel put the argument strings. First thing in main.
void remember_arguments(int argc, char* const* argv);

/// Overwrites them, so that this process shows only `name` (cut to what fits). The strings that
/// argv points to are gone afterwards. For a forked role that others can look at; the memory is its
/// own copy. Nothing happens when remember_arguments() was not called.
void hide_arguments(const char* name);

}  // namespace sbx
