// Apt: the kernel's package that this host's archive offers, found and downloaded by apt(8), which
// knows sources, proxies and keys. Nothing is installed, no root is needed, nothing of ours talks
// to the network.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace sbx::kernel {

struct AptPackage {
  std::string name;
  std::string version;
  std::uint64_t bytes = 0;  ///< of the file; 0: apt does not say
};

/// What `apt-cache show` prints of one package: its fields, and the kernel that it depends on (that
/// of linux-image-amd64 is linux-image-6.1.0-57-amd64), empty for none. Pure.
struct AptFields {
  AptPackage package;
  std::string depends_on;
};
Result<AptFields> parse_apt_show(std::string_view printed);
/// The reason in what apt-get prints on stderr, without its decoration. Pure.
std::string apt_message(std::string_view printed);

/// The package `name`; where that only names the newest kernel, the kernel's. kUnsupported where
/// there is no apt, kNotFound when the archive (as last looked at) has none. Blocks.
Result<AptPackage> ask_apt(const std::string& name);

/// Downloads it into the directory `dir`: the path of the file. Blocks, long.
Result<std::string> download(const AptPackage& package, const std::string& dir);

}  // namespace sbx::kernel
