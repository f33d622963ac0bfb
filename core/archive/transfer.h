// Transfer: what both ends of a copy share: how far it is, what could not be kept, how it ended.
//
// A copy has two ends, each in a process of its own: one packs a tree into a tar stream (pack.h),
// the other unpacks it (unpack.h). Each writes one report when it ends.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace sbx::archive {

/// What a copy could not keep, or left alone.
enum class NoteKind : std::uint8_t {
  kSpecialFile,   ///< FIFO, socket or device: not copied
  kUnreadable,    ///< the file or directory cannot be read: not copied
  kChanged,       ///< it changed while it was read: what is there is padded or cut
  kXattrLost,     ///< a user attribute
  kAclLost,       ///< an access control list
  kCapabilities,  ///< file capabilities
  kSetuid,        ///< a setuid or setgid bit
  kOtherTree,     ///< a file system of the kernel (/proc, /sys …): not entered
  kTooDeep,       ///< below the deepest directory that is copied: not copied
  kLinkCut,       ///< a hard link that became a file of its own
};
inline constexpr std::size_t kNoteKinds = 10;

/// "not copied: FIFOs, sockets and devices" and so on: a sentence for the user.
std::string_view describe(NoteKind kind);
/// Whether something that was asked for is missing in the copy.
bool is_missing(NoteKind kind);

/// All notes of one kind.
struct Note {
  std::uint64_t count = 0;
  std::vector<std::string> paths;  ///< the first ones, at most kMaxNotePaths; bytes from inside
};
inline constexpr std::size_t kMaxNotePaths = 20;

struct TransferReport {
  std::uint64_t entries = 0;  ///< members written or made
  std::uint64_t bytes = 0;    ///< of content in the stream
  std::uint64_t skipped = 0;  ///< files that were at the destination already
  std::array<Note, kNoteKinds> notes;
  std::optional<Error> error;  ///< what ended the copy early
  bool is_cut = false;         ///< ... because the other end was gone: that one knows why

  void note(NoteKind kind, std::string_view path);
  void fail(Error why);
};

/// Longest encoded report.
inline constexpr std::size_t kMaxReport = std::size_t{2} << 20U;

std::string encode(const TransferReport& report);
/// kProtocol when it is malformed; the other end of the pipe may be hostile.
Result<TransferReport> decode_report(std::string_view text);

/// How the error of a reader ends whose stream has no end mark.
inline constexpr std::string_view kStreamEndedEarly = "the tar stream ended early";

/// How far a copy is. Put it into memory that both processes share.
struct TransferProgress {
  std::atomic<std::uint64_t> bytes;  ///< of content that has gone through
  std::atomic<std::uint64_t> total;  ///< 0: not known
  std::atomic<std::uint64_t> entries;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// How the path that the user gave is resolved; below it no link is ever followed.
enum class Root : std::uint8_t {
  kHost,     ///< as any program of the caller would
  kSandbox,  ///< "/" is the root of the sandbox, magic links (/proc/PID/root) are refused
};

/// Deepest directory of a copy: each level holds a descriptor.
inline constexpr std::size_t kMaxTransferDepth = 900;

/// Lets this process have as many descriptors as its hard limit allows.
void raise_descriptor_limit();

}  // namespace sbx::archive
