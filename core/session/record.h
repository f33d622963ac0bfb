// Record: what is known of a session, as plain data, and its JSON in the state directory.
//
// record.json belongs to whoever holds the session's lock (store.h); run.json to the living
// supervisor (life.h). Both have a format number: a newer one is refused and never rewritten.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::session {

/// Of a record whose session is made of an image, or keeps its files on a disk; all else is still
/// written as format 1.
inline constexpr int kRecordFormat = 2;

/// A state that can be gone back to. Its layers are frozen.
struct Checkpoint {
  std::string tag;
  std::int64_t created_ns = 0;      ///< wall time
  std::vector<std::string> layers;  ///< ids, the lowest first
  bool is_automatic = false;        ///< made by restore, to keep what was there
  std::string way;                  ///< "stacked" or "copied"
  std::int64_t pause_ns = 0;        ///< how long the session stood still for it
  std::string disk;                 ///< instead of layers: file in the session's directory
};

/// The image that a session was made of, as it was then. The session does not need it any more.
struct RootImage {
  std::string record;     ///< image::to_json()
  std::uint32_t uid = 0;  ///< of the image's user; programs run as it
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  ///< its further groups
  std::string home;                   ///< its home directory
};

/// The disk that a session's virtual machine keeps its files on. The host never reads what is in
/// it.
struct Disk {
  std::string file;  ///< in the session's directory; made by the first start
  Bytes size;        ///< as the guest sees it; the file is sparse
};

struct Record {
  std::string name;
  std::string id;               ///< [a-z0-9]{10}; of this session, whatever it is called
  std::int64_t created_ns = 0;  ///< wall time
  std::string profile;          ///< its name
  std::string saved_profile;    ///< profile::save(): everything applied
  std::string isolation;        ///< name of the backend
  std::string isolation_reason;
  std::vector<std::pair<std::string, std::string>> labels;  ///< in order, keys are unique
  /// Ids of frozen layers, the lowest first: those of the image, the base ("base-..."), its own.
  std::vector<std::string> lowers;
  std::string upper;                    ///< id of the layer that is written to
  std::vector<Checkpoint> checkpoints;  ///< the oldest first; tags are unique
  std::string forked_from;              ///< name of the session it was forked from; may be empty
  std::optional<RootImage> image;       ///< nullopt: the host's own programs
  /// In a virtual machine: `upper` is empty then, and `lowers` are the image's alone.
  std::optional<Disk> disk;

  const Checkpoint* find_checkpoint(std::string_view tag) const;
};

std::string to_json(const Record& record);
/// kProtocol for rubbish, kUnsupported with the fix for a newer format.
Result<Record> parse_record(std::string_view text);

/// Where in a stack of layers the base is: below it are those of the image. The number of layers
/// when there is no base.
std::size_t base_index(const std::vector<std::string>& layers);

/// Ids of every layer that the session names.
std::vector<std::string> layers_of(const Record& record);

/// What became of the session's last start.
enum class RunState : std::uint8_t { kNever, kRunning, kStopped };

struct RunFile {
  RunState state = RunState::kNever;
  std::int64_t started_ns = 0;  ///< wall time
  std::int64_t ended_ns = 0;    ///< wall time
  std::string reason;           ///< why it ended: "stopped", "idle", "crashed", an error's text
};
std::string to_json(const RunFile& file);
Result<RunFile> parse_run_file(std::string_view text);

/// Whether `name` is that of a disk's file, whole or half-made.
bool is_disk_file(std::string_view name);

/// Name of a session: a letter or digit, then up to 63 letters, digits, '.', '_' or '-'. kUsage
/// with the rule otherwise.
Status check_name(std::string_view name);
/// The same rule for a checkpoint's tag.
Status check_tag(std::string_view tag);
/// "K=V"; the key as check_name's rule with '/' allowed.
Result<std::pair<std::string, std::string>> parse_label(std::string_view text);

}  // namespace sbx::session
