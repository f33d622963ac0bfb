// Output: the one place that writes to the terminal - results to stdout, words to people on stderr.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/result.h"

namespace sbx::cli {

enum class Stream { kOut, kErr };

/// Puts something harmless in the place of a standard descriptor that we were started without, so
/// that no file of ours gets its number: reading and writing there fails as on a closed one.
void fill_standard_descriptors();

/// Whether `stream` may carry colour: a terminal that is not "dumb", and NO_COLOR unset or empty.
bool has_colour(Stream stream);

/// Writes all of `text` to stdout. kSystem when it cannot (full disk, closed): a result that got
/// lost is a failure.
Status print(std::string_view text);

/// What `print` returned, as an exit status: 0, or 125 after saying on stderr why the result got
/// lost.
int printed(const Status& status);

/// "sbx: message" and, on a line of its own, what mends it.
std::string error_text(const Error& error, bool colour);

/// Writes `error_text` to stderr; control characters in it are shown as escapes, whoever put them
/// there.
void print_error(const Error& error);

/// Says what went wrong and gives the exit status for it: 2 for a mistake of the caller (also a
/// name that does not exist), 125 for all others.
int failed(const Error& error);

/// Writes our own text, as it is, to stderr.
Status print_notice(std::string_view text);

/// "sbx: warning: message" on stderr.
void print_warning(std::string_view message);

/// A JSON string literal, quotes included, bytes that are no UTF-8 replaced by U+FFFD, for the few
/// results small enough to be written by hand.
std::string json_string(std::string_view text);

/// What is left to say when an exception came up to main. Call it inside a catch block.
void report_exception() noexcept;

}  // namespace sbx::cli
