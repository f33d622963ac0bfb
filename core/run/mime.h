// Mime: the media type of a file, from its name and its first bytes.
#pragma once

#include <string_view>

namespace sbx::run {

/// Bytes that mime_type wants to see, when the file has them.
inline constexpr std::size_t kMimeHead = 512;

/// Where the first bytes are unmistakable they decide, else the name's ending, else whether the
/// bytes look like text. Never empty: "application/octet-stream" when nothing is known.
std::string_view mime_type(std::string_view path, std::string_view head);

}  // namespace sbx::run
