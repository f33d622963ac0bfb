// Proc table: see proc_table.h.
#include "core/confine/proc_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::confine {

namespace {

constexpr Bytes kMostText{65536};

template <typename T>
std::optional<T> number(std::string_view text, int base = 10) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::vector<std::string_view> words(std::string_view text, char separator) {
  std::vector<std::string_view> out = text::split(text, separator);
  std::erase_if(out, [](std::string_view word) { return word.empty(); });
  return out;
}

struct CloseDir {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

/// The numbers among the names in a directory.
Result<std::vector<pid_t>> list_numbers(int dir, const std::string& name) {
  SBX_ASSIGN(UniqueFd fd, sys::openat(dir, name, O_RDONLY | O_DIRECTORY));
  const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(fd.get()));
  if (!stream) return sys_error("list processes");
  (void)fd.release();  // the stream's
  std::vector<pid_t> out;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const auto pid = number<pid_t>(static_cast<const char*>(entry->d_name));
    if (pid) out.push_back(*pid);
  }
  std::sort(out.begin(), out.end());
  return out;
}

void add_children(int proc, pid_t pid, std::set<pid_t>& found, std::vector<pid_t>& fresh) {
  const auto tasks = list_numbers(proc, text::cat(pid, "/task"));
  if (!tasks.ok()) return;
  for (const pid_t task : tasks.value()) {
    const auto children = fs::read_file_at(
        proc, text::cat(pid, "/task/", task, "/children"), Bytes{std::uint64_t{16} << 20U});
    if (!children.ok()) continue;
    for (const std::string_view word : words(text::trim(children.value()), ' ')) {
      const auto child = number<pid_t>(word);
      if (child && found.insert(*child).second) fresh.push_back(*child);
    }
  }
}

}  // namespace

std::optional<ProcStatus> parse_proc_status(std::string_view text) {
  ProcStatus out;
  int seen = 0;
  for (const std::string_view line : text::split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    const std::vector<std::string_view> values = words(line.substr(colon + 1), '\t');
    if (values.empty()) continue;
    // "Name:" may hold anything but a line break: the kernel escapes that.
    if (key == "NSpid" || key == "NSsid") {
      for (const std::string_view value : values) {
        (key == "NSpid" ? out.pids : out.sessions).push_back(number<pid_t>(value).value_or(0));
      }
      ++seen;
    } else if (key == "Uid" && values.size() > 1) {
      out.uid = number<std::uint32_t>(values[1]).value_or(0);
      ++seen;
    } else if (key == "SigPnd" || key == "ShdPnd") {
      out.pending |= number<std::uint64_t>(values[0], 16).value_or(0);
      ++seen;
    }
  }
  if (seen != 5 || out.pids.empty()) return std::nullopt;
  return out;
}

Result<UniqueFd> open_proc() {
  SBX_ASSIGN(UniqueFd proc, fs::open_dir("/proc"));
  struct statfs system {};
  if (::fstatfs(proc.get(), &system) != 0) return sys_error("statfs /proc");
  if (system.f_type != PROC_SUPER_MAGIC) {
    return Error(Errc::kProtocol, "/proc is no proc file system");
  }
  return proc;
}

Result<std::vector<pid_t>> list_processes(int proc) {
  return list_numbers(proc, ".");
}

std::optional<ProcStat> read_proc_stat(int proc, pid_t pid) {
  const auto text = fs::read_file_at(proc, text::cat(pid, "/stat"), kMostText);
  if (!text.ok()) return std::nullopt;
  return parse_proc_stat(text.value());
}

std::optional<ProcStatus> read_proc_status(int proc, pid_t pid) {
  const auto text = fs::read_file_at(proc, text::cat(pid, "/status"), kMostText);
  if (!text.ok()) return std::nullopt;
  return parse_proc_status(text.value());
}

std::string read_proc_command(int proc, pid_t pid, std::size_t most) {
  const auto fd = sys::openat(proc, text::cat(pid, "/cmdline"), O_RDONLY);
  if (!fd.ok()) return {};
  std::string out(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const auto got = sys::read(fd.value().get(), out.data() + size, most - size);
    if (!got.ok() || got.value() == 0) break;
    size += got.value();
  }
  out.resize(size);
  return out;
}

std::vector<pid_t> find_descendants(int proc, pid_t root, std::size_t most) {
  constexpr int kPasses = 3;
  std::set<pid_t> found;
  for (int pass = 0; pass < kPasses; ++pass) {
    const std::size_t before = found.size();
    std::vector<pid_t> next{root};
    next.insert(next.end(), found.begin(), found.end());
    while (!next.empty() && found.size() < most) {
      std::vector<pid_t> fresh;
      for (const pid_t pid : next) {
        if (found.size() >= most) break;
        add_children(proc, pid, found, fresh);
      }
      next = std::move(fresh);
    }
    if (pass > 0 && found.size() == before) break;
  }
  std::vector<pid_t> out(found.begin(), found.end());
  if (out.size() > most) out.resize(most);
  return out;
}

}  // namespace sbx::confine
