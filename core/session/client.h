// Client: a command's side of a session's control socket.
//
// All of it blocks; the program's time limits and the supervisor's end bound how long.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/session/exec_record.h"
#include "core/session/record.h"
#include "core/session/store.h"
#include "core/session/wire.h"

namespace sbx::session {

/// A connection to the supervisor of a session.
class Client {
 public:
  /// kNotFound when no supervisor listens.
  static Result<Client> connect(const Store& store, const Record& record);

  int fd() const { return socket_.get(); }
  Status send(Fields fields, std::span<const int> fds = {});
  /// The next frame; an error that it says is the error here.
  Result<Frame> receive();
  /// receive() without waiting: nullopt when nothing is there.
  Result<std::optional<Frame>> poll();
  /// How long an answer that takes no work may take; then the supervisor hangs.
  static constexpr Millis kAnswerPatience{5000};
  /// Sends, and waits for the answer: kTimeout with the fix after `patience` (negative: none).
  Result<Frame> call(Fields fields,
                     std::span<const int> fds = {},
                     Millis patience = kAnswerPatience);
  /// Waits until the supervisor closes the connection; false after `patience`.
  Result<bool> wait_for_close(Millis patience);

 private:
  Client(UniqueFd socket, std::string session)
      : socket_(std::move(socket)),
        session_(std::move(session)),
        reader_(std::make_unique<FrameReader>()) {}
  UniqueFd socket_;
  std::string session_;
  std::unique_ptr<FrameReader> reader_;
};

/// What `exec` is asked for by its user.
struct ExecOptions {
  std::vector<std::string> argv;
  std::vector<std::string> env;  ///< "NAME=value", added to the session's
  std::optional<std::string> cwd;
  std::optional<backend::User> user;
  bool tty = false;
  bool want_stdin = false;
  bool is_detached = false;
  bool no_start = false;  ///< a paused session stays so: an error
  bool capture = false;   ///< its output goes into ExecResult, not to our descriptors
  std::optional<Millis> timeout;
};

struct ExecResult {
  ExecRecord record;
  std::string out;  ///< with capture
  std::string err;
  bool out_truncated = false;
  bool err_truncated = false;
};

/// Runs a program in the session and waits for its end, relaying our descriptors 0, 1 and 2.
/// SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the program, a second one ends it. With `is_detached`
/// it returns at once. Errors: the program's record is not to be had.
Result<ExecResult> run_exec(Client& client, const ExecOptions& options);

}  // namespace sbx::session
