// Debootstrap: a new image of Debian packages, made by mmdebstrap from the sources of this host's
// own apt.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/image/import.h"
#include "core/image/store.h"

namespace sbx::image {

struct DebootstrapRequest {
  std::string name;                  ///< of the image
  std::string suite;                 ///< "bookworm"
  std::vector<std::string> include;  ///< further packages
  std::string variant = "minbase";   ///< mmdebstrap's word
  bool is_quiet = false;  ///< what mmdebstrap says is kept for an error instead of shown on stderr
  ImportProgress* progress = nullptr;
};

/// kUnsupported with the package when mmdebstrap is missing, kUsage for names that are none. The
/// packages are installed in a user namespace with the ids of images; their scripts run there.
/// Needs the network. Standard input is no longer the caller's. Blocks, long.
Result<Record> create_debootstrap(const Store& store, const DebootstrapRequest& request);

/// mmdebstrap's words after its own name; `options` are lines of apt-config(8) dump. Pure.
std::vector<std::string> debootstrap_arguments(const DebootstrapRequest& request,
                                               const std::vector<std::string>& options);
/// Of a dump those settings that say how this host reaches its sources (proxies, dates). Pure.
std::vector<std::string> transport_options(std::string_view dump);

/// The variants that may be asked for, the default first.
inline constexpr std::array<std::string_view, 9> kDebootstrapVariants{"minbase",
                                                                      "apt",
                                                                      "buildd",
                                                                      "custom",
                                                                      "essential",
                                                                      "extract",
                                                                      "important",
                                                                      "required",
                                                                      "standard"};
bool is_variant(std::string_view variant);

}  // namespace sbx::image
