// session_execs: many programs in one session: one after another, and 32 at once.
#pragma once

namespace sbx::test {

/// `count` programs one after another; prints a summary. 0 when each gave all of its output and
/// status and none is left as a zombie.
int run_in_a_row(int count);
/// 32 programs at once, each with `megabytes` of output that has to arrive whole.
int run_at_once(int megabytes);

}  // namespace sbx::test
