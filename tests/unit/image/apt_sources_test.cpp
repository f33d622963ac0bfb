// Tests of reading apt's sources, and of what mmdebstrap is asked for.
#include "core/image/apt_sources.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/image/debootstrap.h"

using namespace sbx;
using namespace sbx::image;

TEST_CASE("apt sources: both forms are read; what is disabled or of sources is not") {
  const auto lines = parse_one_line(
      "# deb http://old.invalid/debian bookworm main\n"
      "deb [arch=amd64,i386 signed-by=/k.gpg trusted=yes] http://a.invalid/debian bookworm main "
      "extra\n"
      "deb-src http://a.invalid/debian bookworm main\n"
      "deb http://flat.invalid/ ./\n"
      "deb broken\n");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].uris == std::vector<std::string>{"http://a.invalid/debian"});
  CHECK(lines[0].suites == std::vector<std::string>{"bookworm"});
  using Fields = std::vector<std::pair<std::string, std::string>>;
  CHECK(lines[0].other == Fields{{"Architectures", "amd64 i386"},
                                 {"Signed-By", "/k.gpg"},
                                 {"Trusted", "yes"},
                                 {"Components", "main extra"}});
  const auto stanzas = parse_deb822(
      "Types: deb deb-src\n# a comment\nURIs: http://a.invalid/debian\n"
      "Suites: bookworm bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN\n .\n key\n"
      "\n \n"
      "Types: deb\nURIs: http://b.invalid\nSuites: x\nEnabled: no\n\n"
      "Types: deb-src\nURIs: http://c.invalid\nSuites: x\n");
  REQUIRE(stanzas.size() == 1);
  CHECK(stanzas[0].suites == std::vector<std::string>{"bookworm", "bookworm-updates"});
  CHECK(stanzas[0].other ==
        Fields{{"Components", "main"}, {"Signed-By", "\n -----BEGIN\n .\n key"}});
}

TEST_CASE("apt sources: a suite's own, updates and security sources are taken, no others") {
  const auto sources = parse_deb822(
      "Types: deb\nURIs: http://a.invalid/debian\nSuites: bookworm bookworm-updates sid\n"
      "Components: main\n\n"
      "Types: deb\nURIs: http://s.invalid/security\nSuites: bookworm-security\nComponents: main\n\n"
      "Types: deb\nURIs: http://x.invalid\nSuites: bookwormish other\nComponents: main\n");
  CHECK(sources_for(sources, "bookworm").value() ==
        "Types: deb\nURIs: http://a.invalid/debian\nSuites: bookworm bookworm-updates\n"
        "Components: main\n\n"
        "Types: deb\nURIs: http://s.invalid/security\nSuites: bookworm-security\n"
        "Components: main\n\n");
}

TEST_CASE("apt sources: a suite that the host does not have is looked for on its first archive") {
  const auto sources = parse_one_line(
      "deb http://s.invalid/security bookworm-security main\n"
      "deb http://a.invalid/debian bookworm main\n");
  CHECK(sources_for(sources, "trixie").value() ==
        "Types: deb\nURIs: http://a.invalid/debian\nSuites: trixie\nComponents: main\n\n");
  const auto none = sources_for({}, "trixie");
  REQUIRE(!none.ok());
  CHECK(none.error().code() == Errc::kNotFound);
  CHECK(!none.error().hint().empty());
}

TEST_CASE("apt sources: a suite is a name and no option, path or second line") {
  for (const char* good : {"bookworm", "stable", "trixie-backports", "n1.2+x_y"}) {
    CHECK(check_suite(good).ok());
  }
  for (const char* bad : {"", "-x", "a b", "a/b", "a\nURIs:", "../a"}) {
    CAPTURE(bad);
    CHECK(check_suite(bad).error().code() == Errc::kUsage);
  }
}

TEST_CASE("debootstrap: how the host reaches its sources is used and not kept") {
  const auto options = transport_options(
      "Acquire \"\";\nAcquire::http::Proxy \"\";\nAcquire::https::Proxy \"http://p.invalid\";\n"
      "Acquire::Check-Date \"false\";\nAcquire::IndexTargets::deb \"\";\n");
  REQUIRE(options.size() == 2);
  DebootstrapRequest request;
  request.suite = "bookworm";
  request.include = {"curl", "jq"};
  const auto words = debootstrap_arguments(request, options);
  CHECK(words ==
        std::vector<std::string>{"--mode=unshare",
                                 "--format=tar",
                                 "--skip=output/dev",
                                 "--variant=minbase",
                                 "--include=curl,jq",
                                 "--aptopt=Acquire::https::Proxy \"http://p.invalid\";",
                                 "--aptopt=Acquire::Check-Date \"false\";",
                                 "--customize-hook=rm -f \"$1/etc/apt/apt.conf.d/99mmdebstrap\"",
                                 "bookworm",
                                 "-",
                                 "-"});
}
