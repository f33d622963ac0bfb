// Package rules test: specs, names, patterns, and the policies of base.yaml.
#include "core/profile/package_rules.h"

#include <string>

#include "core/profile/saved.h"

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::profile::test::Host;
using sbx::profile::test::set_key;

TEST_CASE("package_rules: what pip takes by name is a Python package") {
  for (const char* good : {"numpy",
                           "numpy==1.26.4",
                           "numpy>=1.26,<2",
                           "numpy >= 1.26, < 2",
                           "requests[socks,use_chardet]~=2.28",
                           "zope.interface",
                           "Flask-SQLAlchemy===3.0",
                           "torch==2.1.0+cpu",
                           "x==1!2.0",
                           "a!=1.*"}) {
    CHECK_MESSAGE(pip_spec_complaint(good).empty(), good, ": ", pip_spec_complaint(good));
  }
}

TEST_CASE("package_rules: options, URLs, paths, repositories and markers are no Python packages") {
  struct Bad {
    const char* spec;
    const char* why;
  };
  for (const Bad& bad : {Bad{"", "empty"},
                         Bad{"-r/etc/passwd", "is an option"},
                         Bad{"--index-url=http://x", "is an option"},
                         Bad{"--", "is an option"},
                         Bad{" -e .", "is an option"},
                         Bad{"https://x/y.whl", "is a URL"},
                         Bad{"file:///etc", "is a URL"},
                         Bad{"git+ssh://x", "is a URL"},
                         Bad{"x @ https://y", "is a URL"},
                         Bad{"x@y", "is a URL"},
                         Bad{"./x", "is a path"},
                         Bad{"/x/y", "is a path"},
                         Bad{"../x", "is a path"},
                         Bad{"~/x", "is a path"},
                         Bad{"x/y", "is a URL or a path"},
                         Bad{"x.whl", "is a path"},
                         Bad{"x-1.0.tar.gz", "is a path"},
                         Bad{"x; python_version<'3'", "marker"},
                         Bad{"x==", "no Python package"},
                         Bad{"x==1,", "no Python package"},
                         Bad{"x=1", "no Python package"},
                         Bad{"x==-1", "no Python package"},
                         Bad{"x[", "no Python package"},
                         Bad{"x[a", "no Python package"},
                         Bad{"x[]", "no Python package"},
                         Bad{"x[-a]", "no Python package"},
                         Bad{"x-", "no Python package"},
                         Bad{"x$(y)", "no Python package"},
                         Bad{"x y", "no Python package"},
                         Bad{"numpy pandas==1", "no Python package"},
                         Bad{"x\n--index-url=y", "control"},
                         Bad{"caf\xC3\xA9", "no Python package"}}) {
    const std::string complaint = pip_spec_complaint(bad.spec);
    CAPTURE(bad.spec);
    CAPTURE(complaint);
    CHECK(complaint.find(bad.why) != std::string::npos);
  }
  CHECK(!pip_spec_complaint(std::string(401, 'a')).empty());
  CHECK(without_spaces("  a >=  1 , < 2 ") == "a>=1,<2");
  CHECK(without_spaces("a  b") == "a b");
  CHECK(without_spaces("   ").empty());
}

TEST_CASE("package_rules: what npm takes by name is a Node.js package") {
  for (const char* good : {"left-pad",
                           "left-pad@1.3.0",
                           "left-pad@^1.2",
                           "left-pad@~1",
                           "left-pad@>=1 <2",
                           "left-pad@1.x || 2.x",
                           "left-pad@latest",
                           "@types/node",
                           "@types/node@20",
                           "JSONStream",
                           "lodash.merge"}) {
    CHECK_MESSAGE(npm_spec_complaint(good).empty(), good, ": ", npm_spec_complaint(good));
  }
  CHECK(npm_spec_name("@types/node@20") == "@types/node");
  CHECK(npm_spec_name("left-pad@1") == "left-pad");
  CHECK(pip_spec_name("requests[a]>=1") == "requests");
}

TEST_CASE("package_rules: options, URLs, paths, repositories and aliases are no Node.js packages") {
  for (const char* bad : {"",
                          "-g",
                          "--prefix=/",
                          "user/repo",
                          "github:user/repo",
                          "a@npm:b",
                          "a@file:../b",
                          "a@https://x",
                          "git+https://x",
                          "git@host:x",
                          "./a",
                          "/a",
                          "~/a",
                          "a.tgz",
                          "a@./b",
                          "a@../b.tgz",
                          "a@",
                          "a@-1",
                          "@a",
                          "@/b",
                          "@a/",
                          "@a/b/c",
                          ".a",
                          "_a",
                          "a b",
                          "a\n",
                          "a@1;rm",
                          "a@$(x)"}) {
    CHECK_MESSAGE(!npm_spec_complaint(bad).empty(), bad);
  }
}

