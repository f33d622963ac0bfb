// Fuzz: the text of a profile, read, merged over base and shown; and the text of a --set value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/profile/chain.h"
#include "core/profile/diagnostics.h"
#include "core/profile/profile.h"
#include "core/profile/resolve.h"
#include "core/profile/search.h"
#include "core/profile/yaml.h"

using namespace sbx::profile;

namespace {

LoadRequest isolated_request() {
  LoadRequest request;
  request.env = [](const std::string&) { return std::optional<std::string>(); };
  request.dirs = SearchDirs{};
  return request;
}

void check_found(const std::vector<Diagnostic>& found) {
  for (const Diagnostic& each : found) {
    if (each.message.empty() || each.line < 0 || each.column < 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const LoadRequest kRequest = isolated_request();
  static const Search kSearch(kRequest);
  const std::string text(reinterpret_cast<const char*>(data), size);

  Found found;
  found.name = "fuzz";
  found.file = "fuzz.yaml";
  found.text = text;
  found.dir = "/nonexistent";
  found.is_project = true;
  const Resolved resolved = resolve(kSearch, read_chain(kSearch, std::move(found)), kRequest);
  check_found(resolved.mistakes);
  if (explain(resolved.profile).empty() || explain_json(resolved.profile).empty()) std::abort();

  Diagnostics diagnostics("--set");
  static_cast<void>(parse_yaml_flow(text, diagnostics));
  check_found(diagnostics.take());
  return 0;
}
