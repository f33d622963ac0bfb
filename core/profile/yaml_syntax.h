// Yaml_syntax: what to say about a syntax error, and how to go on after one. Plain text work.
#pragma once

#include <string>
#include <string_view>

namespace sbx::profile {

/// Our sentence for one of yaml-cpp's messages; the message itself when there is none.
std::string syntax_sentence(std::string_view message);

/// Line `number` of `text`, from 1, without its end; empty past the end.
std::string_view line_of(std::string_view text, int number);

/// Replaces the top-level key around `line`, with all that belongs to it, by blank lines. False
/// when there is nothing left to replace.
bool blank_section(std::string& text, int line);

}  // namespace sbx::profile
