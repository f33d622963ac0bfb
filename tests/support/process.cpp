// process: runs a program with a time limit, and keeps all that it wrote and how it ended.
#include "tests/support/process.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>

#include "tests/support/pty.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

constexpr int kReadSize = 1 << 16;

struct Ends {
  int child = -1;
  int ours = -1;
};

Ends make_pipe(bool child_reads) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe2");
  }
  return child_reads ? Ends{fds[0], fds[1]} : Ends{fds[1], fds[0]};
}

void close_if(int& fd) {
  if (fd >= 0) {
    ::close(fd);
    fd = -1;
  }
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const auto& s : strings) {
    out.push_back(const_cast<char*>(s.c_str()));  // NOLINT: exec's interface
  }
  out.push_back(nullptr);
  return out;
}

/// Descriptors 0, 1, 2 as wanted, `keep` open at exec, all others closed.
void set_descriptors(const Spec& spec, std::array<int, 3> stdio) {
  for (int& fd : stdio) {  // out of the way of 0..2 first
    if (fd >= 0 && fd < 3) {
      fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 200);
    }
  }
  for (int i = 0; i < 3; ++i) {
    ::dup2(stdio.at(static_cast<size_t>(i)), i);
  }
  for (int fd = 3; fd < 1024; ++fd) {
    const bool kept = std::find(spec.keep.begin(), spec.keep.end(), fd) != spec.keep.end();
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0) {
      ::fcntl(fd, F_SETFD, kept ? 0 : FD_CLOEXEC);
    }
  }
}

bool become(const Identity& who) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(who.gid, who.gid, who.gid) == 0 &&
         ::setresuid(who.uid, who.uid, who.uid) == 0;
}

[[noreturn]] void exec_child(const Spec& spec, std::array<int, 3> stdio) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  if (spec.pty != nullptr) {
    ::setsid();
    ::ioctl(spec.pty->slave(), TIOCSCTTY, 0);
  } else if (spec.own_group) {
    ::setpgid(0, 0);
  }
  set_descriptors(spec, stdio);
  if (spec.as != nullptr && ::geteuid() == 0 && spec.as->uid != 0 && !become(*spec.as)) {
    ::_exit(99);
  }
  if (!spec.cwd.empty() && ::chdir(spec.cwd.c_str()) != 0) {
    ::_exit(98);
  }
  std::vector<std::string> env = spec.env;
  if (env.empty() && spec.clean_env) {
    env = environment_of(spec.as != nullptr ? *spec.as : self());
  }
  const auto argv = pointers(spec.argv);
  const auto envp = pointers(env);
  ::execvpe(argv[0], argv.data(), envp.data());
  ::_exit(97);
}

}  // namespace

double now() {
  timespec ts{};
  ::clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) / 1e9;
}

void pause(double seconds) {
  timespec ts{};
  ts.tv_sec = static_cast<time_t>(seconds);
  ts.tv_nsec = static_cast<long>((seconds - static_cast<double>(ts.tv_sec)) * 1e9);
  while (::nanosleep(&ts, &ts) != 0 && errno == EINTR) {
  }
}

std::string Outcome::show() const {
  auto cut = [](const std::string& s) {
    return s.size() <= 4000 ? s : s.substr(0, 2000) + "\n…\n" + s.substr(s.size() - 2000);
  };
  return "exit " + std::to_string(code) + " signal " + std::to_string(signal) +
         (timed_out ? " TIMED OUT" : "") + " after " + std::to_string(seconds) +
         " s\nstdout: " + cut(out) + "\nstderr: " + cut(err);
}

