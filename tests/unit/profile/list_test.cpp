// List test: what can be named, and which profile a file asks for.
#include <algorithm>
#include <string>

#include "core/profile/builtin.h"

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::profile::test::Host;

namespace {

const Listing* find(const std::vector<Listing>& rows, std::string_view name, Layer layer) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Listing& row) {
    return row.name == name && row.layer == layer;
  });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("list: shipped, user's, system's and trusted ones, with what hides what") {
  Host host;
  host.write("/user/python.yaml", "extends: python\ndescription: mine\n");
  host.write("/system/site.yaml", "description: ours\n");
  host.write("/system/python.yaml", "description: theirs\n");
  host.write("/user/broken.yaml", "nesting: yes\n");
  host.write("/user/.hidden.yaml", "nesting: yes\n");
  host.write("/user/notes.txt", "x");
  host.write("/project/ci.yaml", "description: tests\n");
  REQUIRE(trust(host.request("x"), host.path("/project/ci.yaml")).ok());
  host.set_env("SBX_MEMORY", "nonsense");  // no matter for a listing
  const auto rows = list(host.request("x"));
  CHECK(rows.size() == builtins().size() + 5);
  CHECK(std::is_sorted(rows.begin(), rows.end(), [](const Listing& a, const Listing& b) {
    return a.name < b.name;
  }));
  const Listing* mine = find(rows, "python", Layer::kUser);
  REQUIRE(mine != nullptr);
  CHECK(mine->description == "mine");
  CHECK(!mine->is_shadowed);
  CHECK(mine->problem.empty());
  CHECK(find(rows, "python", Layer::kSystem)->is_shadowed);
  CHECK(find(rows, "python", Layer::kBuiltin)->is_shadowed);
  CHECK(find(rows, "node", Layer::kBuiltin)->file.empty());
  CHECK(find(rows, "broken", Layer::kUser)->problem.find("expected true or false") !=
        std::string::npos);
  const Listing* trusted = find(rows, "ci", Layer::kFile);
  REQUIRE(trusted != nullptr);
  CHECK(trusted->is_trusted_project);
  CHECK(trusted->description == "tests");

  host.write("/project/ci.yaml", "description: changed\n");
  const auto later = list(host.request("x"));
  CHECK(find(later, "ci", Layer::kFile)->problem.find("has changed") != std::string::npos);
}

TEST_CASE("list: extensions choose a shipped profile first, then the user's") {
  const Host host;
  host.write("/user/ruby.yaml", "language: {extensions: [.rb, .py], shebangs: [ruby]}\n");
  const LoadRequest request = host.request("x");
  CHECK(name_for_extension(".py", request) == "python");
  CHECK(name_for_extension(".sh", request) == "bash");
  CHECK(name_for_extension(".mjs", request) == "node");
  CHECK(name_for_extension(".rb", request) == "ruby");
  CHECK(!name_for_extension(".PY", request));
  CHECK(!name_for_extension(".txt", request));
  CHECK(!name_for_extension("", request));
  CHECK(!name_for_extension(".", request));
}

TEST_CASE("list: #! lines choose by the interpreter's name, with env and versions") {
  const Host host;
  host.write("/user/ruby.yaml", "language: {shebangs: [ruby]}\n");
  const LoadRequest request = host.request("x");
  CHECK(name_for_shebang("#!/usr/bin/python3", request) == "python");
  CHECK(name_for_shebang("#! /usr/bin/python3.11 -u\nimport sys\n", request) == "python");
  CHECK(name_for_shebang("#!/usr/bin/env python\r\n", request) == "python");
  CHECK(name_for_shebang("#!/usr/bin/env -S A=b python3 -u", request) == "python");
  CHECK(name_for_shebang("#!/bin/sh", request) == "bash");
  CHECK(name_for_shebang("#!/usr/bin/env nodejs", request) == "node");
  CHECK(name_for_shebang("#!/usr/bin/ruby3.1", request) == "ruby");
  for (const char* line : {"",
                           "#!",
                           "#! ",
                           "#!/usr/bin/env",
                           "#!/usr/bin/env -S",
                           "# !/bin/sh",
                           "#!/usr/bin/pythonista",
                           "#!/usr/bin/forth",
                           "import sys"}) {
    CAPTURE(line);
    CHECK(!name_for_shebang(line, request));
  }
}

TEST_CASE("list: the text of a profile is shown as it was written") {
  const Host host;
  const std::string text = "# mine\nnesting: yes\n";
  host.write("/user/a.yaml", text);
  CHECK(source_text(host.request("a")).value() == text);
  CHECK(source_text(host.request("python")).value().starts_with("# python:"));
  CHECK(!source_text(host.request("none")).ok());
}
