// Yaml_text: what can be wrong with the bytes of a YAML file before any YAML is read.
#pragma once

#include <string>
#include <string_view>

#include "core/profile/diagnostics.h"

namespace sbx::profile {

/// A copy of `text` that is safe to hand to a parser: UTF-8 without byte order mark or control
/// characters, lines not indented with tabs. Positions stay as they were; each thing that had to
/// be replaced is a mistake. Empty after a mistake that leaves nothing to parse.
std::string clean_yaml_text(std::string_view text, Diagnostics& diagnostics);

/// The position of byte `offset` in `text`, columns in characters.
Position position_of(std::string_view text, std::size_t offset);

}  // namespace sbx::profile
