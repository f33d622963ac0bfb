// Debootstrap: see debootstrap.h.
//
// Theory of operation
//  1. The host's sources are read here and given to mmdebstrap on its standard input.
//  2. mmdebstrap runs as root of the storage ids, with the host's network and a mount namespace of
//     its own: maintainer scripts never have a right on the host. It works below /var/tmp, since
//     the state directory is closed to those ids.
//  3. Its tar stream is imported while it is written. It begins only when all packages are
//     installed; should mmdebstrap fail after that, the name gets back what it had before.
//  4. When this process dies mmdebstrap gets SIGTERM and clears up.
#include "core/image/debootstrap.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/base/fs.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/storage_ids.h"
#include "core/image/apt_sources.h"
#include "core/image/tool.h"
#include "core/workspace/beneath.h"

namespace sbx::image {

namespace {

constexpr Bytes kMaxSources{std::uint64_t{4} << 20U};
constexpr Bytes kMaxDump{std::uint64_t{4} << 20U};
constexpr Bytes kMaxSaid{std::uint64_t{16} << 20U};
constexpr const char* kWorkDir = "/var/tmp";
constexpr int kNoExec = 127;

Status check_package(std::string_view name) {
  const bool is_name =
      !name.empty() && name.front() != '-' && name.size() <= 200 &&
      std::ranges::all_of(name, [](char c) {
        const bool is_alnum =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        return is_alnum || std::string_view(".+-:=~/_").find(c) != std::string_view::npos;
      });
  if (is_name) return {};
  return Error(Errc::kUsage, text::cat("\"", text::escape(name), "\" is no name of a package"));
}

Result<std::vector<AptSource>> host_sources() {
  std::vector<AptSource> all;
  const auto take = [&all](std::vector<AptSource> some) {
    std::move(some.begin(), some.end(), std::back_inserter(all));
  };
  if (const auto text = fs::read_file("/etc/apt/sources.list", kMaxSources); text.ok()) {
    take(parse_one_line(text.value()));
  }
  const auto dir = fs::open_dir("/etc/apt/sources.list.d");
  if (!dir.ok()) return all;
  SBX_ASSIGN(std::vector<std::string> names, workspace::read_names(dir.value().get()));
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const bool is_list = name.ends_with(".list");
    if (!is_list && !name.ends_with(".sources")) continue;
    SBX_ASSIGN(const std::string text,
               fs::read_file(text::cat("/etc/apt/sources.list.d/", name), kMaxSources));
    take(is_list ? parse_one_line(text) : parse_deb822(text));
  }
  return all;
}

/// Empty where apt-config cannot be asked.
std::vector<std::string> host_options() {
  auto pipe = sys::pipe();
  if (!pipe.ok()) return {};
  SpawnOptions options;
  options.argv = {"apt-config", "dump", "Acquire"};
  options.out = pipe.value().w.get();
  auto child = spawn(options);
  if (!child.ok()) return {};
  pipe.value().w.reset();
  const auto dump = sys::read_all(pipe.value().r.get(), kMaxDump);
  return dump.ok() ? transport_options(dump.value()) : std::vector<std::string>();
}

/// A file that nobody else sees, to be read from its beginning.
Result<UniqueFd> text_file(const std::string& text) {
  SBX_ASSIGN(UniqueFd file, sys::memfd_create("sources"));
  SBX_TRY(sys::write_all(file.get(), text));
  if (::lseek64(file.get(), 0, SEEK_SET) == -1) return sys_error("rewind the sources");
  return file;
}

std::vector<std::string> environment() {
  std::vector<std::string> env;
  for (char** each = ::environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view entry = *each;
    // Its home is none of the storage root's; dates and messages shall not depend on the user.
    const bool is_ours = entry.starts_with("HOME=") || entry.starts_with("LC_") ||
                         entry.starts_with("LANG") || entry.starts_with("PATH=") ||
                         entry.starts_with("APT_CONFIG=") || entry.starts_with("TMPDIR=");
    if (!is_ours) env.emplace_back(entry);
  }
  env.emplace_back("HOME=/");
  env.emplace_back("LC_ALL=C.UTF-8");
  env.emplace_back("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  const char* const own = std::getenv("TMPDIR");
  env.push_back(text::cat("TMPDIR=", own != nullptr && *own == '/' ? own : kWorkDir));
  return env;
}

struct Words {
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {
    for (std::string& word : words_) {
      pointers_.push_back(word.data());
    }
    pointers_.push_back(nullptr);
  }
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

struct Run {
  std::string program;
  std::vector<std::string> arguments;
  int in = -1;
  int out = -1;
  int err = -1;
};

/// In the child: becomes mmdebstrap.
int become(const Run& run) {
  // Not killed: it has mounts and files to clear away.
  static_cast<void>(::prctl(PR_SET_PDEATHSIG, SIGTERM));
  std::vector<std::string> words{run.program};
  words.insert(words.end(), run.arguments.begin(), run.arguments.end());
  const Words argv(std::move(words));
  const Words env(environment());
  const bool is_set = sys::dup_onto(run.in, STDIN_FILENO, false).ok() &&
                      sys::dup_onto(run.out, STDOUT_FILENO, false).ok() &&
                      sys::dup_onto(run.err, STDERR_FILENO, false).ok() && ::chdir("/") == 0 &&
                      reset_signals_in_child() == 0;
  if (!is_set) return kNoExec;
  static_cast<void>(sys::execveat(AT_FDCWD, run.program, argv.get(), env.get(), 0));
  return kNoExec;
}

std::string last_lines(int fd) {
  constexpr std::size_t kMost = 2000;
  if (::lseek64(fd, 0, SEEK_SET) == -1) return {};
  const auto all = sys::read_all(fd, kMaxSaid);
  if (!all.ok()) return {};
  std::string_view text = text::trim(all.value());
  if (text.size() > kMost) text.remove_prefix(text.size() - kMost);
  return text::escape(text);
}

Status check(const DebootstrapRequest& request) {
  SBX_TRY(check_name(request.name));
  SBX_TRY(check_suite(request.suite));
  if (!is_variant(request.variant)) {
    return Error(Errc::kUsage, text::cat("unknown variant ", text::escape(request.variant)));
  }
  for (const std::string& package : request.include) {
    SBX_TRY(check_package(package));
  }
  return {};
}

/// What `name` was before; nothing of it may be swept meanwhile.
struct Before {
  workspace::LayersLock lock;
  std::optional<Record> record;
};

Result<Before> remember(const Store& store, const std::string& name) {
  SBX_ASSIGN(workspace::LayersLock lock,
             workspace::LayersLock::take(store.layers(), workspace::LayersLock::Mode::kShared));
  Before before{std::move(lock), std::nullopt};
  auto record = store.find(name);
  if (record.ok()) {
    before.record = std::move(record).value();
  } else if (record.error().code() != Errc::kNotFound) {
    return std::move(record).error();
  }
  return before;
}

Error failure(int status, int said, bool is_quiet) {
  const std::string how = WIFSIGNALED(status)
                              ? text::cat("was ended by signal ", WTERMSIG(status))
                              : text::cat("ended with status ", WEXITSTATUS(status));
  Error error(Errc::kSystem, text::cat("mmdebstrap ", how));
  if (!is_quiet) return std::move(error).with_hint("what it says above tells why");
  return std::move(error).with_hint(last_lines(said));
}

Result<Record> import_stream(const Store& store, const DebootstrapRequest& request, UniqueFd in) {
  SBX_TRY(sys::dup_onto(in.get(), STDIN_FILENO, false));
  in.reset();
  ImportRequest wanted;
  wanted.path = "-";
  wanted.name = request.name;
  wanted.source = text::cat("debootstrap ", request.suite, " ", request.variant);
  wanted.progress = request.progress;
  auto record = import_image(store, wanted);
  // A writer that is still there hears that nobody reads.
  SBX_ASSIGN(const UniqueFd null, sys::open("/dev/null", O_RDONLY));
  SBX_TRY(sys::dup_onto(null.get(), STDIN_FILENO, false));
  return record;
}

}  // namespace

Result<Record> create_debootstrap(const Store& store, const DebootstrapRequest& request) {
  SBX_TRY(check(request));
  const std::optional<std::string> program = find_tool("mmdebstrap");
  if (!program.has_value()) {
    return Error(Errc::kUnsupported, "mmdebstrap is not installed")
        .with_hint("as root: apt-get install mmdebstrap");
  }
  SBX_ASSIGN(const confine::StorageIds ids, confine::storage_ids());
  SBX_ASSIGN(const std::vector<AptSource> sources, host_sources());
  SBX_ASSIGN(const std::string text, sources_for(sources, request.suite));
  SBX_ASSIGN(const UniqueFd input, text_file(text));
  SBX_ASSIGN(const UniqueFd said, sys::memfd_create("mmdebstrap"));
  SBX_ASSIGN(const Before before, remember(store, request.name));
  SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
  Run run;
  run.program = *program;
  run.arguments = debootstrap_arguments(request, host_options());
  run.in = input.get();
  run.out = pipe.w.get();
  run.err = request.is_quiet ? said.get() : STDERR_FILENO;
  SBX_ASSIGN(ChildProcess child,
             confine::fork_as_storage_root(
                 ids, [&run] { return become(run); }, confine::StorageNet::kHost));
  pipe.w.reset();
  auto record = import_stream(store, request, std::move(pipe.r));
  SBX_ASSIGN(const int status, child.wait());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return record;
  if (record.ok()) {
    SBX_TRY(before.record.has_value() ? store.put(*before.record, before.lock)
                                      : store.remove(request.name));
  }
  return failure(status, said.get(), request.is_quiet);
}

}  // namespace sbx::image
