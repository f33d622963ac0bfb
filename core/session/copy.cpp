// Copy: see copy.h.
#include "core/session/copy.h"

#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "core/archive/inventory.h"
#include "core/archive/pack.h"
#include "core/archive/tree_path.h"
#include "core/archive/unpack.h"
#include "core/base/loop.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/signals.h"
#include "core/session/copy_child.h"
#include "core/session/files_request.h"

namespace sbx::session {

namespace {

constexpr Millis kLookEvery{200};
constexpr int kPipeSize = 1 << 20;

/// One end that is at work: a child of ours or a worker inside.
struct End {
  std::optional<ChildProcess> child;
  std::optional<Client> client;
  std::int64_t worker = 0;
  UniqueFd report_fd;
  std::string report_text;
  bool is_told = false;  ///< its report has ended
  bool is_over = false;
  bool is_dropped = false;     ///< nobody takes what it sends any more: how it ends is no matter
  std::optional<Error> error;  ///< it could not be started, or its session ended
  Watch report_watch;
  Watch over_watch;
  Watch first_look;
};

class Copying {
 public:
  Copying(const CopyPlace& from, const CopyPlace& to, const CopyOptions& options)
      : from_(from),
        to_(to),
        options_(options),
        root_name_(from.is_stream ? "" : archive::name_of_copy(from.path)) {}

  Result<CopyResult> run();

 private:
  Status start_ends();
  Status start_list(sys::Pipe& list);
  Result<End*> start_child(const ChildFds& fds, const ChildWork& work);
  Result<End*> start_worker(const CopyPlace& place,
                            const ipc::Files& request,
                            std::span<const int> fds);
  Result<End*> start_pack(int out, int present);
  Result<End*> start_unpack(int in);
  archive::UnpackRequest host_unpack() const;
  ipc::Files worker_unpack(ipc::FilesOp op) const;
  Status watch(End& end);
  Status watch_signals();
  void read_report(End& end);
  void on_frames(End& end);
  void look_if_over();
  void interrupt(int signo);
  void look();
  Result<CopyResult> result();

