// Archive: libarchive's writers behind a temporary file; the only file that includes libarchive.
#include "core/archive/archive.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <archive.h>
#include <archive_entry.h>

#include "core/archive/zip_names.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10U;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

struct Ending {
  std::string_view text;
  ArchiveFormat format;
};

constexpr std::array kEndings{
    Ending{".tar", ArchiveFormat::kTar},
    Ending{".tar.gz", ArchiveFormat::kTarGz},
    Ending{".tgz", ArchiveFormat::kTarGz},
    Ending{".tar.zst", ArchiveFormat::kTarZst},
    Ending{".tar.xz", ArchiveFormat::kTarXz},
    Ending{".zip", ArchiveFormat::kZip},
};

bool ends_with_ignoring_case(std::string_view text, std::string_view ending) {
  if (text.size() < ending.size()) return false;
  const std::string_view tail = text.substr(text.size() - ending.size());
  return std::equal(tail.begin(), tail.end(), ending.begin(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

Error archive_error(::archive* a, std::string_view what) {
  const char* text = ::archive_error_string(a);
  const int err = ::archive_errno(a);
  // libarchive's own codes are outside of the errno range or -1; its text says it all then.
  if (err == ENOSPC || err == EDQUOT || err == EFBIG || err == EIO) {
    return sys_error(std::string(what), err);
  }
  return Error(Errc::kSystem, text::cat(what, ": ", text == nullptr ? "unknown error" : text));
}

struct EntryDeleter {
  void operator()(::archive_entry* entry) const { ::archive_entry_free(entry); }
};
using EntryPtr = std::unique_ptr<::archive_entry, EntryDeleter>;

struct WriterDeleter {
  void operator()(::archive* a) const { ::archive_write_free(a); }
};
using WriterPtr = std::unique_ptr<::archive, WriterDeleter>;

Status set_format(::archive* a, ArchiveFormat format, Holes holes) {
  int status = ARCHIVE_OK;
  if (format == ArchiveFormat::kZip) {
    status = ::archive_write_set_format_zip(a);
  } else if (holes == Holes::kYes) {
    status = ::archive_write_set_format_pax(a);
  } else {
    status = ::archive_write_set_format_gnutar(a);
  }
  if (status == ARCHIVE_OK && format == ArchiveFormat::kTarGz) {
    status = ::archive_write_add_filter_gzip(a);
    // The time of writing would make each file different.
    if (status == ARCHIVE_OK) {
      status = ::archive_write_set_filter_option(a, "gzip", "timestamp", nullptr);
    }
  } else if (status == ARCHIVE_OK && format == ArchiveFormat::kTarZst) {
    status = ::archive_write_add_filter_zstd(a);
  } else if (status == ARCHIVE_OK && format == ArchiveFormat::kTarXz) {
    status = ::archive_write_add_filter_xz(a);
  }
  if (status != ARCHIVE_OK) return archive_error(a, "set up the archive writer");
  return {};
}

EntryPtr make_entry(const ArchiveEntry& entry, Holes holes) {
  EntryPtr e(::archive_entry_new());
  ::archive_entry_set_pathname(e.get(), entry.path.c_str());
  ::archive_entry_set_perm(e.get(), entry.mode & 07777U);
  ::archive_entry_set_uid(e.get(), 0);
  ::archive_entry_set_gid(e.get(), 0);
  std::int64_t seconds = entry.mtime_ns / kNsPerSecond;
  std::int64_t rest = entry.mtime_ns % kNsPerSecond;
  if (rest < 0) {
    rest += kNsPerSecond;
    seconds -= 1;
  }
  ::archive_entry_set_mtime(e.get(), seconds, rest);
  if (holes == Holes::kYes) {
    for (const auto& [name, value] : entry.xattrs) {
      ::archive_entry_xattr_add_entry(e.get(), name.c_str(), value.data(), value.size());
    }
  }
  switch (entry.type) {
    case EntryType::kFile:
      ::archive_entry_set_filetype(e.get(), AE_IFREG);
      ::archive_entry_set_size(e.get(), static_cast<la_int64_t>(entry.size));
      if (holes == Holes::kYes) {
        for (const Extent& extent : entry.data) {
          ::archive_entry_sparse_add_entry(e.get(),
                                           static_cast<la_int64_t>(extent.offset),
                                           static_cast<la_int64_t>(extent.length));
        }
      }
      break;
    case EntryType::kDirectory:
      ::archive_entry_set_filetype(e.get(), AE_IFDIR);
      break;
    case EntryType::kSymlink:
      ::archive_entry_set_filetype(e.get(), AE_IFLNK);
      ::archive_entry_set_symlink(e.get(), entry.link.c_str());
      break;
    case EntryType::kHardLink:
      ::archive_entry_set_filetype(e.get(), AE_IFREG);
      ::archive_entry_set_size(e.get(), 0);
      ::archive_entry_set_hardlink(e.get(), entry.link.c_str());
      break;
  }
  return e;
}

}  // namespace

ArchiveFormat archive_format(std::string_view name) {
  for (const Ending& ending : kEndings) {
    if (name.size() > ending.text.size() && ends_with_ignoring_case(name, ending.text)) {
      return ending.format;
    }
  }
  return ArchiveFormat::kNone;
}

struct ArchiveWriter::Impl {
  std::string target;
  std::string name;       // of the target in `dir`
  std::string temp_name;  // empty: nothing to remove
  UniqueFd dir;
  UniqueFd file;
  WriterPtr writer;
  ArchiveFormat format = ArchiveFormat::kNone;
  Holes holes = Holes::kNo;
  std::vector<std::byte> buffer;

  ~Impl() {
    writer.reset();
    if (!temp_name.empty()) static_cast<void>(sys::unlinkat(dir.get(), temp_name));
  }

  Status copy_content(const ArchiveEntry& entry, const ReadContent& read);
};

ArchiveWriter::ArchiveWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ArchiveWriter::~ArchiveWriter() = default;
ArchiveWriter::ArchiveWriter(ArchiveWriter&& other) noexcept = default;
ArchiveWriter& ArchiveWriter::operator=(ArchiveWriter&& other) noexcept = default;

Result<ArchiveWriter> ArchiveWriter::create(const std::string& target, Holes holes) {
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  impl->holes = holes;
  impl->format = archive_format(target);
  if (impl->format == ArchiveFormat::kNone) {
    return Error(Errc::kUsage, text::cat("unknown kind of archive: ", target))
        .with_hint("use .tar, .tar.gz, .tgz, .tar.zst, .tar.xz or .zip");
  }
  const std::size_t slash = target.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  impl->name = slash == std::string::npos ? target : target.substr(slash + 1);
  SBX_ASSIGN(impl->dir, fs::open_dir(parent));
  const std::string temp = text::cat(".sbx-", fs::random_name(12));
  SBX_ASSIGN(impl->file, sys::openat(impl->dir.get(), temp, O_RDWR | O_CREAT | O_EXCL, 0666));
  impl->temp_name = temp;
  impl->writer.reset(::archive_write_new());
  ::archive* a = impl->writer.get();
  SBX_TRY(set_format(a, impl->format, holes));
  ::archive_write_set_bytes_in_last_block(a, 1);
  if (::archive_write_open_fd(a, impl->file.get()) != ARCHIVE_OK) {
    return archive_error(a, text::cat("write ", target));
  }
  return ArchiveWriter(std::move(impl));
}

Result<ArchiveWriter> ArchiveWriter::create_on(int fd, ArchiveFormat format, Holes holes) {
  if (format == ArchiveFormat::kNone || format == ArchiveFormat::kZip) {
    return Error(Errc::kUsage, "this kind of archive cannot be written to a stream");
  }
  auto impl = std::make_unique<Impl>();
  impl->target = "archive";
  impl->holes = holes;
  impl->format = format;
  impl->writer.reset(::archive_write_new());
  ::archive* a = impl->writer.get();
  SBX_TRY(set_format(a, format, holes));
  ::archive_write_set_bytes_in_last_block(a, 1);
  if (::archive_write_open_fd(a, fd) != ARCHIVE_OK) return archive_error(a, "write archive");
  return ArchiveWriter(std::move(impl));
}

bool ArchiveWriter::keeps_hard_links() const {
  return impl_->format != ArchiveFormat::kZip;
}

Status ArchiveWriter::Impl::copy_content(const ArchiveEntry& entry, const ReadContent& read) {
  if (buffer.empty()) buffer.resize(kChunk);
  std::uint64_t left = entry.size;
  while (left > 0) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer.size()));
    SBX_ASSIGN(const std::size_t n, read(std::span(buffer).first(want)));
    if (n == 0) {
      return Error(Errc::kProtocol, text::cat("content of ", entry.path, " ended early"));
    }
    // Short counts: a zero-copy writer never has any, and a hole's bytes count as written.
    const la_ssize_t written = ::archive_write_data(writer.get(), buffer.data(), n);
    if (written < 0) return archive_error(writer.get(), text::cat("write ", target));
    left -= n;
  }
  return {};
}

