// Pull: see pull.h.
//
// Theory of operation
//   1. skopeo inspect: what is wrong with the name, the registry or the credentials is said before
//      anything is stored, and so is a size that does not fit.
//   2. skopeo copy into an OCI layout below STATE/downloads. The directory is locked (flock(2)):
//      gc removes those that nobody holds.
//   3. The layout is imported as any other: skopeo's files are trusted no more than a stranger's.
#include "core/image/pull.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/budget.h"
#include "core/workspace/layer_store.h"

#include <nlohmann/json.hpp>

namespace sbx::image {

namespace {

constexpr Bytes kMostInspected{std::uint64_t{8} << 20U};
constexpr std::size_t kMostWords = 65536;
constexpr const char* kLayout = "image";
constexpr int kNoProgram = 127;  // as a shell has it

/// Those that take what follows as it is. "docker://" is for registries.
constexpr std::array<std::string_view, 8> kTransports{"docker://",
                                                      "docker-daemon:",
                                                      "docker-archive:",
                                                      "containers-storage:",
                                                      "oci-archive:",
                                                      "oci:",
                                                      "dir:",
                                                      "ostree:"};

std::string_view transport_of(std::string_view ref) {
  for (const std::string_view transport : kTransports) {
    if (ref.starts_with(transport)) return transport;
  }
  return {};
}

/// A child's stdout and stderr, read as they come so that neither blocks it.
struct Said {
  std::string out;
  std::string err;  ///< the end of it
  int status = 0;
};

using Tick = void (*)(const PullRequest&, int dir);

/// Runs it to its end; `tick` is called some times a second.
class Skopeo {
 public:
  Skopeo(const PullRequest& request, std::string cwd, int dir)
      : request_(request), cwd_(std::move(cwd)), dir_(dir) {}

  Result<Said> run(std::vector<std::string> argv, Tick tick) {
    SBX_ASSIGN(sys::Pipe out, sys::pipe());
    SBX_ASSIGN(sys::Pipe err, sys::pipe());
    SBX_ASSIGN(ChildProcess child, start(argv, out.w.get(), err.w.get()));
    out.w.reset();
    err.w.reset();
    SBX_TRY(listen(out.r.get(), err.r.get(), tick));
    SBX_ASSIGN(said_.status, child.wait());
    if (WIFEXITED(said_.status) && WEXITSTATUS(said_.status) == kNoProgram) {
      return Error(Errc::kUnsupported, "pulling images needs skopeo, which is not installed")
          .with_hint(
              "as root: apt-get install skopeo; or save the image elsewhere and sbx image import "
              "FILE NAME");
    }
    return std::move(said_);
  }

 private:
  /// Not spawn(): skopeo has to end with us, whatever ends us.
  Result<ChildProcess> start(const std::vector<std::string>& argv, int out, int err) {
    SBX_ASSIGN(const UniqueFd null, sys::open("/dev/null", O_RDONLY));
    std::vector<char*> words;
    for (const std::string& word : argv) {
      words.push_back(const_cast<char*>(word.c_str()));  // execvp(3) changes nothing
    }
    words.push_back(nullptr);
    const pid_t self = ::getpid();
    SBX_ASSIGN(Forked forked, fork_pidfd());
    if (forked.pid == 0) {
      die_with_parent_in_child(self);
      (void)reset_signals_in_child();
      const bool is_ready = ::dup2(null.get(), STDIN_FILENO) != -1 &&
                            ::dup2(out, STDOUT_FILENO) != -1 && ::dup2(err, STDERR_FILENO) != -1 &&
                            ::chdir(cwd_.c_str()) == 0;
      if (is_ready) ::execvp(words[0], words.data());
      ::_exit(kNoProgram);
    }
    return ChildProcess(forked.pid, std::move(forked.pidfd));
  }

