// Layer path: what the path of a member of a layer means. Pure; knows no file.
//
// Whiteouts are those of the OCI image specification (layer.md): ".wh.NAME" deletes NAME of the
// layers below, ".wh..wh..opq" all that they have in its directory; other names that begin with
// ".wh..wh." are what one storage driver kept for itself, and mean nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace sbx::image {

enum class Marker : std::uint8_t { kNone, kWhiteout, kOpaque, kIgnored };

struct MemberPath {
  std::string dir;   ///< "a/b", "" for the root
  std::string name;  ///< of the member, or of what a whiteout deletes; "" for the root itself
  Marker marker = Marker::kNone;

  /// "dir/name".
  std::string full() const;
};

/// Takes a path apart. Slashes at either end, double ones and "." components are dropped; absolute
/// paths begin at the root of the layer. kDenied for "..", for one below a whiteout and for a
/// whiteout without a name; kLimit for a component above 255 bytes and more than `depth`
/// directories above it.
Result<MemberPath> member_path(std::string_view path, std::size_t depth);

/// The target of a hard link, as "a/b"; errors as above, and kDenied for the root.
Result<std::string> link_target(std::string_view path, std::size_t depth);

/// A path for a message: escaped, and cut where it is very long.
std::string shown(std::string_view path);

/// "dir/name", "name" when `dir` is "".
std::string joined(std::string_view dir, std::string_view name);

}  // namespace sbx::image
