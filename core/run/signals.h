// Signals: the ones that ask a run to end.
#pragma once

#include <array>
#include <csignal>

namespace sbx::run {

inline constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/// Whether our caller has it ignored (nohup, a shell's background job): then it stays ignored.
inline bool is_ignored(int signo) {
  struct sigaction action {};
  return ::sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace sbx::run
