// Archive reader: see archive_reader.h.
#include "core/archive/archive_reader.h"

#include <sys/stat.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include <archive.h>
#include <archive_entry.h>

#include "core/base/text.h"

namespace sbx::archive {

namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::size_t kMaxXattrs = 1000;  // of a member; the library bounds their bytes to a MiB

struct Magic {
  std::string_view bytes;
  Compression compression;
};

constexpr std::array kMagics{
    Magic{"\x1f\x8b", Compression::kGzip},
    Magic{"BZh", Compression::kBzip2},
    Magic{std::string_view("\xfd\x37zXZ\0", 6), Compression::kXz},
    Magic{"\x28\xb5\x2f\xfd", Compression::kZstd},
    Magic{"\x04\x22\x4d\x18", Compression::kLz4},
};

/// What the two readers share: the handle, and the ways in.
struct Input {
  ::archive* handle = nullptr;
  NextBlock next;
  SkipBytes skip;
  std::optional<Error> error;  // of next or skip

  Input() : handle(::archive_read_new()) {}
  ~Input() { ::archive_read_free(handle); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  Error failure() {
    if (error.has_value()) return *error;
    const char* text = ::archive_error_string(handle);
    return Error(Errc::kProtocol,
                 text::escape(text == nullptr ? "the archive cannot be read" : text));
  }
};

la_ssize_t read_callback(::archive* /*handle*/, void* data, const void** block) {
  auto* input = static_cast<Input*>(data);
  auto bytes = input->next();
  if (!bytes.ok()) {
    input->error = std::move(bytes).error();
    ::archive_set_error(input->handle, EIO, "input");
    return -1;
  }
  *block = bytes.value().data();
  return static_cast<la_ssize_t>(bytes.value().size());
}

la_int64_t skip_callback(::archive* /*handle*/, void* data, la_int64_t request) {
  auto* input = static_cast<Input*>(data);
  if (!input->skip || request <= 0) return 0;
  auto done = input->skip(static_cast<std::uint64_t>(request));
  if (!done.ok()) {
    input->error = std::move(done).error();
    ::archive_set_error(input->handle, EIO, "input");
    return ARCHIVE_FATAL;
  }
  return static_cast<la_int64_t>(done.value());
}

/// ARCHIVE_RETRY, above ARCHIVE_WARN, is a header that is damaged.
bool is_error(int status) {
  return status != ARCHIVE_OK && status != ARCHIVE_WARN && status != ARCHIVE_EOF;
}

Status start(Input& input) {
  ::archive* a = input.handle;
  ::archive_read_set_callback_data(a, &input);
  ::archive_read_set_read_callback(a, read_callback);
  ::archive_read_set_skip_callback(a, skip_callback);
  if (::archive_read_open1(a) != ARCHIVE_OK) return input.failure();
  return {};
}

int add_filter(::archive* a, Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return ARCHIVE_OK;
    case Compression::kGzip:
      return ::archive_read_support_filter_gzip(a);
    case Compression::kBzip2:
      return ::archive_read_support_filter_bzip2(a);
    case Compression::kXz:
      return ::archive_read_support_filter_xz(a);
    case Compression::kZstd:
      return ::archive_read_support_filter_zstd(a);
    case Compression::kLz4:
      return ::archive_read_support_filter_lz4(a);
  }
  return ARCHIVE_FATAL;
}

MemberType type_of(::archive_entry* entry) {
  if (::archive_entry_hardlink(entry) != nullptr) return MemberType::kHardLink;
  switch (::archive_entry_filetype(entry)) {
    case AE_IFREG:
      return MemberType::kFile;
    case AE_IFDIR:
      return MemberType::kDirectory;
    case AE_IFLNK:
      return MemberType::kSymlink;
    case AE_IFIFO:
      return MemberType::kFifo;
    case AE_IFCHR:
      return MemberType::kCharDevice;
    case AE_IFBLK:
      return MemberType::kBlockDevice;
    default:
      return MemberType::kOther;
  }
}

std::string_view text_or_empty(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

Status read_xattrs(::archive_entry* entry, Member& member) {
  member.xattrs.clear();
  const int count = ::archive_entry_xattr_reset(entry);
  if (count > static_cast<int>(kMaxXattrs)) {
    return Error(Errc::kLimit,
                 text::cat(text::escape(member.path), ": more than ", kMaxXattrs, " attributes"));
  }
  const char* key = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  while (::archive_entry_xattr_next(entry, &key, &value, &size) == ARCHIVE_OK) {
    if (key == nullptr) continue;
    member.xattrs.emplace_back(key, std::string(static_cast<const char*>(value), size));
  }
  return {};
}

/// An octal number of a tar header, or nothing.
std::optional<std::uint64_t> octal(std::string_view field) {
  std::uint64_t value = 0;
  bool has_digit = false;
  for (const char c : field) {
    if (c == ' ' && !has_digit) continue;
    if (c < '0' || c > '7') break;
    has_digit = true;
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return has_digit ? std::optional(value) : std::nullopt;
}

}  // namespace

Compression compression_of(std::string_view head) {
  for (const Magic& magic : kMagics) {
    if (head.starts_with(magic.bytes)) return magic.compression;
  }
  return Compression::kNone;
}

std::string_view name(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kBzip2:
      return "bzip2";
    case Compression::kXz:
      return "xz";
    case Compression::kZstd:
      return "zstd";
    case Compression::kLz4:
      return "lz4";
  }
  return "none";
}

bool is_tar_header(std::string_view head) {
  constexpr std::size_t kSumAt = 148;
  constexpr std::size_t kSumSize = 8;
  if (head.size() < kTarBlock) return false;
  head = head.substr(0, kTarBlock);
  if (std::ranges::all_of(head, [](char c) { return c == 0; })) return true;
  std::uint64_t sum = 0;
  std::int64_t signed_sum = 0;  // some old writers add signed bytes
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const char c = i >= kSumAt && i < kSumAt + kSumSize ? ' ' : head[i];
    sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  const auto said = octal(head.substr(kSumAt, kSumSize));
  return said.has_value() && (*said == sum || static_cast<std::int64_t>(*said) == signed_sum);
}

// --- Decompressor ---

struct Decompressor::Impl {
  Input input;
  bool is_done = false;
};

Decompressor::Decompressor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decompressor::~Decompressor() = default;
Decompressor::Decompressor(Decompressor&& other) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&& other) noexcept = default;

