// sbx: how the end-to-end cases call the built binary, as root or as the unprivileged user.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/process.h"

namespace sbx::test {

using Args = std::vector<std::string>;

/// The binary under test (SBX_BIN, else the one built beside the tests), copied to a root-owned
/// place that every user can reach.
const std::string& sbx_path();
/// The same, owned and writable by the subject.
const std::string& own_sbx_path();

/// A call of sbx as the subject, with a small environment and /dev/null as stdin.
Spec sbx_spec(Args args);
Outcome call(Args args);

/// `sbx run FLAGS… -p bash -c CODE`.
Outcome bash(std::string_view code, const Args& flags = {});
/// `sbx run FLAGS… -p python -c CODE`.
Outcome python(std::string_view code, const Args& flags = {});
/// `sbx run FLAGS… -p bash -- ARGV…`.
Outcome command(const Args& argv, const Args& flags = {});
/// The arguments of the three, to be changed before the call.
Args bash_args(std::string_view code, const Args& flags = {});
Args python_args(std::string_view code, const Args& flags = {});
Args command_args(const Args& argv, const Args& flags = {});

/// The value at a JSON pointer ("/usage/wall_s"): strings as they are, others as JSON text,
/// "" when the text is no JSON object or has no such value.
std::string field(const std::string& json, std::string_view pointer);

/// The cases run in virtual machines this time (SBX_TEST_ISOLATION).
bool is_in_vm();

bool contains(const std::string& text, std::string_view part);
/// Lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);
/// What a run wrote to stderr without sbx's warnings (a default limit that cannot be enforced
/// here).
std::string without_warnings(const std::string& err);
/// `text` without its trailing newline.
std::string trimmed(std::string text);

/// Python source that calls system calls by number: syscall(nr, *args) -> (result, errno name).
extern const std::string_view kPythonSyscalls;

}  // namespace sbx::test