  const CopyPlace& from_;
  const CopyPlace& to_;
  const CopyOptions& options_;
  std::string root_name_;
  Loop loop_;
  std::list<End> ends_;
  End* source_ = nullptr;
  End* middle_ = nullptr;
  End* sink_ = nullptr;
  archive::TransferProgress* progress_ = nullptr;
  std::vector<Watch> signals_;
  Watch look_again_;
  std::optional<int> signal_;
};

/// The report of an end, or why there is none.
archive::TransferReport report_of(const End& end) {
  auto report = archive::decode_report(end.report_text);
  if (report.ok() && !end.error.has_value()) return std::move(report).value();
  archive::TransferReport none;
  none.fail(end.error.has_value() ? *end.error : Error(Errc::kSystem, "an end of the copy died"));
  return none;
}

Status Copying::watch(End& end) {
  SBX_TRY(sys::set_nonblocking(end.report_fd.get(), true));
  end.report_watch = loop_.add_fd(
      end.report_fd.get(), EPOLLIN, [this, &end](std::uint32_t /*events*/) { read_report(end); });
  if (end.child.has_value()) {
    end.over_watch = loop_.add_pidfd(end.child->pidfd(), [this, &end] {
      (void)end.child->wait();
      end.is_over = true;
      look_if_over();
    });
    return {};
  }
  // Its end may have come together with the answer, and is read already then.
  end.first_look = loop_.add_timer(Millis{0}, [this, &end] { on_frames(end); });
  end.over_watch = loop_.add_fd(
      end.client->fd(), EPOLLIN, [this, &end](std::uint32_t /*events*/) { on_frames(end); });
  return {};
}

void Copying::read_report(End& end) {
  std::array<char, 65536> piece{};
  while (true) {
    const auto size = sys::read(end.report_fd.get(), piece.data(), piece.size());
    if (!size.ok() && size.error().sys_errno() == EAGAIN) return;
    if (!size.ok() || size.value() == 0) break;
    if (end.report_text.size() > archive::kMaxReport) break;
    end.report_text.append(piece.data(), size.value());
  }
  end.report_watch.remove();
  end.report_fd.reset();
  end.is_told = true;
  look_if_over();
}

void Copying::on_frames(End& end) {
  while (!end.is_over) {
    auto frame = end.client->poll();
    if (frame.ok() && !frame.value().has_value()) return;
    if (!frame.ok()) {
      const bool has_ended = frame.error().code() == Errc::kProtocol;
      end.error = has_ended ? Error(Errc::kSystem, "the session ended during the copy")
                            : std::move(frame).error();
    } else if (frame.value()->fields.op() != "files_end") {
      continue;
    }
    end.is_over = true;
  }
  end.over_watch.remove();
  look_if_over();
}

void Copying::look_if_over() {
  // Who passes a stream on may wait for a source that never ends.
  const bool is_useless = sink_ != nullptr && sink_->is_over && sink_->is_told;
  if (is_useless && middle_ != nullptr && !middle_->is_over && !middle_->is_dropped) {
    middle_->is_dropped = true;
    (void)middle_->child->kill(SIGKILL);
  }
  for (const End& end : ends_) {
    if (!end.is_over || !end.is_told) return;
  }
  loop_.stop();
}

Result<End*> Copying::start_child(const ChildFds& fds, const ChildWork& work) {
  SBX_ASSIGN(CopyChild child, start_copy_child(fds, work));
  End& end = ends_.emplace_back();
  end.child.emplace(std::move(child.process));
  end.report_fd = std::move(child.report);
  SBX_TRY(watch(end));
  return &end;
}

Result<End*> Copying::start_worker(const CopyPlace& place,
                                   const ipc::Files& request,
                                   std::span<const int> fds) {
  SBX_ASSIGN(Client client, place.connect());
  SBX_ASSIGN(sys::Pipe report, sys::pipe());
  std::vector<int> all{fds.front(), report.w.get()};
  all.insert(all.end(), fds.begin() + 1, fds.end());
  SBX_ASSIGN(const Frame answer, client.call(files_fields(request), all));
  End& end = ends_.emplace_back();
  end.worker = answer.fields.number("id");
  end.client.emplace(std::move(client));
  end.report_fd = std::move(report.r);
  SBX_TRY(watch(end));
  return &end;
}

archive::UnpackRequest Copying::host_unpack() const {
  archive::UnpackRequest request;
  request.path = to_.path;
  request.root_name = root_name_;
  request.is_keeping_parts = options_.is_resuming;
  request.progress = progress_;
  return request;
}

ipc::Files Copying::worker_unpack(ipc::FilesOp op) const {
  ipc::Files request;
  request.op = op;
  request.path = to_.path;
  request.root_name = root_name_;
  request.is_resuming = options_.is_resuming;
  return request;
}

/// The receiving side says what it has.
Status Copying::start_list(sys::Pipe& list) {
  SBX_ASSIGN(list, sys::pipe());
  if (to_.is_session()) {
    const std::array<int, 1> fds{list.w.get()};
    SBX_TRY(start_worker(to_, worker_unpack(ipc::FilesOp::kList), fds));
  } else {
    const ChildWork work = [request = host_unpack()](const ChildFds& fds,
                                                     archive::TransferReport& /*report*/) {
      return archive::write_inventory(request, fds.out);
    };
    SBX_TRY(start_child({-1, list.w.get()}, work));
  }
  list.w.reset();
  return {};
}

Result<End*> Copying::start_pack(int out, int present) {
  const bool is_following = archive::split_path(from_.path).has_slash;
  if (from_.is_session()) {
    ipc::Files request;
    request.path = from_.path;
    request.root_name = root_name_;
    request.is_following = is_following;
    request.is_announcing = static_cast<bool>(options_.on_progress) && !to_.is_stream;
    request.is_resuming = present >= 0;
    std::vector<int> fds{out};
    if (present >= 0) fds.push_back(present);
    return start_worker(from_, request, fds);
  }
  archive::PackRequest request;
  request.path = from_.path;
  request.root_name = root_name_;
  request.is_following = is_following;
  request.is_announcing_total = static_cast<bool>(options_.on_progress);
  request.progress = progress_;
  const ChildWork work = [request](const ChildFds& fds, archive::TransferReport& report) -> Status {
    if (fds.in < 0) return archive::pack(request, fds.out, report);
    SBX_ASSIGN(const archive::Inventory present_files, archive::Inventory::read(fds.in));
    archive::PackRequest with = request;
    with.present = &present_files;
    return archive::pack(with, fds.out, report);
  };
  return start_child({present, out}, work);
}

Result<End*> Copying::start_unpack(int in) {
  if (to_.is_session()) {
    const std::array<int, 1> fds{in};
    const auto op = from_.is_stream ? ipc::FilesOp::kUnpackAny : ipc::FilesOp::kUnpack;
    return start_worker(to_, worker_unpack(op), fds);
  }
  const ChildWork work = [request = host_unpack()](const ChildFds& fds,
                                                   archive::TransferReport& report) {
    return archive::unpack(request, fds.in, report);
  };
  return start_child({in, -1}, work);
}

/// The receiving end first: what is wrong with the destination ends the copy before anything flows.
Status Copying::start_ends() {
  SBX_ASSIGN(sys::Pipe stream, sys::pipe());
  (void)sys::set_pipe_size(stream.w.get(), kPipeSize);
  const bool is_middle =
      (from_.is_session() && to_.is_session()) || from_.is_stream || to_.is_stream;
  sys::Pipe list;
  if (options_.is_resuming) SBX_TRY(start_list(list));
  if (!is_middle) {
    SBX_ASSIGN(sink_, start_unpack(stream.r.get()));
    SBX_ASSIGN(source_, start_pack(stream.w.get(), list.r.get()));
    return {};
  }
  sys::Pipe second;
  SBX_ASSIGN(second, sys::pipe());
  (void)sys::set_pipe_size(second.w.get(), kPipeSize);
  const int in = from_.is_stream ? STDIN_FILENO : stream.r.get();
  const int out = to_.is_stream ? STDOUT_FILENO : second.w.get();
  if (!to_.is_stream) {
    SBX_ASSIGN(sink_, start_unpack(second.r.get()));
  }
  SBX_ASSIGN(middle_, start_child({in, out}, relay_work(progress_)));
  if (!from_.is_stream) {
    SBX_ASSIGN(source_, start_pack(stream.w.get(), list.r.get()));
  }
  return {};
}

Status Copying::watch_signals() {
  for (const int signo : run::kEndingSignals) {
    if (run::is_ignored(signo)) continue;
    SBX_ASSIGN(Watch caught, loop_.add_signal(signo, [this](const signalfd_siginfo& info) {
      interrupt(static_cast<int>(info.ssi_signo));
    }));
    signals_.push_back(std::move(caught));
  }
  return {};
}

/// Ends who sends; the receiving end then cleans up. A second signal waits for nobody.
void Copying::interrupt(int signo) {
  if (signal_.has_value()) return loop_.stop();
  signal_ = signo;
  for (End& end : ends_) {
    if (&end == sink_ || end.is_over) continue;
    if (end.child.has_value()) {
      (void)end.child->kill(SIGKILL);
    } else {
      (void)end.client->send(Fields("files_stop").set("id", end.worker));
    }
  }
}

void Copying::look() {
  options_.on_progress({progress_->bytes, progress_->total});
  look_again_ = loop_.add_timer(kLookEvery, [this] { look(); });
}

Result<CopyResult> Copying::run() {
  if (options_.on_progress) progress_ = shared_progress();
  SBX_TRY(watch_signals());
  SBX_TRY(start_ends());
  if (progress_ != nullptr) look();
  SBX_TRY(loop_.run());
  return result();
}

Result<CopyResult> Copying::result() {
  CopyResult result;
  result.signal = signal_;
  if (source_ != nullptr) result.from = report_of(*source_);
  if (sink_ != nullptr) result.to = report_of(*sink_);
  if (signal_.has_value()) return result;
  // Who was only cut off knows nothing; the one at whom it began does.
  std::optional<Error> cut;
  if (result.to.error.has_value() && !result.to.is_cut) return *result.to.error;
  for (const End& end : ends_) {
    if (end.is_dropped) continue;
    const archive::TransferReport report = report_of(end);
    if (!report.error.has_value()) continue;
    if (!report.is_cut) return *report.error;
    if (!cut.has_value()) cut = report.error;
  }
  if (cut.has_value()) return *std::move(cut);
  return result;
}

}  // namespace

Result<CopyResult> copy(const CopyPlace& from, const CopyPlace& to, const CopyOptions& options) {
  if (!from.is_session() && !to.is_session()) {
    return Error(Errc::kUsage, "neither side is in a session").with_hint("NAME:PATH is in one");
  }
  if (options.is_resuming && (from.is_stream || to.is_stream)) {
    return Error(Errc::kUsage, "a stream cannot be gone on with").with_hint("leave out --resume");
  }
  return Copying(from, to, options).run();
}

}  // namespace sbx::session
