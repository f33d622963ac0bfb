// Archive: writes a .tar (plain, gz, zst, xz) or .zip file that appears whole or not at all.
//
// Names and link texts are bytes: no locale is needed or consulted. What is written depends only on
// what is added (owner 0:0, no user names, no time of writing); the caller adds in sorted order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::archive {

enum class ArchiveFormat : std::uint8_t { kNone, kTar, kTarGz, kTarZst, kTarXz, kZip };

/// By the end of the name: .tar .tar.gz .tgz .tar.zst .tar.xz .zip, any case; else kNone.
ArchiveFormat archive_format(std::string_view name);

enum class EntryType : std::uint8_t { kFile, kDirectory, kSymlink, kHardLink };

/// A stretch of a file that holds data; the rest is a hole.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

struct ArchiveEntry {
  std::string path;  // relative, no ".." in it
  EntryType type = EntryType::kFile;
  std::uint32_t mode = 0644;
  std::int64_t mtime_ns = 0;
  std::uint64_t size = 0;         // kFile
  std::string link;               // kSymlink: its text; kHardLink: the path of an earlier entry
  std::vector<Extent> data = {};  // kFile, with Holes::kYes: sorted; empty means all is data
  // Extended attributes, names and values; with Holes::kYes in tar files, else left out.
  std::vector<std::pair<std::string, std::string>> xattrs = {};
};

/// Gives the next bytes of the content (holes as zeros): 0 is the end.
using ReadContent = std::function<Result<std::size_t>(std::span<std::byte>)>;

/// Whether entries will have holes or attributes. Tar files with them need the pax form, about
/// whose raw names GNU tar prints a harmless warning; without, the GNU form is written, that every
/// tar reads.
enum class Holes : std::uint8_t { kNo, kYes };

class ArchiveWriter {
 public:
  /// Starts a temporary file beside `target`. kUsage for an unknown ending.
  static Result<ArchiveWriter> create(const std::string& target, Holes holes = Holes::kNo);
  /// Writes to `fd` (a pipe, a terminal, ...), which stays the caller's. No zip (kUsage): that is
  /// written back to front. Blocks while the reader does not read.
  static Result<ArchiveWriter> create_on(int fd, ArchiveFormat format, Holes holes = Holes::kNo);
  /// Removes the temporary file unless commit() was done.
  ~ArchiveWriter();
  ArchiveWriter(ArchiveWriter&& other) noexcept;
  ArchiveWriter& operator=(ArchiveWriter&& other) noexcept;
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  /// `read` is called for kFile only and must give exactly `size` bytes (kProtocol otherwise). Zip
  /// knows no hard links (kUnsupported): add the content again.
  Status add(const ArchiveEntry& entry, const ReadContent& read = {});
  bool keeps_hard_links() const;
  /// Finishes; with a target, flushes to disk and renames to it, replacing what was there.
  Status commit();

 private:
  struct Impl;
  explicit ArchiveWriter(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace sbx::archive
