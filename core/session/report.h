// Report: sessions and programs as the JSON objects that commands print (schema 1).
#pragma once

#include <string>

#include "core/session/client.h"
#include "core/session/record.h"
#include "core/session/store.h"

namespace sbx::session {

/// One line: name, state, profile, times, labels, checkpoints.
std::string listing_json(const Listing& listing);
/// One line: how a program ended, with what it wrote. `stdout`, `stderr` and `encoding` as in the
/// result of `sbx run --json`.
std::string exec_json(const std::string& session, const ExecResult& result);
/// One line for a program alone, without output.
std::string exec_json(const std::string& session, const ExecRecord& record);
/// One line for a program that could not be asked for at all.
std::string refused_json(const std::string& session, const Error& error);
std::string checkpoint_json(const std::string& session, const Checkpoint& checkpoint);

}  // namespace sbx::session
