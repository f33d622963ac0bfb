// Fuzz host text: lines of /proc and /etc of any content are parsed without a crash, and never into
// more than they were.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/confine/cgroup_layout.h"
#include "core/confine/host_text.h"
#include "core/confine/proc_table.h"

namespace {

void must(bool fact) {
  if (!fact) std::abort();
}

void parse_all(std::string_view text) {
  using namespace sbx::confine;
  for (const MountLine& line : parse_mountinfo(text)) {
    must(line.root.size() + line.mount_point.size() + line.type.size() <= text.size());
  }
  for (const CgroupLine& line : parse_proc_cgroup(text)) {
    must(line.path.front() == '/');
  }
  for (const PasswdLine& line : parse_passwd(text)) {
    must(!line.name.empty());
    const auto home = find_home(text, line.uid);
    must(!home || home->front() == '/');
  }
  for (const IdSpan& span : parse_subid(text)) {
    must(span.count > 0);
  }
  for (const IdSpan& span : parse_third_field(text)) {
    must(span.count == 1);
  }
  if (const auto stat = parse_proc_stat(text)) must(stat->name.size() < text.size());
  if (const auto status = parse_proc_status(text)) {
    must(!status->pids.empty());
    must(status->pids.size() + status->sessions.size() < text.size());
  }
  (void)find_counter(text, "oom_kill");
  (void)find_counter(text, "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse_all(text);
  // The layout reads files below its root only: this one does not exist.
  const std::size_t half = size / 2;
  for (const bool is_root : {false, true}) {
    const auto layout = sbx::confine::find_cgroup_places({.mountinfo = text.substr(0, half),
                                                          .self_cgroup = text.substr(half),
                                                          .root = "/proc/self/fdinfo/none",
                                                          .is_root = is_root,
                                                          .uid = 1,
                                                          .shell = 1});
    must(!layout.to_text().empty());
    must(!layout.memory.usable());
  }
  return 0;
}
