// Tar writer: see tar_writer.h.
#include "core/archive/tar_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "core/archive/tar_format.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

using tar::kBlock;

constexpr std::size_t kBuffer = std::size_t{256} << 10U;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kMaxOctalSeconds = 077777777777;
constexpr std::uint64_t kMaxOctalSize = 077777777777;
constexpr std::uint32_t kMaxOctalId = 07777777;

char type_flag(TarType type) {
  switch (type) {
    case TarType::kFile:
      return '0';
    case TarType::kHardLink:
      return '1';
    case TarType::kSymlink:
      return '2';
    case TarType::kDirectory:
      return '5';
    case TarType::kSpecial:
      return '6';
  }
  return '0';
}

/// The map of GNU tar's sparse form 1.0, padded to whole blocks.
std::string sparse_map(const TarEntry& entry) {
  std::vector<Extent> data = entry.data;
  // A last empty extent says where the file ends, as GNU tar's own writer does.
  if (data.empty() || data.back().offset + data.back().length < entry.size) {
    data.push_back({entry.size, 0});
  }
  std::string map = text::cat(data.size(), '\n');
  for (const Extent& extent : data) {
    map += text::cat(extent.offset, '\n', extent.length, '\n');
  }
  map.append(tar::padding(map.size()), '\0');
  return map;
}

std::string name_in_stream(const TarEntry& entry) {
  if (entry.type == TarType::kDirectory && !entry.path.ends_with('/')) return entry.path + "/";
  return entry.path;
}

/// What a reader without sparse support would call it.
std::string sparse_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  return text::cat(parent, "GNUSparseFile.0/", path.substr(slash + 1));
}

bool needs_time_record(std::int64_t ns) {
  return ns < 0 || ns % kNsPerSecond != 0 || ns / kNsPerSecond > kMaxOctalSeconds;
}

/// The pax records of what the header block cannot hold.
std::string pax_body(const TarEntry& entry, const std::string& name, std::uint64_t stored) {
  std::string body;
  if (!text::is_utf8(name) || !text::is_utf8(entry.link)) {
    tar::add_record(body, "hdrcharset", "BINARY");
  }
  if (entry.is_sparse) {
    tar::add_record(body, "GNU.sparse.major", "1");
    tar::add_record(body, "GNU.sparse.minor", "0");
    tar::add_record(body, "GNU.sparse.name", name);
    tar::add_record(body, "GNU.sparse.realsize", std::to_string(entry.size));
    const std::string other = sparse_name(name);
    if (other.size() > sizeof(tar::Header::name)) tar::add_record(body, "path", other);
  } else if (name.size() > sizeof(tar::Header::name)) {
    tar::add_record(body, "path", name);
  }
  if (entry.link.size() > sizeof(tar::Header::link)) tar::add_record(body, "linkpath", entry.link);
  if (stored > kMaxOctalSize) tar::add_record(body, "size", std::to_string(stored));
  if (entry.uid > kMaxOctalId) tar::add_record(body, "uid", std::to_string(entry.uid));
  if (entry.gid > kMaxOctalId) tar::add_record(body, "gid", std::to_string(entry.gid));
  if (needs_time_record(entry.mtime_ns)) {
    tar::add_record(body, "mtime", tar::time_text(entry.mtime_ns));
  }
  for (const TarXattr& xattr : entry.xattrs) {
    tar::add_record(body, text::cat(tar::kXattrPrefix, xattr.name), xattr.value);
  }
  if (entry.resume_at > 0) {
    tar::add_record(body, tar::kResumeKey, std::to_string(entry.resume_at));
  }
  if (!entry.digest.empty()) tar::add_record(body, tar::kDigestKey, entry.digest);
  return body;
}

void set_text(std::span<char> field, std::string_view value) {
  std::memcpy(field.data(), value.data(), std::min(field.size(), value.size()));
}

tar::Header basic_header(char type, std::string_view name) {
  tar::Header header{};
  set_text(header.name, name);
  header.type = type;
  set_text(header.magic, std::string_view("ustar\00000", 8));
  static_cast<void>(tar::set_number(header.mode, 0644));
  static_cast<void>(tar::set_number(header.uid, 0));
  static_cast<void>(tar::set_number(header.gid, 0));
  static_cast<void>(tar::set_number(header.size, 0));
  static_cast<void>(tar::set_number(header.mtime, 0));
  static_cast<void>(tar::set_number(header.major, 0));
  static_cast<void>(tar::set_number(header.minor, 0));
  return header;
}

