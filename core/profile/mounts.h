// Mounts: the spellings of a mount in a profile or on the command line, as one Mount.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/profile/profile.h"

namespace sbx::profile {

/// The parts as they were written.
struct MountText {
  std::string source;
  std::string target;
  std::string mode = "ro";
};

/// "SRC:DST[:ro|rw|overlay]", or "src=…,dst=…[,mode=…]" for names with colons. The message of an
/// error is the end of a sentence.
Result<MountText> split_mount(std::string_view text);

struct MountBase {
  std::string_view dir;      // absolute: relative sources start here
  std::string_view home;     // for "~/…"; may be empty
  std::string_view project;  // not empty: nothing outside it may be mounted
};

/// A checked Mount. The source need not exist; where `base.project` is set and it does exist, links
/// in it are followed to see that they stay inside.
Result<Mount> make_mount(const MountText& text, const MountBase& base);

/// The path of a program of the host, fenced like a mount's source. It need not exist.
Result<HostTool> make_tool(const std::string& path, const MountBase& base);

/// The path of a file or directory for sbx itself, fenced like a mount's source. It need not exist.
Result<HostPath> make_host_path(const std::string& path, const MountBase& base);

}  // namespace sbx::profile