TEST_CASE("package_rules: patterns are names with stars") {
  for (const char* good :
       {"numpy", "*", "num*", "pip:numpy", "npm:@types/*", "@types/*", "a_b.c"}) {
    CHECK_MESSAGE(package_pattern_complaint(good).empty(), good);
  }
  for (const char* bad :
       {"", "pip:", "numpy==1", "a b", "a,b", "-x", "https://x", "gem:x", "a\n"}) {
    CHECK_MESSAGE(!package_pattern_complaint(bad).empty(), bad);
  }
}

TEST_CASE("package_rules: a profile's keys are read, and a bad one has its place in the message") {
  const Host host;
  const auto loaded = host.load_text(
      "extends: python\n"
      "packages:\n"
      "  pip: [numpy >= 1.26, six]\n"
      "  npm: ['@types/node@20']\n"
      "  deny: [evil]\n"
      "  frozen: true\n"
      "  lock: sbx.lock\n"
      "  source: wheels\n");
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().to_string());
  const Packages& packages = loaded.value().packages;
  CHECK(packages.pip == std::vector<std::string>{"numpy>=1.26", "six"});
  CHECK(packages.npm == std::vector<std::string>{"@types/node@20"});
  CHECK(packages.frozen);
  CHECK(packages.lock.path == host.path("/project/sbx.lock"));
  CHECK(packages.source.path == host.path("/project/wheels"));
  CHECK(packages.source.beneath == host.path("/project"));
  const auto mistakes = host.mistakes("packages:\n  pip: [--index-url=x]\n");
  REQUIRE(mistakes.size() == 1);
  CHECK(mistakes[0] ==
        "2:9: packages.pip: '--index-url=x' is an option, not the name of a package");
}

TEST_CASE("package_rules: a project's source and lock stay in the project") {
  const Host host;
  for (const char* path : {"/etc", "../x", "~/x"}) {
    for (const char* key : {"source", "lock"}) {
      const auto mistakes = host.mistakes(std::string("packages:\n  ") + key + ": " + path + "\n");
      REQUIRE_MESSAGE(mistakes.size() == 1, path);
      CHECK(mistakes[0].find("--allow-outside") != std::string::npos);
    }
  }
}

TEST_CASE("package_rules: base.yaml of user and system is a policy that no profile can lift") {
  const Host host;
  host.write("/user/base.yaml", "extends: base\npackages:\n  deny: [evil]\n");
  host.write("/system/base.yaml", "packages:\n  allow: ['*py*']\n");
  host.write("/project/t.yaml", "extends: base\npackages:\n  allow: ['*']\n  deny: []\n");
  const LoadRequest request = host.request(host.path("/project/t.yaml"));
  REQUIRE(load(request).ok());
  const auto policies = package_policies(request);
  REQUIRE(policies.ok());
  REQUIRE(policies.value().size() == 2);
  CHECK(policies.value()[0].allow == std::vector<std::string>{"*py*"});
  CHECK(policies.value()[0].where == host.path("/system/base.yaml"));
  CHECK(policies.value()[1].deny == std::vector<std::string>{"evil"});
}

TEST_CASE("package_rules: a base.yaml with a mistake stops everything, none at all is no policy") {
  const Host host;
  CHECK(package_policies(host.request("base")).value().empty());
  host.write("/user/base.yaml", "packages:\n  deny: [evil\n");
  CHECK(!package_policies(host.request("base")).ok());
  host.write("/user/base.yaml", "packages:\n  denny: [evil]\n");
  CHECK(!package_policies(host.request("base")).ok());
}

TEST_CASE("package_rules: packages and what they add to the environment are saved with a profile") {
  const Host host;
  LoadRequest request = host.request("python");
  request.overrides.push_back(set_key("packages.pip", "[six]"));
  request.overrides.push_back(set_key("packages.source", "/srv/wheels"));
  auto loaded = load(request);
  REQUIRE(loaded.ok());
  loaded.value().list_items.push_back({"PATH", "/x/bin", true});
  const auto restored = restore(save(loaded.value()));
  REQUIRE_MESSAGE(restored.ok(), restored.error().to_string());
  CHECK(restored.value().packages.pip == std::vector<std::string>{"six"});
  CHECK(restored.value().packages.source.path == "/srv/wheels");
  CHECK(restored.value().list_items == loaded.value().list_items);
}
