// Rules: what a single text in a profile must look like. Each function returns what is wrong with
// it as the end of a sentence ("must start with /"), or an empty string.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sbx::profile {

/// A profile's name: letters, digits, dot, dash, underscore; at most 64.
std::string name_complaint(std::string_view name);
std::string image_complaint(std::string_view name);
std::string accel_complaint(std::string_view text);
std::string kernel_complaint(std::string_view name);
std::string line_complaint(std::string_view text);
std::string env_name_complaint(std::string_view name);
std::string env_value_complaint(std::string_view value);
std::string argument_complaint(std::string_view text);
std::string extension_complaint(std::string_view text);
std::string base_name_complaint(std::string_view text);
std::string package_complaint(std::string_view text);
std::string workdir_complaint(std::string_view path);
std::string hostname_complaint(std::string_view text);
std::string target_complaint(std::string_view path);
std::string glob_complaint(std::string_view text);
std::string capability_complaint(std::string_view text);
/// Lower-case letters, digits and dashes, no dash first; at most 32.
std::string service_name_complaint(std::string_view name);
/// Letters, digits, dot, dash, underscore and slash, letter or digit first; at most 128.
std::string label_name_complaint(std::string_view name);
/// One line of plain text, at most 1024 bytes.
std::string label_value_complaint(std::string_view value);

/// "CAP_NET_BIND_SERVICE" for "net_bind_service"; unknown names in upper case.
std::string canonical_capability(std::string_view text);
/// As a block scalar (>) has one.
std::string without_last_newline(std::string_view text);
/// Sorted, with "CAP_".
std::span<const std::string_view> allowed_capability_names();
/// Without double and trailing slashes and "." components. `path` starts with a slash.
std::string normal_path(std::string_view path);
/// Whether `path` is `dir` or below it; both normal.
bool is_within(std::string_view path, std::string_view dir);

}  // namespace sbx::profile