Status ArchiveWriter::add(const ArchiveEntry& entry, const ReadContent& read) {
  if (entry.type == EntryType::kHardLink && !keeps_hard_links()) {
    return Error(Errc::kUnsupported, "zip files have no hard links");
  }
  const EntryPtr e = make_entry(entry, impl_->holes);
  // ARCHIVE_WARN: a name that is not in the locale's charset, which is always "C". The bytes are
  // written as they are.
  if (::archive_write_header(impl_->writer.get(), e.get()) < ARCHIVE_WARN) {
    return archive_error(impl_->writer.get(), text::cat("write ", impl_->target));
  }
  if (entry.type != EntryType::kFile) return {};
  return impl_->copy_content(entry, read);
}

Status ArchiveWriter::commit() {
  Impl& impl = *impl_;
  if (::archive_write_close(impl.writer.get()) != ARCHIVE_OK) {
    return archive_error(impl.writer.get(), text::cat("write ", impl.target));
  }
  if (!impl.file.valid()) return {};
  if (impl.format == ArchiveFormat::kZip) SBX_TRY(mark_utf8_names(impl.file.get()));
  SBX_TRY(sys::fsync(impl.file.get()));
  SBX_TRY(sys::renameat(impl.dir.get(), impl.temp_name, impl.dir.get(), impl.name));
  impl.temp_name.clear();
  return sys::fsync(impl.dir.get());
}

}  // namespace sbx::archive
