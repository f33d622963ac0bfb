// Man test: sbx-profile(5) has every key with its type, default and variable, and no other.
#include <set>
#include <string>

#include "core/profile/keys.h"
#include "core/profile/show.h"

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::profile::test::Host;
using sbx::profile::test::read_text;

namespace {

std::string default_of(const Key& key, const Profile& base) {
  if (key.path == "extends") return "base";
  if (key.path == "description") return "none";  // each profile has its own
  if (key.path == "env") return "{}";
  const std::string shown = show_value(key, base);
  return shown.empty() ? "none" : shown;
}

}  // namespace

TEST_CASE("man: every key stands in the manual with type, default and variable") {
  const Host host;
  const Profile base = load(host.request("base")).value();
  const std::string page = read_text(std::string(SBX_SOURCE_DIR) + "/man/sbx-profile.5");
  for (const Key& key : keys()) {
    CAPTURE(key.path);
    const std::string item = "\n.It Ic " + std::string(key.path) + " Pq " +
                             std::string(type_name(key)) + "; default " + default_of(key, base) +
                             "\n";
    CAPTURE(item);
    const std::size_t start = page.find(item);
    REQUIRE(start != std::string::npos);
    const std::string rest = page.substr(start + item.size());
    const std::string entry = rest.substr(0, std::min(rest.find("\n.It Ic "), rest.find("\n.El")));
    if (!key.env.empty()) {
      CHECK(entry.find("Variable:\n.Ev " + std::string(key.env) + " .") != std::string::npos);
    }
  }
}

TEST_CASE("man: no key stands in the manual that does not exist") {
  const std::string page = read_text(std::string(SBX_SOURCE_DIR) + "/man/sbx-profile.5");
  constexpr std::string_view kItem = "\n.It Ic ";
  std::set<std::string> documented;
  for (std::size_t at = page.find(kItem); at != std::string::npos; at = page.find(kItem, at + 1)) {
    const std::size_t start = at + kItem.size();
    documented.insert(page.substr(start, page.find(' ', start) - start));
  }
  CHECK(documented.size() == keys().size());
  for (const std::string& path : documented) {
    CHECK_MESSAGE(find_key(path) != nullptr, path);
  }
}
