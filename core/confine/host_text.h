// Host text: parsers for lines of /proc and /etc. Pure, tolerant: a line that makes no sense is
// skipped, none is trusted to end or to be short.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sbx::confine {

/// One line of /proc/PID/mountinfo; octal escapes (\040) are undone.
struct MountLine {
  std::string root;  ///< what of the file system is mounted
  std::string mount_point;
  std::string type;  ///< "cgroup2"
  std::string super_options;
};
std::vector<MountLine> parse_mountinfo(std::string_view text);

/// One line of /proc/PID/cgroup.
struct CgroupLine {
  std::uint32_t hierarchy = 0;  ///< 0: v2
  std::string controllers;      ///< "cpu,cpuacct"; "name=systemd"; empty in v2
  std::string path;
};
std::vector<CgroupLine> parse_proc_cgroup(std::string_view text);

/// One line of /etc/passwd.
struct PasswdLine {
  std::string name;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string home;
};
std::vector<PasswdLine> parse_passwd(std::string_view text);
/// Home directory of `uid`, first line that has it; nullopt when none or not absolute.
std::optional<std::string> find_home(std::string_view passwd, std::uint32_t uid);

/// A range of ids: /etc/subuid, /etc/subgid; ids of /etc/passwd and /etc/group have count 1.
struct IdSpan {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
std::vector<IdSpan> parse_subid(std::string_view text);
/// The same with whose it is: a user's name or id.
struct SubidLine {
  std::string owner;
  IdSpan span;
};
std::vector<SubidLine> parse_subid_lines(std::string_view text);
/// Third field of each line: uid of passwd, gid of group.
std::vector<IdSpan> parse_third_field(std::string_view text);

/// Fields of /proc/PID/stat (proc_pid_stat(5)). Times in clock ticks, pids as the reader sees them.
struct ProcStat {
  char state = '?';
  std::int32_t parent = 0;
  std::int32_t group = 0;
  std::int32_t session = 0;
  std::uint64_t cpu_time = 0;    ///< user and system
  std::uint64_t start_time = 0;  ///< since boot
  std::uint64_t rss = 0;         ///< pages
  std::string name;              ///< any bytes
};
std::optional<ProcStat> parse_proc_stat(std::string_view text);

/// Value of `key` in "key value" lines (memory.events, cpu.stat); nullopt when it is not there.
std::optional<std::uint64_t> find_counter(std::string_view text, std::string_view key);

}  // namespace sbx::confine
