// Host tree: what of this host's files a jail with the `host` root shows, found by looking.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace sbx::jail {

enum class EntryKind { kDir, kFile, kLink };

/// One thing to show inside at its host path.
struct HostEntry {
  std::string path;  ///< absolute
  EntryKind kind = EntryKind::kDir;
  std::string text;        ///< kLink: its target; kFile: its content when `is_copied`
  bool is_copied = false;  ///< a small file whose content goes along; else it is bound
};

/// The host's `/usr` and what belongs to it, and the allowed part of its `/etc`, parents first.
struct HostTree {
  std::vector<HostEntry> top;  ///< /usr, /bin, /sbin, /lib* as on the host
  std::vector<HostEntry> etc;  ///< only names of the table in host_tree.cpp
};

/// Reads the host. About 60 system calls.
Result<HostTree> read_host_tree();

/// Whether something named `name` directly in /etc may be shown (of `ssl` and `pki` only a part
/// is). The table is an allow-list: what is not named stays unseen.
bool is_etc_allowed(std::string_view name);

}  // namespace sbx::jail
