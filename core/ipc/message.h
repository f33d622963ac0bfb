// Message: what supervisor and agent say to each other, as plain structs.
//
// One codec serves both directions and both backends; see codec.h for the wire format. The agent
// side is hostile by definition: sizes are checked before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/base/unique_fd.h"

namespace sbx::ipc {

inline constexpr uint16_t kProtocolVersion = 3;

/// Host to agent: the encoded set-up plan.
struct Setup {
  uint16_t version = kProtocolVersion;
  std::string plan;  ///< opaque here; the backend's own encoding
};

/// Most descriptors that an Exec gives its program besides the three streams.
inline constexpr uint32_t kMaxMoreFds = 32;

/// Host to agent: start a program. Descriptors: stdin, stdout, stderr (none with `tty`), then
/// `more_fds` further ones.
struct Exec {
  uint32_t id = 0;
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string cwd;
  bool tty = false;
  bool is_last = false;  ///< PID 1, and with it everything inside, ends when this program does
  uint16_t rows = 0;
  uint16_t cols = 0;
  bool has_user = false;  ///< run as `uid` and `gid` (inside's), not as the job
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t more_fds = 0;  ///< they are 3, 4, ... in the program; at most kMaxMoreFds
};

/// Host to agent: signal one exec's process group, or every process but PID 1 when `id` is 0.
struct Signal {
  uint32_t id = 0;
  int32_t signo = 0;
};

/// Host to agent: new size of an exec's terminal.
struct Resize {
  uint32_t id = 0;
  uint16_t rows = 0;
  uint16_t cols = 0;
};

/// Agent to host: set-up is done. Descriptor: the job's /work directory.
struct Ready {
  uint16_t version = kProtocolVersion;
};

/// Agent to host: a set-up step failed; nothing runs. PID 1 exits after it.
struct SetupFailed {
  std::string step;   ///< the step as `--dry-run` prints it
  std::string call;   ///< call and object that failed
  int32_t error = 0;  ///< errno
};

/// Agent to host: the program is running (its exec succeeded). Descriptor with a tty: the master.
struct Started {
  uint32_t id = 0;
  int32_t pid = 0;  ///< inside's number
};

/// Agent to host: the program could not be started.
struct ExecFailed {
  uint32_t id = 0;
  bool is_program = false;  ///< the program itself cannot be run, not a step on the way to it
  std::string what;         ///< stage and object, e.g. "execve /work/a.sh"
  int32_t error = 0;        ///< errno
};

/// Agent to host: the main process of an exec was reaped.
struct Exited {
  uint32_t id = 0;
  int32_t wait_status = 0;  ///< as waitpid(2) gives it
};

/// Host to agent, before Setup: the id maps are written, make what needs no plan. First message.
struct Begin {
  uint16_t version = kProtocolVersion;
  bool has_id_range = false;     ///< become 0 of the range first
  uint64_t ignored_signals = 0;  ///< bit n-1: the caller ignores signal n; programs must not
  std::string base;              ///< opaque here; the backend's own encoding
};

/// Host to agent: stop every process but PID 1, or let them go on. Answered by FrozenSet, in order.
struct SetFrozen {
  bool is_frozen = false;
};

/// Agent to host: it is done, or (with an errno) everything runs as before.
struct FrozenSet {
  bool is_frozen = false;
  int32_t error = 0;  ///< errno; ETIMEDOUT when some process did not stop
};

/// What a file worker does.
enum class FilesOp : uint8_t {
  kPack,       ///< writes what lies at `path` to the stream
  kUnpack,     ///< reads the stream to `path`
  kUnpackAny,  ///< the same; members may have any names, `path` is a directory
  kList,       ///< writes what kUnpack would find to the stream (image/inventory.h)
};
inline constexpr uint8_t kFilesOps = 4;

/// Host to agent: start a file worker. Descriptors: the stream, the pipe for its report and, for
/// kPack with `is_resuming`, the stream of an inventory. Answered like an Exec, without Started.
struct Files {
  uint32_t id = 0;
  FilesOp op = FilesOp::kPack;
  std::string path;       ///< inside; relative ones from /work
  std::string root_name;  ///< what the tree is called in the stream; empty: its content
  bool is_following = false;
  bool is_announcing = false;
  bool is_resuming = false;
};

/// To the host, from a bridge that was made for a machine which lived on without one: an exec that
/// is there. No agent says it. Descriptors, in this order: of a terminal the one host end, else
/// those of its streams (stdin's writing end, the others' reading ends) that have not ended.
struct Running {
  uint32_t id = 0;
  int32_t pid = 0;          ///< inside's number; 0 before Started, which then follows
  bool tty = false;         ///< has a terminal (which may have ended: then no descriptor)
  bool is_worker = false;   ///< of a copy, which fails: its streams did not live on
  bool has_exited = false;  ///< was said before; others hold its streams
  bool has_in = false;
  bool has_out = false;
  bool has_err = false;
};

/// The wire type is the index, so new ones go to the end.
using Message = std::variant<Setup,
                             Exec,
                             Signal,
                             Resize,
                             Ready,
                             SetupFailed,
                             Started,
                             ExecFailed,
                             Exited,
                             Begin,
                             SetFrozen,
                             FrozenSet,
                             Files,
                             Running>;

/// A received message and the descriptors that came with it.
struct Received {
  Message message;
  std::vector<UniqueFd> fds;
};

}  // namespace sbx::ipc
