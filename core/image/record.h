// Record: what is known of an image, as plain data, and its JSON in the state directory.
//
// An image is a name for a stack of frozen layers (core/workspace/layer_store.h) and the settings
// that programs started from it get. Everything in it came from outside: bytes, to be escaped when
// they are printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::image {

inline constexpr int kRecordFormat = 1;
/// The longest text of a record, and the most layers of an image (overlayfs stacks no more).
inline constexpr Bytes kLongestRecord{std::uint64_t{4} << 20U};
inline constexpr std::size_t kMostLayers = 500;

/// The part of an OCI image configuration that sbx honours.
struct Config {
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> env;            ///< "NAME=value"
  std::string user;                        ///< "", "name", "uid", "name:group", "uid:gid"
  std::string workdir;                     ///< "" or an absolute path
  std::vector<std::string> volumes;        ///< absolute paths, sorted
  std::vector<std::string> exposed_ports;  ///< "80/tcp", sorted
  std::vector<std::pair<std::string, std::string>> labels;  ///< sorted by key
  std::string stop_signal;
};

struct LayerRef {
  std::string id;  ///< in layers/: see image_layer_id()
  /// "sha256:<64 hex digits>" of the uncompressed tar file that it was read from; empty when it
  /// came from no tar file.
  std::string diff_id;
  std::uint64_t bytes = 0;  ///< of content, when it was made
};

struct Record {
  std::string name;
  std::string id;               ///< "sha256:<64 hex>"; equal for equal layers and settings
  std::int64_t created_ns = 0;  ///< wall time when it got this name here
  std::string source;  ///< where it came from: "import debian.tar", "pull …", "build …"
  std::string os = "linux";
  std::string architecture;  ///< as OCI has it: "amd64", "arm64"
  std::string variant;       ///< "v7"; mostly empty
  Config config;
  std::vector<LayerRef> layers;  ///< lowest first; may be empty
};

std::string to_json(const Record& record);
/// kProtocol for rubbish, kUnsupported with the fix for a newer format. Sizes are bounded.
Result<Record> parse_record(std::string_view text);

/// The id of an image layer: "img-" and 24 hex digits of the digest of `key`, which names what the
/// layer holds (a diff_id, or a chain of them where the lower layers matter).
std::string image_layer_id(std::string_view key);

/// The identity of the layers and settings of `record`: what its `id` has to be.
std::string identity(const Record& record);

/// This machine's platform as OCI names it: "amd64" for x86_64 and so on.
std::string_view host_architecture();

/// A letter or digit, then up to 199 of letters, digits and . _ / : @ + -; kUsage with the rule
/// otherwise. Each '/' counts as three.
Status check_name(std::string_view name);

}  // namespace sbx::image