Child::Child(const Spec& spec) {
  std::signal(SIGPIPE, SIG_IGN);
  Ends in;
  Ends out;
  Ends err;
  std::array<int, 3> stdio{spec.in, spec.out, spec.err};
  int null = -1;
  if (spec.pty != nullptr) {
    stdio = {spec.pty->slave(), spec.pty->slave(), spec.pty->slave()};
  }
  if (stdio[0] < 0 && spec.input) {
    in = make_pipe(true);
    stdio[0] = in.child;
  } else if (stdio[0] < 0) {
    null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    stdio[0] = null;
  }
  if (stdio[1] < 0) {
    out = make_pipe(false);
    stdio[1] = out.child;
  }
  if (stdio[2] < 0) {
    err = make_pipe(false);
    stdio[2] = err.child;
  }
  started_ = now();
  deadline_ = started_ + spec.timeout * slowness();
  pid_ = ::fork();
  if (pid_ == 0) {
    exec_child(spec, stdio);
  }
  for (int* fd : {&in.child, &out.child, &err.child, &null}) {
    close_if(*fd);
  }
  in_ = in.ours;
  out_ = out.ours;
  err_ = err.ours;
  input_ = spec.input.value_or("");
  for (const int fd : {in_, out_, err_}) {
    if (fd >= 0) {
      ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
  }
  if (input_.empty()) {
    close_if(in_);
  }
}

Child::~Child() {
  if (!done_ && pid_ > 0) {
    ::kill(pid_, SIGKILL);
    reap(true);
  }
  close_if(in_);
  close_if(out_);
  close_if(err_);
}

void Child::kill(int sig) const {
  if (!done_) {
    ::kill(pid_, sig);
  }
}

bool Child::reap(bool block) {
  if (done_) {
    return true;
  }
  int status = 0;
  const pid_t got = ::waitpid(pid_, &status, block ? 0 : WNOHANG);
  if (got != pid_) {
    return false;
  }
  done_ = true;
  outcome_.seconds = now() - started_;
  if (WIFSIGNALED(status)) {
    outcome_.signal = WTERMSIG(status);
  } else {
    outcome_.code = WEXITSTATUS(status);
  }
  return true;
}

bool Child::running() {
  return !reap(false);
}

namespace {

/// Reads what is there; closes `fd` at its end.
void drain(int& fd, std::string& into) {
  std::string buffer(kReadSize, '\0');
  while (fd >= 0) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n > 0) {
      into.append(buffer, 0, static_cast<size_t>(n));
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    } else {
      close_if(fd);
    }
  }
}

void feed(int& fd, std::string& from) {
  const ssize_t n = ::write(fd, from.data(), from.size());
  if (n > 0) {
    from.erase(0, static_cast<size_t>(n));
  }
  if (from.empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) {
    close_if(fd);
  }
}

}  // namespace

void Child::pump(double seconds) {
  std::array<pollfd, 3> fds{
      pollfd{in_, POLLOUT, 0}, pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  ::poll(fds.data(), fds.size(), static_cast<int>(seconds * 1000));
  if (fds[0].fd >= 0 && fds[0].revents != 0) {
    feed(in_, input_);
  }
  if (fds[1].fd >= 0 && fds[1].revents != 0) {
    drain(out_, outcome_.out);
  }
  if (fds[2].fd >= 0 && fds[2].revents != 0) {
    drain(err_, outcome_.err);
  }
}

bool Child::wait_for_text(std::string_view text, double seconds) {
  const double end = now() + seconds * slowness();
  while (true) {
    if (outcome_.out.find(text) != std::string::npos ||
        outcome_.err.find(text) != std::string::npos) {
      return true;
    }
    if (now() > end || (out_ < 0 && err_ < 0)) {
      return false;
    }
    pump(0.05);
  }
}

Outcome Child::wait() {
  while (!reap(false)) {
    if (now() > deadline_) {
      outcome_.timed_out = true;
      ::kill(pid_, SIGKILL);
      reap(true);
      break;
    }
    if (in_ < 0 && out_ < 0 && err_ < 0) {
      pause(0.002);
    } else {
      pump(0.01);
    }
  }
  // What it wrote is in the pipes by now; a survivor that holds one open is not waited for.
  drain(out_, outcome_.out);
  drain(err_, outcome_.err);
  close_if(in_);
  return outcome_;
}

Outcome run(const Spec& spec) {
  Child child(spec);
  return child.wait();
}

}  // namespace sbx::test
