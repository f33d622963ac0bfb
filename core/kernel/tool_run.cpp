// Tool run: see tool_run.h.
#include "core/kernel/tool_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::kernel {

namespace {

constexpr std::size_t kMostOut = std::size_t{1} << 20U;
constexpr std::size_t kMostErr = 65536;
constexpr int kNoProgram = 127;  // as a shell has it

/// The environment with LC_ALL=C, for what goes on after the fork.
std::vector<std::string> environment() {
  std::vector<std::string> out{"LC_ALL=C"};
  for (char** each = ::environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view entry(*each);
    if (!entry.starts_with("LC_ALL=") && !entry.starts_with("LANGUAGE=")) out.emplace_back(entry);
  }
  return out;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) {
    out.push_back(const_cast<char*>(word.c_str()));  // execve(2) changes nothing
  }
  out.push_back(nullptr);
  return out;
}

/// Not spawn(): it has to end with us, whatever ends us.
Result<ChildProcess> start(const std::vector<std::string>& argv,
                           const std::string& cwd,
                           int out,
                           int err) {
  SBX_ASSIGN(const UniqueFd null, sys::open("/dev/null", O_RDONLY));
  const std::vector<std::string> env = environment();
  const std::vector<char*> words = pointers(argv);
  const std::vector<char*> variables = pointers(env);
  const pid_t self = ::getpid();
  SBX_ASSIGN(Forked forked, fork_pidfd());
  if (forked.pid == 0) {
    die_with_parent_in_child(self);
    (void)reset_signals_in_child();
    const bool is_ready = ::dup2(null.get(), STDIN_FILENO) != -1 &&
                          ::dup2(out, STDOUT_FILENO) != -1 && ::dup2(err, STDERR_FILENO) != -1 &&
                          ::chdir(cwd.c_str()) == 0;
    if (is_ready) ::execve(words[0], words.data(), variables.data());
    ::_exit(kNoProgram);
  }
  return ChildProcess(forked.pid, std::move(forked.pidfd));
}

void keep(Said& said, std::string_view text, bool is_out) {
  if (is_out) {
    if (said.out.size() < kMostOut) said.out += text;
    return;
  }
  said.err += text;
  if (said.err.size() > 2 * kMostErr) said.err.erase(0, said.err.size() - kMostErr);
}

Status listen(int out, int err, Said& said) {
  std::array<pollfd, 2> polled{pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    SBX_TRY(sys::poll(polled, Millis{-1}));
    for (pollfd& each : polled) {
      if (each.fd < 0 || each.revents == 0) continue;
      std::array<char, 8192> buffer{};
      SBX_ASSIGN(const std::size_t got, sys::read(each.fd, buffer.data(), buffer.size()));
      if (got == 0) {
        each.fd = -1;
      } else {
        keep(said, std::string_view(buffer.data(), got), &each == polled.data());
      }
    }
  }
  return {};
}

}  // namespace

bool Said::has_succeeded() const {
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Result<Said> run_tool(const std::vector<std::string>& argv, const std::string& cwd) {
  SBX_ASSIGN(sys::Pipe out, sys::pipe());
  SBX_ASSIGN(sys::Pipe err, sys::pipe());
  SBX_ASSIGN(ChildProcess child, start(argv, cwd, out.w.get(), err.w.get()));
  out.w.reset();
  err.w.reset();
  Said said;
  SBX_TRY(listen(out.r.get(), err.r.get(), said));
  SBX_ASSIGN(said.status, child.wait());
  return said;
}

}  // namespace sbx::kernel