  Status listen(int out, int err, Tick tick) {
    constexpr Millis kEvery{200};
    std::array<pollfd, 2> polled{{{out, POLLIN, 0}, {err, POLLIN, 0}}};
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
      SBX_ASSIGN(const int ready, sys::poll(polled, kEvery));
      if (tick != nullptr) tick(request_, dir_);
      if (ready == 0) continue;
      for (pollfd& each : polled) {
        if (each.fd < 0 || each.revents == 0) continue;
        std::array<char, 8192> buffer{};
        SBX_ASSIGN(const std::size_t got, sys::read(each.fd, buffer.data(), buffer.size()));
        if (got == 0) {
          each.fd = -1;
        } else {
          keep(std::string_view(buffer.data(), got), &each == polled.data());
        }
      }
    }
    return {};
  }

  void keep(std::string_view text, bool is_out) {
    if (is_out) {
      if (said_.out.size() < kMostInspected.v) said_.out += text;
      return;
    }
    said_.err += text;
    if (said_.err.size() > 2 * kMostWords) said_.err.erase(0, said_.err.size() - kMostWords);
  }

  const PullRequest& request_;
  std::string cwd_;
  int dir_;
  Said said_;
};

/// How far the download has come: what lies in its directory.
void measure(const PullRequest& request, int dir) {
  if (request.progress == nullptr) return;
  const auto use = workspace::disk_use_below(dir);
  if (use.ok()) request.progress->read = use.value().bytes.v;
}

struct Meaning {
  std::string_view part;  // of what skopeo says
  Errc code;
  std::string_view hint;
};
constexpr std::array<Meaning, 8> kMeanings{{
    {"HTTP response to HTTPS client",
     Errc::kSystem,
     "for a registry without TLS: sbx image pull --tls-verify=false, or an entry with insecure = "
     "true in /etc/containers/registries.conf"},
    {"x509:",
     Errc::kSystem,
     "put the registry's CA into /etc/containers/certs.d/HOST/ca.crt, or --tls-verify=false"},
    {"unauthorized", Errc::kDenied, "skopeo login HOST, or a name that is public"},
    {"authentication required", Errc::kDenied, "skopeo login HOST, or a name that is public"},
    {"manifest unknown", Errc::kNotFound, "look for its tags: skopeo list-tags docker://NAME"},
    {"name unknown", Errc::kNotFound, "look for its name in the registry"},
    {"no image found in manifest list for architecture",
     Errc::kUnsupported,
     "the image has none for this machine's processor"},
    {"policy.json", Errc::kSystem, "as root: apt-get install golang-github-containers-common"},
}};

Error what_it_says(const Said& said) {
  const std::string message = skopeo_message(said.err);
  const std::string text =
      message.empty() ? text::cat("skopeo failed with status ",
                                  WIFEXITED(said.status) ? WEXITSTATUS(said.status) : said.status)
                      : text::cat("skopeo: ", message);
  for (const Meaning& meaning : kMeanings) {
    if (message.find(meaning.part) == std::string::npos) continue;
    return Error(meaning.code, text).with_hint(std::string(meaning.hint));
  }
  if (message.find("no space left") != std::string::npos) {
    return sys_error(text::cat("download: ", text), ENOSPC);
  }
  return Error(Errc::kSystem, text);
}

bool has_succeeded(const Said& said) {
  return WIFEXITED(said.status) && WEXITSTATUS(said.status) == 0;
}

/// A directory that gc knows to be in use.
Result<std::pair<fs::TempDir, UniqueFd>> make_place(const Store& store) {
  const fs::OwnerUmask mask;
  const std::string parent = store.state_dir() + "/downloads";
  SBX_TRY(fs::mkdirs(parent, 0700));
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    SBX_ASSIGN(fs::TempDir dir, fs::TempDir::create(parent, "pull-"));
    SBX_ASSIGN(UniqueFd lock, sys::open(dir.path(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    // A gc that was faster is removing it.
    if (::flock(lock.get(), LOCK_SH | LOCK_NB) == 0 &&
        sys::fstatat(AT_FDCWD, dir.path(), AT_SYMLINK_NOFOLLOW).ok()) {
      return std::pair(std::move(dir), std::move(lock));
    }
  }
  return Error(Errc::kSystem, text::cat("make a directory in ", parent, ": it does not stay"));
}

void add_tls(std::vector<std::string>& argv, std::string_view flag, TlsVerify tls) {
  if (tls == TlsVerify::kAsConfigured) return;
  argv.push_back(text::cat(flag, tls == TlsVerify::kYes ? "=true" : "=false"));
}

Result<Record> pull(const Store& store, const PullRequest& request, const std::string& name) {
  SBX_ASSIGN(const std::string source, skopeo_source(request.ref));
  SBX_ASSIGN(const auto place, make_place(store));
  Skopeo inspect(request, place.first.path(), place.first.fd());
  std::vector<std::string> argv{"skopeo", "inspect", "--no-tags"};
  add_tls(argv, "--tls-verify", request.tls);
  argv.push_back(source);
  SBX_ASSIGN(const Said known, inspect.run(argv, nullptr));
  if (!has_succeeded(known)) return what_it_says(known);
  if (const auto size = inspected_size(known.out)) {
    SBX_TRY(check_budget(store.state_dir(), Bytes{*size}));
    if (request.progress != nullptr) request.progress->total = *size;
  }

  Skopeo copy(request, place.first.path(), place.first.fd());
  argv = {"skopeo", "copy", "--remove-signatures"};
  add_tls(argv, "--src-tls-verify", request.tls);
  argv.insert(argv.end(), {source, text::cat("oci:", kLayout)});
  SBX_ASSIGN(const Said copied, copy.run(argv, measure));
  if (!has_succeeded(copied)) return what_it_says(copied);

  if (request.progress != nullptr) {
    request.progress->read = 0;
    request.progress->total = 0;
  }
  ImportRequest import;
  import.path = text::cat(place.first.path(), "/", kLayout);
  import.name = name;
  import.source = text::cat("pull ", request.ref);
  import.budget = request.budget;
  import.progress = request.progress;
  return import_image(store, import);
}

}  // namespace

Result<std::string> skopeo_source(std::string_view ref) {
  const bool has_control = std::ranges::any_of(ref, [](char c) { return c > '\0' && c <= ' '; }) ||
                           ref.find('\0') != std::string_view::npos;
  if (ref.empty() || ref.front() == '-' || has_control) {
    return Error(Errc::kUsage, text::cat("\"", text::escape(ref), "\" names no image"))
        .with_hint("like debian:12, quay.io/team/tools@sha256:DIGEST or containers-storage:NAME");
  }
  if (!transport_of(ref).empty()) return std::string(ref);
  return text::cat("docker://", ref);
}

std::string pull_name(std::string_view ref) {
  ref.remove_prefix(transport_of(ref).size());
  while (ref.starts_with('/'))
    ref.remove_prefix(1);
  return std::string(ref);
}

std::string skopeo_message(std::string_view printed) {
  constexpr std::string_view kBegin = "msg=\"";
  const std::string_view said = text::trim(printed);
  const std::string_view line = said.substr(said.rfind('\n') + 1);  // npos + 1 is 0
  const std::size_t begin = line.find(kBegin);
  if (begin == std::string_view::npos) return std::string(line);
  std::string message;
  for (std::size_t i = begin + kBegin.size(); i < line.size() && line[i] != '"'; ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) ++i;
    message += line[i];
  }
  return message;
}

std::optional<std::uint64_t> inspected_size(std::string_view json) {
  if (json.size() > kMostInspected.v) return std::nullopt;
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  const auto layers = parsed.find("LayersData");
  if (layers == parsed.end() || !layers->is_array()) return std::nullopt;
  std::uint64_t sum = 0;
  for (const nlohmann::json& layer : *layers) {
    if (!layer.is_object()) return std::nullopt;
    const auto size = layer.find("Size");
    if (size == layer.end() || !size->is_number_unsigned()) return std::nullopt;
    if (__builtin_add_overflow(sum, size->get<std::uint64_t>(), &sum)) return std::nullopt;
  }
  return sum;
}

Result<Record> pull_image(const Store& store, const PullRequest& request) {
  const std::string name = request.name.empty() ? pull_name(request.ref) : request.name;
  SBX_TRY(check_name(name));
  auto record = pull(store, request, name);
  if (record.ok()) return record;
  return std::move(record).error().prefixed(text::cat("pull ", text::escape(request.ref)));
}

}  // namespace sbx::image
