// Doc source: reads the plain files that tell people about verbs, for the tests that compare them
// with the table.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "cli/parser.h"
#include "cli/verb.h"
#include "core/base/fs.h"
#include "core/base/units.h"

namespace sbx::test {

inline std::string source_file(const std::string& path) {
  auto text = fs::read_file(SBX_SOURCE_DIR "/" + path, Bytes{std::uint64_t{1} << 20U});
  REQUIRE_MESSAGE(text.ok(), (text.ok() ? "" : text.error().message()));
  return std::move(text).value();
}

/// "--memory" and "-m" for each flag of a verb, its help included.
inline std::set<std::string> spellings(const cli::Verb& verb) {
  std::set<std::string> out;
  auto add = [&out](const cli::Flag& flag) {
    out.insert("--" + std::string(flag.name));
    if (flag.letter != '\0') out.insert(std::string("-") + flag.letter);
  };
  for (const cli::Flag& flag : verb.flags) {
    add(flag);
  }
  add(cli::kHelpFlag);
  return out;
}

}  // namespace sbx::test
