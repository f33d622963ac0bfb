// Artifacts: finds what the program left in /work, and brings it out.
//
// Works on a directory descriptor after every process inside is dead; the tree is hostile data:
// links, devices and sockets are listed and never followed, names are any bytes, sizes and counts
// are bounded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/run/record.h"

namespace sbx::run {

enum class ArtifactType : std::uint8_t {
  kFile,
  kDirectory,  ///< kept only to make the tree again; not listed in reports
  kSymlink,
  kFifo,
  kSocket,
  kDevice,
};
std::string_view name(ArtifactType type);

struct Artifact {
  std::string path;  ///< relative to /work, any bytes but NUL
  ArtifactType type = ArtifactType::kFile;
  std::uint64_t bytes = 0;  ///< logical size
  std::string sha256;       ///< hex; empty unless it is a file that was read
  std::string mime;
  std::uint32_t mode = 0;  ///< permission bits as inside
  std::int64_t mtime_ns = 0;
  std::string link;      ///< kSymlink: its text. kFile: path of an earlier hard link to it
  std::string saved_as;  ///< name below the output when it differs from `path`
  std::string skipped;   ///< why it was not read or copied; empty when it was
};

/// Bounds on what is collected. What exceeds them is listed as skipped, or not at all.
struct ArtifactLimits {
  std::uint64_t entries = 1'000'000;
  Bytes path_bytes{std::uint64_t{256} << 20U};
  Bytes file{std::uint64_t{16} << 30U};   ///< logical size of one file
  Bytes total{std::uint64_t{64} << 30U};  ///< logical size of all
};

/// True when the user wants to stop; asked between pieces of work, which then end with an error
/// whose sys_errno() is EINTR.
using StopCheck = std::function<bool()>;

struct ArtifactRequest {
  int work_dir = -1;                    ///< not owned
  std::span<const std::string> inputs;  ///< paths relative to it that are no artifacts
  ArtifactLimits limits = {};
  StopCheck should_stop = {};
};

struct ArtifactList {
  std::vector<Artifact> items;        ///< sorted by path as bytes
  std::vector<std::string> warnings;  ///< about what was left out
  bool is_complete = true;
  bool has_holes = false;  ///< a file is sparse to a notable degree
};

/// Lists what is there, without content: sha256 and mime stay empty.
Result<ArtifactList> find_artifacts(const ArtifactRequest& request);

/// Reads every listed file to fill in sha256 and mime. For reports without an output directory.
Status hash_artifacts(const ArtifactRequest& request, ArtifactList& list);

/// Globs (fnmatch with FNM_PATHNAME, `**` not special) that no listed file matches.
std::vector<std::string> missing_required(const ArtifactList& list,
                                          std::span<const std::string> globs);

/// How artifacts appear at their place.
struct Publishing {
  std::string state_dir;  ///< where scratch directories are noted; empty: nowhere
  /// The place belongs to a date: an existing directory that is wholly sbx's own is replaced as a
  /// whole, too.
  bool is_dated = false;
  /// Told just before something appears; a failure stops that. May be empty.
  std::function<Status(const OutPlace&)> announce;
};

/// Where artifacts go: `-o DIR` or `-o FILE.tar.gz`. Checked before the job is started.
class ArtifactSink {
 public:
  /// kUsage or kDenied when nothing could be written there later. Changes nothing.
  static Result<ArtifactSink> open(const std::string& target);
  void set_publishing(Publishing how) { how_ = std::move(how); }
  /// Copies everything listed and fills in sha256 and mime; a new directory or an archive appears
  /// whole by rename; an existing directory gets file after file once all are copied, manifest.json
  /// last. What cannot be read is marked as skipped; what cannot be written is an error. The umask
  /// counts, but never for the owner.
  Status write(const ArtifactRequest& request, ArtifactList& list) const;
  const std::string& target() const { return target_; }

 private:
  enum class Kind : std::uint8_t { kNewDirectory, kDirectory, kArchive };
  ArtifactSink(Kind kind, std::string target) : kind_(kind), target_(std::move(target)) {}
  Status write_whole_directory(const ArtifactRequest& request,
                               ArtifactList& list,
                               unsigned how) const;
  Status write_into_directory(const ArtifactRequest& request, ArtifactList& list) const;
  Status announce(OutPlace place) const;
  Status write_archive(const ArtifactRequest& request, ArtifactList& list) const;

  Kind kind_;
  std::string target_;
  Publishing how_;
};

/// The text of manifest.json for what was written.
std::string manifest_json(const ArtifactList& list);

}  // namespace sbx::run
