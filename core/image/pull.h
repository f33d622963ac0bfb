// Pull: an image from a registry, through skopeo(1), which knows the user's registries, credentials
// and mirrors. Nothing of ours talks to the network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/image/import.h"
#include "core/image/store.h"

namespace sbx::image {

/// Whether registries have to speak TLS with a certificate that is known.
enum class TlsVerify : std::uint8_t { kAsConfigured, kYes, kNo };

struct PullRequest {
  std::string ref;   ///< "debian:12", "host:5000/team/tools", or with a transport of skopeo
  std::string name;  ///< of the image; empty: pull_name(ref)
  TlsVerify tls = TlsVerify::kAsConfigured;
  Budget budget;
  ImportProgress* progress = nullptr;  ///< of the download, then of the import
};

/// How skopeo is asked for `ref`: "docker://" is put before what names no transport. kUsage for
/// what no image can be called.
Result<std::string> skopeo_source(std::string_view ref);
/// The name that an image gets when none is given: `ref` without its transport.
std::string pull_name(std::string_view ref);

/// What skopeo's last words on stderr say, without its decoration.
std::string skopeo_message(std::string_view printed);
/// Bytes of all layers, of what `skopeo inspect` prints; nullopt when it does not say.
std::optional<std::uint64_t> inspected_size(std::string_view json);

/// Downloads it into the state directory, imports it, removes the download. kUnsupported with the
/// package to install without skopeo; kLimit before the download when it does not fit. Blocks,
/// long.
Result<Record> pull_image(const Store& store, const PullRequest& request);

}  // namespace sbx::image