Result<Decompressor> Decompressor::open(Compression compression, NextBlock input) {
  auto impl = std::make_unique<Impl>();
  ::archive* a = impl->input.handle;
  impl->input.next = std::move(input);
  if (add_filter(a, compression) < ARCHIVE_WARN ||
      ::archive_read_support_format_raw(a) != ARCHIVE_OK ||
      ::archive_read_support_format_empty(a) != ARCHIVE_OK) {
    return Error(Errc::kInternal, text::cat("no reader for ", name(compression)));
  }
  SBX_TRY(start(impl->input));
  ::archive_entry* entry = nullptr;
  const int status = ::archive_read_next_header(a, &entry);
  if (is_error(status) || impl->input.error.has_value()) return impl->input.failure();
  if (status == ARCHIVE_EOF) impl->is_done = true;
  return Decompressor(std::move(impl));
}

Result<std::span<const std::byte>> Decompressor::next() {
  Impl& impl = *impl_;
  while (!impl.is_done) {
    const void* block = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int status = ::archive_read_data_block(impl.input.handle, &block, &size, &offset);
    if (is_error(status)) return impl.input.failure();
    if (status == ARCHIVE_EOF) impl.is_done = true;
    if (size > 0) return std::span(static_cast<const std::byte*>(block), size);
  }
  return std::span<const std::byte>();
}

// --- ArchiveReader ---

struct ArchiveReader::Impl {
  Input input;
};

ArchiveReader::ArchiveReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ArchiveReader::~ArchiveReader() = default;
ArchiveReader::ArchiveReader(ArchiveReader&& other) noexcept = default;
ArchiveReader& ArchiveReader::operator=(ArchiveReader&& other) noexcept = default;

Result<ArchiveReader> ArchiveReader::open(NextBlock input, SkipBytes skip) {
  auto impl = std::make_unique<Impl>();
  ::archive* a = impl->input.handle;
  impl->input.next = std::move(input);
  impl->input.skip = std::move(skip);
  if (::archive_read_support_format_tar(a) != ARCHIVE_OK ||
      ::archive_read_support_format_empty(a) != ARCHIVE_OK) {
    return Error(Errc::kInternal, "no reader for tar files");
  }
  SBX_TRY(start(impl->input));
  return ArchiveReader(std::move(impl));
}

Result<bool> ArchiveReader::next(Member& member) {
  Input& input = impl_->input;
  ::archive_entry* entry = nullptr;
  // ARCHIVE_WARN: mostly a name that is not in the locale's charset, which is always "C". The bytes
  // are there as they are.
  const int status = ::archive_read_next_header(input.handle, &entry);
  // An input that fails before the first header is "empty" to the library.
  if (is_error(status) || input.error.has_value()) return input.failure();
  if (status == ARCHIVE_EOF) return false;
  member.path = text_or_empty(::archive_entry_pathname(entry));
  member.type = type_of(entry);
  member.mode = ::archive_entry_perm(entry) & 07777U;
  member.uid = ::archive_entry_uid(entry);
  member.gid = ::archive_entry_gid(entry);
  member.has_mtime = ::archive_entry_mtime_is_set(entry) != 0;
  member.mtime_s = ::archive_entry_mtime(entry);
  member.mtime_ns = static_cast<std::uint32_t>(
      std::clamp<long>(::archive_entry_mtime_nsec(entry), 0, 999'999'999));
  member.size = static_cast<std::uint64_t>(std::max<la_int64_t>(::archive_entry_size(entry), 0));
  member.link =
      text_or_empty(member.type == MemberType::kHardLink ? ::archive_entry_hardlink(entry)
                                                         : ::archive_entry_symlink(entry));
  member.device_major = static_cast<std::uint32_t>(::archive_entry_rdevmajor(entry));
  member.device_minor = static_cast<std::uint32_t>(::archive_entry_rdevminor(entry));
  member.has_acl = ::archive_entry_acl_types(entry) != 0;
  SBX_TRY(read_xattrs(entry, member));
  return true;
}

Result<MemberData> ArchiveReader::data() {
  Input& input = impl_->input;
  while (true) {
    const void* block = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int status = ::archive_read_data_block(input.handle, &block, &size, &offset);
    if (status == ARCHIVE_EOF) return MemberData{};
    if (is_error(status)) return input.failure();
    if (size == 0) continue;  // a hole
    if (offset < 0) return Error(Errc::kProtocol, "a member's content has a negative offset");
    return MemberData{{static_cast<const std::byte*>(block), size},
                      static_cast<std::uint64_t>(offset)};
  }
}

}  // namespace sbx::archive
