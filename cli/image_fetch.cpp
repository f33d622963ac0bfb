// Image fetch: see image_fetch.h.
#include "cli/image_fetch.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/image.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/session_numbers.h"
#include "core/base/exit_code.h"
#include "core/base/loop.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::cli {
namespace {

constexpr std::size_t kMostAnswer = std::size_t{16} << 20U;

/// Numbers that the child, and its children, write and we read.
class SharedProgress {
 public:
  static Result<SharedProgress> make() {
    void* const at = ::mmap(nullptr,
                            sizeof(image::ImportProgress),
                            PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS,
                            -1,
                            0);
    if (at == MAP_FAILED) return sys_error("map memory for the progress");
    return SharedProgress(new (at) image::ImportProgress{});
  }
  SharedProgress(SharedProgress&& other) noexcept : progress_(std::exchange(other.progress_, {})) {}
  SharedProgress& operator=(SharedProgress&&) = delete;
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  ~SharedProgress() {
    if (progress_ != nullptr) ::munmap(progress_, sizeof(image::ImportProgress));
  }
  image::ImportProgress& operator*() const { return *progress_; }

 private:
  explicit SharedProgress(image::ImportProgress* progress) : progress_(progress) {}
  image::ImportProgress* progress_;
};

/// 'r' and the record, or 'e', the code, and message and hint with a NUL between.
std::string encode(const Result<image::Record>& result) {
  if (result.ok()) return "r" + image::to_json(result.value());
  const Error& error = result.error();
  std::string out = "e";
  out += static_cast<char>('A' + static_cast<int>(error.code()));
  out += error.message().substr(0, error.message().find('\0'));
  out += '\0';
  return out + error.hint();
}

Result<image::Record> decode(std::string_view text) {
  if (text.starts_with('r')) return image::parse_record(text.substr(1));
  const std::size_t nul = text.find('\0');
  if (!text.starts_with('e') || nul == std::string_view::npos || nul < 2) {
    return Error(Errc::kInternal, "the child that did it gave no answer");
  }
  const auto code = static_cast<Errc>(text[1] - 'A');
  return Error(code, std::string(text.substr(2, nul - 2)))
      .with_hint(std::string(text.substr(nul + 1)));
}

struct Answer {
  std::string text;
  int signo = 0;  ///< the signal that interrupted it
};

class Fetching {
 public:
  Fetching(const Fetch& fetch, bool has_bar) : fetch_(fetch), bar_(has_bar) {}

  Result<Answer> run() {
    SBX_ASSIGN(const SharedProgress progress, SharedProgress::make());
    progress_ = &*progress;
    SBX_TRY(start());
    std::vector<Watch> watches;
    for (const int signo : {SIGINT, SIGTERM, SIGHUP}) {
      SBX_ASSIGN(Watch watch, loop_.add_signal(signo, [this, signo](const signalfd_siginfo&) {
        if (answer_.signo == 0) answer_.signo = signo;
        (void)child_->kill(SIGKILL);
      }));
      watches.push_back(std::move(watch));
    }
    const Watch reading = loop_.add_fd(pipe_.get(), EPOLLIN, [this](std::uint32_t) { read(); });
    if (bar_.is_on()) draw();
    SBX_TRY(loop_.run());
    bar_.clear();
    SBX_ASSIGN(const int status, child_->wait());
    if (answer_.text.empty() && answer_.signo == 0 && WIFSIGNALED(status)) {
      return Error(Errc::kSystem,
                   text::cat("the child that did it died of signal ", WTERMSIG(status)))
          .with_hint("when that was the kernel's doing, dmesg says why; too little memory?");
    }
    return std::move(answer_);
  }

 private:
  Status start() {
    SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
    const pid_t self = ::getpid();
    SBX_ASSIGN(Forked forked, fork_pidfd());
    if (forked.pid == 0) {
      die_with_parent_in_child(self);
      (void)reset_signals_in_child();
      ::signal(SIGPIPE, SIG_IGN);
      pipe.r.reset();
      ::_exit(sys::write_all(pipe.w.get(), encode(fetch_(*progress_))).ok() ? 0 : 1);
    }
    child_.emplace(forked.pid, std::move(forked.pidfd));
    pipe_ = std::move(pipe.r);
    return {};
  }

  void read() {
    std::array<char, 65536> buffer{};
    const auto got = sys::read(pipe_.get(), buffer.data(), buffer.size());
    if (!got.ok() || got.value() == 0 || answer_.text.size() > kMostAnswer) {
      loop_.stop();
      return;
    }
    answer_.text.append(buffer.data(), got.value());
  }

  void draw() {
    constexpr Millis kEvery{150};
    bar_.show(session::CopyProgress{progress_->read.load(), progress_->total.load()});
    timer_ = loop_.add_timer(kEvery, [this] { draw(); });
  }

  const Fetch& fetch_;
  ProgressBar bar_;
  image::ImportProgress* progress_ = nullptr;
  Loop loop_;
  Watch timer_;
  std::optional<ChildProcess> child_;
  UniqueFd pipe_;
  Answer answer_;
};

std::string as_text(const image::Record& record) {
  return text::cat(record.name,
                   "  ",
                   short_id(record),
                   "  ",
                   bytes_text(image::size_of(record)),
                   "  ",
                   record.layers.size(),
                   record.layers.size() == 1 ? " layer\n" : " layers\n");
}

}  // namespace

int fetch_image(const image::Store& store, const Invocation& given, const Fetch& fetch, Bar bar) {
  Result<Answer> answer = Fetching(fetch, bar == Bar::kYes && !given.has("quiet")).run();
  sweep_after(store);
  if (!answer.ok()) return failed(answer.error());
  if (answer.value().signo != 0) return kExitSignalBase + answer.value().signo;
  const Result<image::Record> record = decode(answer.value().text);
  if (!record.ok()) return failed(record.error());
  if (given.has("quiet") && !given.has("json")) return 0;
  return printed(print(given.has("json") ? image::listing_json(record.value()) + "\n"
                                         : as_text(record.value())));
}

}  // namespace sbx::cli
