// Help: turns rows of the verb table into the text people read.
#pragma once

#include <string>
#include <string_view>

#include "cli/verb.h"

namespace sbx::cli {

/// Everything about one verb: usage, what it does, flags by group, examples.
std::string help_of(const Verb& verb, bool colour);

/// The verbs of one group ("profile"), or all of them when `group` is empty.
std::string overview(std::string_view group, bool colour);

}  // namespace sbx::cli