std::string_view bytes(const tar::Header& header) {
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

}  // namespace

TarWriter::TarWriter(int fd)
    : TarWriter([fd](std::string_view bytes) { return sys::write_all(fd, bytes); }) {}

TarWriter::TarWriter(Sink sink) : sink_(std::move(sink)), buffer_(kBuffer) {}

Status TarWriter::flush() {
  const std::size_t size = std::exchange(used_, 0);
  if (size == 0) return {};
  Status written = sink_(std::string_view(buffer_.data(), size));
  if (!written.ok()) return std::move(written).error().prefixed("write the tar stream");
  return {};
}

Status TarWriter::put(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), buffer_.size() - used_);
    std::memcpy(buffer_.data() + used_, bytes.data(), size);
    used_ += size;
    bytes.remove_prefix(size);
    if (used_ == buffer_.size()) SBX_TRY(flush());
  }
  return {};
}

Status TarWriter::pad(std::uint64_t size) {
  constexpr std::array<char, kBlock> kZeros{};
  return put(std::string_view(kZeros.data(), tar::padding(size)));
}

Status TarWriter::add_pax(char type, const std::string& body) {
  tar::Header header = basic_header(type, type == 'g' ? "pax_global_header" : "PaxHeaders/0");
  static_cast<void>(tar::set_number(header.size, body.size()));
  tar::set_checksum(header);
  SBX_TRY(put(bytes(header)));
  SBX_TRY(put(body));
  return pad(body.size());
}

Status TarWriter::add_total(std::uint64_t total) {
  std::string body;
  tar::add_record(body, tar::kTotalKey, std::to_string(total));
  return add_pax('g', body);
}

Status TarWriter::put_header(const TarEntry& entry, std::string_view name, std::uint64_t stored) {
  tar::Header header = basic_header(type_flag(entry.type), name);
  static_cast<void>(tar::set_number(header.mode, entry.mode & 07777U));
  static_cast<void>(tar::set_number(header.uid, std::min(entry.uid, kMaxOctalId)));
  static_cast<void>(tar::set_number(header.gid, std::min(entry.gid, kMaxOctalId)));
  static_cast<void>(tar::set_number(header.size, std::min(stored, kMaxOctalSize)));
  const std::int64_t seconds = entry.mtime_ns < 0 ? 0 : entry.mtime_ns / kNsPerSecond;
  static_cast<void>(tar::set_number(
      header.mtime, static_cast<std::uint64_t>(std::min(seconds, kMaxOctalSeconds))));
  set_text(header.link, entry.link);
  tar::set_checksum(header);
  return put(bytes(header));
}

Status TarWriter::add(const TarEntry& entry, const ReadContent& read) {
  const std::string name = name_in_stream(entry);
  const std::string map = entry.is_sparse ? sparse_map(entry) : "";
  const std::uint64_t stored = entry.stored_size();
  const std::string body = pax_body(entry, name, stored + map.size());
  if (name.size() > kMaxTarPath || body.size() > kMaxTarHeader) {
    return Error(Errc::kLimit, text::cat("too long for a tar stream: the names of ", entry.path));
  }
  if (!body.empty()) SBX_TRY(add_pax('x', body));
  SBX_TRY(put_header(entry, entry.is_sparse ? sparse_name(name) : name, stored + map.size()));
  SBX_TRY(put(map));
  if (stored == 0) return {};
  SBX_TRY(copy(stored, entry.path, read));
  return pad(stored);
}

Status TarWriter::copy(std::uint64_t size, const std::string& path, const ReadContent& read) {
  while (size > 0) {
    const auto want =
        static_cast<std::size_t>(std::min<std::uint64_t>(size, buffer_.size() - used_));
    const std::span<char> room(buffer_.data() + used_, want);
    SBX_ASSIGN(const std::size_t got, read(std::as_writable_bytes(room)));
    if (got == 0) return Error(Errc::kProtocol, text::cat("content of ", path, " ended early"));
    used_ += got;
    size -= got;
    content_ += got;
    if (used_ == buffer_.size()) SBX_TRY(flush());
  }
  return {};
}

Status TarWriter::finish() {
  constexpr std::array<char, 2 * kBlock> kEnd{};
  SBX_TRY(put(std::string_view(kEnd.data(), kEnd.size())));
  return flush();
}

}  // namespace sbx::archive
