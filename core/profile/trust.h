// Trust: which project profiles the user has approved, by content hash, in the state directory.
//
// One JSON file per name below trust/. Nothing is trusted for ever: one changed byte ends it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace sbx::profile {

struct TrustRecord {
  std::string name;
  std::string path;  // absolute, without links
  std::string sha256;
};

/// kNotFound when the name was never trusted; kProtocol for a damaged or newer record.
Result<TrustRecord> read_trust(const std::string& state_dir, const std::string& name);
Status write_trust(const std::string& state_dir, const TrustRecord& record);
Status remove_trust(const std::string& state_dir, const std::string& name);
/// By name; damaged records are left out.
std::vector<TrustRecord> all_trust(const std::string& state_dir);

/// kDenied, with the way to renew it, when `text` is not what was trusted.
Status check_trust(const TrustRecord& record, std::string_view text);
std::string content_hash(std::string_view text);

}  // namespace sbx::profile
