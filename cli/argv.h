// Argv: takes the command line apart before any parser sees it; knows bytes and `--`, not meanings.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"
#include "core/base/result.h"

namespace sbx::cli {

/// A command line cut at its first `--`.
struct Argv {
  std::vector<std::string> ours;  // before it
  std::vector<std::string> rest;  // after it, byte for byte
  bool has_rest = false;          // a `--` was there
};

/// Cuts at the first `--`; everything behind it belongs to the program and is not looked at.
Argv split(std::span<const std::string> words);

/// Finds flags whose value is missing (kUsage, names the flag), and makes `--name=` two words, as
/// the parser library takes an empty value after `=` for no value and would swallow the next word.
Result<std::vector<std::string>> prepare(const Verb& verb, std::vector<std::string> ours);

/// "-m" or "--memory": how a flag is named in a message about it.
std::string spelled(const Flag& flag);

/// The role that a process of ours was started in ("internal-jail-init"), empty for the command
/// line. Only exact names in argv[0] or argv[1] count.
std::string_view role_of(std::span<const char* const> argv);

}  // namespace sbx::cli
