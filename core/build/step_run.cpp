// Step run: see step_run.h.
#include "core/build/step_run.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "core/archive/pack.h"
#include "core/base/fs.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/session/client.h"
#include "core/session/commit.h"
#include "core/session/copy.h"

namespace sbx::build {

namespace {

constexpr Millis kStopGrace{2000};
constexpr std::size_t kNameLength = 8;

/// Descriptor `at` is another one as long as this lives.
class Redirected {
 public:
  static Result<Redirected> make(int at, int to) {
    SBX_ASSIGN(UniqueFd kept, sys::dup(at, 3));
    SBX_TRY(sys::dup_onto(to, at, false));
    return Redirected(at, std::move(kept));
  }
  ~Redirected() {
    if (kept_.valid()) (void)sys::dup_onto(kept_.get(), at_, false);
  }
  Redirected(Redirected&&) noexcept = default;
  Redirected& operator=(Redirected&&) = delete;
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  Redirected(int at, UniqueFd kept) : at_(at), kept_(std::move(kept)) {}
  int at_;
  UniqueFd kept_;
};

/// "SRC:DST" with SRC below `dir` when it is relative; read-only.
std::string mount_text(const std::string& mount, const std::string& dir) {
  const std::string rest = mount.starts_with("./") ? mount.substr(2) : mount;
  return text::cat(mount.starts_with('/') ? "" : dir + "/", rest, ":ro");
}

/// The name that what is copied has in the stream: its whole place inside.
std::string member_name(const Step& step) {
  std::string name = step.to;
  if (name.ends_with('/')) {
    const std::size_t slash = step.from.find_last_not_of("/.");
    const std::string from = slash == std::string::npos ? "" : step.from.substr(0, slash + 1);
    name += from.substr(from.rfind('/') + 1);
  }
  const std::size_t first = name.find_first_not_of('/');
  const std::size_t last = name.find_last_not_of('/');
  return first == std::string::npos ? "" : name.substr(first, last - first + 1);
}

/// A child that writes the tree `path` into `out`; its end says nothing that the reader does not.
Result<ChildProcess> start_pack(const std::string& path, const std::string& name, UniqueFd out) {
  const pid_t self = ::getpid();
  SBX_ASSIGN(Forked forked, fork_pidfd());
  if (forked.pid == 0) {
    die_with_parent_in_child(self);
    archive::raise_descriptor_limit();
    archive::PackRequest request;
    request.path = path;
    request.root_name = name;
    archive::TransferReport report;
    const Status packed = archive::pack(request, out.get(), report);
    ::_exit(packed.ok() ? 0 : 1);
  }
  return ChildProcess(forked.pid, std::move(forked.pidfd));
}

std::optional<Error> first_error(const session::CopyResult& result) {
  if (result.from.error.has_value()) return result.from.error;
  return result.to.error;
}

}  // namespace

StepRun::~StepRun() {
  if (session_.has_value()) {
    (void)session::remove(sessions_, session_->name, session::WhenAlive::kStop);
  }
}

Status StepRun::start(const Step& step) {
  using profile::Override;
  session::NewSession wanted;
  wanted.name = text::cat("build-", fs::random_name(kNameLength));
  wanted.labels = {{"sbx.build", request_.name}};
  profile::LoadRequest& load = wanted.profile;
  load.name_or_path = request_.recipe.profile;
  load.state_dir = request_.state_dir;
  load.private_dirs = request_.private_dirs;
  load.env = request_.env;
  const std::string& workdir = state_.config.workdir.empty() ? "/" : state_.config.workdir;
  load.overrides = {{"image", state_.name, "from"},
                    {"workdir", workdir, "workdir"},
                    {"session.ttl", std::string(kSessionTtl), "build"}};
  for (const std::string& mount : request_.recipe.mounts) {
    load.overrides.push_back(
        {"mounts", mount_text(mount, request_.recipe_dir), "mounts", Override::Mode::kAdd});
  }
  wanted.root.is_root = step.kind == StepKind::kCopy;
  if (workdir != "/") wanted.root.dirs.push_back(workdir);
  auto made = session::start_new(sessions_, wanted, request_.warn);
  if (!made.ok()) return std::move(made).error();
  session_ = std::move(made).value();
  return {};
}

Result<std::optional<FailedStep>> StepRun::run(const Step& step) {
  SBX_ASSIGN(const Redirected out, Redirected::make(STDOUT_FILENO, STDERR_FILENO));
  SBX_ASSIGN(session::Client client, session::Client::connect(sessions_, *session_));
  session::ExecOptions options;
  options.argv = step.words;
  SBX_ASSIGN(const session::ExecResult result, session::run_exec(client, options));
  if (result.record.exit_status == 0 && result.record.error.empty()) {
    return std::optional<FailedStep>();
  }
  return std::optional(FailedStep{step, result.record.exit_status, result.record.error});
}

Result<std::optional<FailedStep>> StepRun::copy(const Step& step) {
  SBX_ASSIGN(sys::Pipe stream, sys::pipe());
  SBX_ASSIGN(
      ChildProcess packer,
      start_pack(
          text::cat(request_.recipe_dir, "/", step.from), member_name(step), std::move(stream.w)));
  SBX_ASSIGN(const Redirected in, Redirected::make(STDIN_FILENO, stream.r.get()));
  stream.r.reset();
  session::CopyPlace from;
  from.is_stream = true;
  session::CopyPlace to;
  to.path = "/";
  to.connect = [this] { return session::Client::connect(sessions_, *session_); };
  SBX_ASSIGN(const session::CopyResult result, session::copy(from, to, {}));
  if (result.signal.has_value()) {
    constexpr int kSignalBase = 128;
    return std::optional(FailedStep{step, kSignalBase + *result.signal, "interrupted"});
  }
  SBX_ASSIGN(const int status, packer.wait());
  std::optional<Error> error = first_error(result);
  if (!error.has_value() && status != 0) error = Error(Errc::kSystem, "reading it failed");
  if (!error.has_value()) return std::optional<FailedStep>();
  return std::optional(FailedStep{step, 1, error->message()});
}

Result<std::optional<FailedStep>> StepRun::carry_out(const Step& step) {
  SBX_TRY(start(step));
  return step.kind == StepKind::kRun ? run(step) : copy(step);
}

Result<image::Record> StepRun::commit(const std::string& name) {
  SBX_ASSIGN([[maybe_unused]] const bool was_alive,
             session::stop(sessions_, session_->name, kStopGrace));
  session::CommitRequest wanted;
  wanted.image = name;
  wanted.source = state_.source;
  wanted.config = state_.config;
  SBX_ASSIGN(session::Committed done, session::commit(sessions_, images_, session_->name, wanted));
  return std::move(done.image);
}

}  // namespace sbx::build
