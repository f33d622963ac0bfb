// Tests of process: descriptors, signals, failures of exec, and the owner's destructor.
#include "core/base/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

using namespace sbx;

namespace {

/// Standard output and wait status of a program.
struct Ran {
  std::string out;
  int status = -1;
};

Ran run(SpawnOptions options) {
  sys::Pipe pipe = sys::pipe().value();
  options.out = pipe.w.get();
  Result<ChildProcess> child = spawn(options);
  if (!child.ok()) FAIL(child.error().to_string());
  pipe.w.reset();
  std::string out = sys::read_all(pipe.r.get(), Bytes{1 << 20}).value();
  return {std::move(out), child.value().wait().value()};
}

SpawnOptions program(std::vector<std::string> argv) {
  SpawnOptions options;
  options.argv = std::move(argv);
  return options;
}

}  // namespace

TEST_CASE("process: output and exit code come back") {
  const Ran ran = run(program({"/bin/sh", "-c", "echo hello; exit 7"}));
  CHECK(ran.out == "hello\n");
  CHECK(WIFEXITED(ran.status));
  CHECK(WEXITSTATUS(ran.status) == 7);
}

TEST_CASE("process: a program without a slash is found in PATH") {
  CHECK(run(program({"echo", "found"})).out == "found\n");
}

TEST_CASE("process: environment and directory are those given") {
  SpawnOptions options = program({"/bin/sh", "-c", "echo $A-$HOME; pwd"});
  options.env = {"A=1"};
  options.cwd = "/usr";
  CHECK(run(options).out == "1-\n/usr\n");
}

TEST_CASE("process: a failed exec is an error of spawn, not an exit code") {
  const Result<ChildProcess> none = spawn(program({"/nonexistent/program"}));
  REQUIRE(!none.ok());
  CHECK(none.error().code() == Errc::kNotFound);
  CHECK(none.error().message() == "execute /nonexistent/program: No such file or directory");
  const std::string path = ::getenv("PATH");
  REQUIRE(::setenv("PATH", "/usr/bin:/nonexistent", 1) == 0);
  CHECK(spawn(program({"no-such-program-anywhere"})).error().code() == Errc::kNotFound);
  REQUIRE(::setenv("PATH", path.c_str(), 1) == 0);
  CHECK(spawn(program({"/etc/passwd"})).error().code() == Errc::kDenied);
  SpawnOptions options = program({"/bin/true"});
  options.cwd = "/nonexistent";
  CHECK(spawn(options).error().message() ==
        "change directory to /nonexistent: No such file or directory");
  CHECK(spawn({}).error().code() == Errc::kInternal);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // all are reaped
}

TEST_CASE("process: the child has only the descriptors it was given") {
  const UniqueFd leaked(::open("/dev/null", O_RDONLY));  // NOLINT: without close-on-exec
  const UniqueFd passed = sys::dup(leaked.get(), 20).value();
  SpawnOptions options = program({"/bin/sh", "-c", "cd /proc/$$/fd; echo *"});
  options.pass_fds = {passed.get()};
  const std::string listed = run(options).out;
  CHECK(listed.starts_with("0 1 2 "));
  CHECK(listed.find(text::cat(" ", passed.get())) != std::string::npos);
  CHECK(listed.find(text::cat(" ", leaked.get(), " ")) == std::string::npos);
}

TEST_CASE("process: descriptors can be swapped with each other") {
  sys::Pipe a = sys::pipe().value();
  sys::Pipe b = sys::pipe().value();
  SpawnOptions options = program({"/bin/sh", "-c", "echo out; echo err >&2"});
  options.out = a.w.get();
  options.err = b.w.get();
  ChildProcess child = spawn(options).value();
  a.w.reset();
  b.w.reset();
  CHECK(sys::read_all(a.r.get(), Bytes{100}).value() == "out\n");
  CHECK(sys::read_all(b.r.get(), Bytes{100}).value() == "err\n");
  CHECK(child.wait().value() == 0);
  CHECK(child.wait().value() == 0);  // the second time from memory
}

TEST_CASE("process: descriptor 1 can be sent to 2 and the other way round") {
  sys::Pipe pipe = sys::pipe().value();
  SpawnOptions options = program({"/bin/sh", "-c", "echo out; echo err >&2"});
  options.out = pipe.w.get();
  options.err = pipe.w.get();
  ChildProcess child = spawn(options).value();
  pipe.w.reset();
  CHECK(sys::read_all(pipe.r.get(), Bytes{100}).value() == "out\nerr\n");
}

TEST_CASE("process: signals are default and unblocked in the child") {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &one, &before);
  void (*handler)(int) = ::signal(SIGPIPE, SIG_IGN);
  const std::string status =
      run(program({"/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"})).out;
  ::signal(SIGPIPE, handler);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  CHECK(status == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("process: a child left alone is killed and reaped by its owner") {
  pid_t pid = -1;
  {
    const ChildProcess child = spawn(program({"sleep", "1000"})).value();
    pid = child.pid();
    CHECK(::kill(pid, 0) == 0);
  }
  CHECK(::kill(pid, 0) == -1);
  CHECK(errno == ESRCH);
}

TEST_CASE("process: try_wait does not block, kill after the end is no error") {
  ChildProcess child = spawn(program({"sleep", "1000"})).value();
  CHECK(child.try_wait().value() == std::nullopt);
  CHECK(child.kill(SIGTERM).ok());
  const int status = child.wait().value();
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK(child.try_wait().value() == status);
  CHECK(child.kill(SIGTERM).ok());
}

TEST_CASE("process: moving and releasing pass the child on") {
  ChildProcess first = spawn(program({"sleep", "1000"})).value();
  const pid_t pid = first.pid();
  ChildProcess second = std::move(first);
  CHECK(second.pid() == pid);
  CHECK(second.release() == pid);
  CHECK(::kill(pid, SIGKILL) == 0);
  CHECK(::waitpid(pid, nullptr, 0) == pid);
}
