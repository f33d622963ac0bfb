// Debootstrap, what mmdebstrap is asked for: see debootstrap.h.
#include <algorithm>
#include <array>

#include "core/base/text.h"
#include "core/image/debootstrap.h"

namespace sbx::image {

bool is_variant(std::string_view variant) {
  return std::ranges::find(kDebootstrapVariants, variant) != kDebootstrapVariants.end();
}

std::vector<std::string> transport_options(std::string_view dump) {
  constexpr std::array<std::string_view, 8> kKeys{"Acquire::http::Proxy",
                                                  "Acquire::https::Proxy",
                                                  "Acquire::http::Timeout",
                                                  "Acquire::https::Timeout",
                                                  "Acquire::Retries",
                                                  "Acquire::ForceIPv",
                                                  "Acquire::Check-Valid-Until",
                                                  "Acquire::Check-Date"};
  std::vector<std::string> options;
  for (const std::string_view line : text::split(dump, '\n')) {
    const bool is_one = std::ranges::any_of(kKeys, [&](std::string_view key) {
      return line.starts_with(key) && !line.ends_with(" \"\";");
    });
    if (is_one) options.emplace_back(line);
  }
  return options;
}

std::vector<std::string> debootstrap_arguments(const DebootstrapRequest& request,
                                               const std::vector<std::string>& options) {
  std::vector<std::string> words{"--mode=unshare",  // as root: other namespaces, no other ids
                                 "--format=tar",
                                 "--skip=output/dev",  // each sandbox has its own
                                 text::cat("--variant=", request.variant)};
  if (!request.include.empty()) {
    words.push_back(text::cat("--include=", text::join(request.include, ",")));
  }
  for (const std::string& option : options) {
    words.push_back(text::cat("--aptopt=", option));
  }
  // How this host reaches its sources is nothing that the image should keep.
  if (!options.empty()) {
    words.emplace_back(R"(--customize-hook=rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap")");
  }
  words.insert(words.end(), {request.suite, "-", "-"});
  return words;
}

}  // namespace sbx::image
