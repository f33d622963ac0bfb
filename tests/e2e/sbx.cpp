// sbx: how the end-to-end cases call the built binary, as root or as the unprivileged user.
#include "tests/e2e/sbx.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "tests/support/user.h"
#include <nlohmann/json.hpp>

namespace sbx::test {
namespace {

/// A copy under a name that says which build it is of; made once per build, by whoever is first.
std::string copied(const std::string& kind, const Identity& owner) {
  const char* named = std::getenv("SBX_BIN");
  const std::string bin = named != nullptr ? named : SBX_DEFAULT_BIN;
  struct stat st {};
  if (::stat(bin.c_str(), &st) != 0) {
    throw std::runtime_error("SBX_BIN must name the built binary, there is none at " + bin);
  }
  const std::string dir = "/tmp/sbx-test-bin-" + std::to_string(::geteuid()) + "-" + kind;
  const std::string path = dir + "/" + std::to_string(st.st_ino) + "-" +
                           std::to_string(st.st_mtim.tv_sec) + "-" + std::to_string(st.st_size) +
                           "/sbx";
  if (exists(path)) {
    return path;
  }
  const std::string script =
      "set -e; umask 022; mkdir -p \"$1\"; exec 9>\"$1/lock\"; flock 9; [ ! -e \"$2\" ] || exit 0\n"
      "find \"$1\" -mindepth 1 -maxdepth 1 -mmin +120 -exec rm -rf {} + ; mkdir \"${2%/sbx}\"; cp "
      "\"$0\" \"$2.part\"; chmod 755 \"$2.part\"\n"
      "chown \"$3\" \"$2.part\" \"${2%/sbx}\" \"$1\"; mv \"$2.part\" \"$2\"";
  const Outcome made = run({.argv = {"/bin/sh",
                                     "-c",
                                     script,
                                     bin,
                                     dir,
                                     path,
                                     std::to_string(owner.uid) + ":" + std::to_string(owner.gid)}});
  if (made.code != 0) {
    throw std::runtime_error("cannot copy the binary: " + made.show());
  }
  return path;
}

Args run_with(const char* profile, const Args& flags) {
  Args args{"run"};
  args.insert(args.end(), flags.begin(), flags.end());
  args.insert(args.end(), {"-p", profile});
  return args;
}

}  // namespace

const std::string_view kPythonSyscalls = R"(
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def syscall(nr, *args):
    args = [a if isinstance(a, (bytes, type(None))) or hasattr(a, '_type_') or hasattr(a, '_length_')
            else ctypes.c_long(a) for a in args]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(nr), *args)
    return 'ok' if result >= 0 else errno.errorcode.get(ctypes.get_errno(), '?')
)";

const std::string& sbx_path() {
  static const std::string path = copied("root", self());
  return path;
}

const std::string& own_sbx_path() {
  static const std::string path = copied("own-" + subject().name, subject());
  return path;
}

Spec sbx_spec(Args args) {
  Spec spec;
  spec.argv = std::move(args);
  spec.argv.insert(spec.argv.begin(), sbx_path());
  spec.as = &subject();
  spec.cwd = "/tmp";
  return spec;
}

bool is_in_vm() {
  const char* const isolation = std::getenv("SBX_TEST_ISOLATION");  // NOLINT(concurrency-mt-unsafe)
  return isolation != nullptr && std::string_view(isolation) == "vm";
}

Outcome call(Args args) {
  return run(sbx_spec(std::move(args)));
}

Args bash_args(std::string_view code, const Args& flags) {
  Args args = run_with("bash", flags);
  args.insert(args.end(), {"-c", std::string(code)});
  return args;
}

Args python_args(std::string_view code, const Args& flags) {
  Args args = run_with("python", flags);
  args.insert(args.end(), {"-c", std::string(code)});
  return args;
}

Args command_args(const Args& argv, const Args& flags) {
  Args args = run_with("bash", flags);
  args.emplace_back("--");
  args.insert(args.end(), argv.begin(), argv.end());
  return args;
}

Outcome bash(std::string_view code, const Args& flags) {
  return call(bash_args(code, flags));
}

Outcome python(std::string_view code, const Args& flags) {
  return call(python_args(code, flags));
}

Outcome command(const Args& argv, const Args& flags) {
  return call(command_args(argv, flags));
}

std::string field(const std::string& json, std::string_view pointer) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (parsed.is_discarded()) {
    return "";
  }
  const nlohmann::json::json_pointer at{std::string(pointer)};
  if (!parsed.contains(at)) {
    return "";
  }
  const auto& value = parsed.at(at);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

std::string without_warnings(const std::string& err) {
  std::string out;
  for (const auto& line : lines_of(err)) {
    if (line.rfind("sbx: warning: ", 0) != 0) {
      out += line + "\n";
    }
  }
  return out;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.pop_back();
  }
  return text;
}

}  // namespace sbx::test
