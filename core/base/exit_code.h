// Exit codes: the statuses sbx itself ends with; a program's own statuses pass through unchanged.
#pragma once

namespace sbx {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;          ///< the command did not reach its aim
inline constexpr int kExitUsage = 2;            ///< bad command line or profile
inline constexpr int kExitTimeout = 124;        ///< ended by a time limit
inline constexpr int kExitSandbox = 125;        ///< the sandbox could not be made or broke
inline constexpr int kExitNotExecutable = 126;  ///< the program was found but could not be run
inline constexpr int kExitNotFound = 127;       ///< there is no such program
inline constexpr int kExitSignalBase = 128;     ///< 128 + n: the program died by signal n

}  // namespace sbx
