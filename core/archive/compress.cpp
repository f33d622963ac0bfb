// Compress: libarchive's filters around a "raw" archive, which is its one entry's bytes.
#include "core/archive/compress.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <archive.h>
#include <archive_entry.h>

#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10U;
/// Of gzip: nearly as small as its default, in half the time.
constexpr const char* kGzipLevel = "4";

/// Where the bytes go that come out.
struct Sink {
  int fd = -1;
  Sha256 digest;
  std::uint64_t written = 0;
  Status status;

  Status put(std::string_view bytes) {
    digest.update(bytes);
    written += bytes.size();
    return sys::write_all(fd, bytes);
  }
};

la_ssize_t put(::archive* a, void* data, const void* buffer, size_t size) {
  auto* sink = static_cast<Sink*>(data);
  Status done = sink->put({static_cast<const char*>(buffer), size});
  if (done.ok()) return static_cast<la_ssize_t>(size);
  if (sink->status.ok()) sink->status = std::move(done);
  ::archive_set_error(a, EIO, "write");
  return -1;
}

struct WriterDeleter {
  void operator()(::archive* a) const { ::archive_write_free(a); }
};
using Writer = std::unique_ptr<::archive, WriterDeleter>;

struct EntryDeleter {
  void operator()(::archive_entry* entry) const { ::archive_entry_free(entry); }
};

Error failure(const Writer& writer, Sink& sink) {
  if (!sink.status.ok()) return std::move(sink.status).error();
  const char* text = ::archive_error_string(writer.get());
  return {Errc::kSystem, text::cat("compress: ", text == nullptr ? "unknown error" : text)};
}

int add_filter(::archive* a, Compression how) {
  switch (how) {
    case Compression::kNone:
      return ARCHIVE_OK;
    case Compression::kGzip:
      if (::archive_write_add_filter_gzip(a) != ARCHIVE_OK) return ARCHIVE_FATAL;
      // The time of writing would make each file different.
      if (::archive_write_set_filter_option(a, "gzip", "timestamp", nullptr) != ARCHIVE_OK) {
        return ARCHIVE_FATAL;
      }
      return ::archive_write_set_filter_option(a, "gzip", "compression-level", kGzipLevel);
    case Compression::kZstd:
      return ::archive_write_add_filter_zstd(a);
    case Compression::kXz:
      return ::archive_write_add_filter_xz(a);
  }
  return ARCHIVE_FATAL;
}

Result<Writer> open_writer(Compression how, Sink& sink) {
  Writer writer(::archive_write_new());
  ::archive* const a = writer.get();
  const bool is_set = ::archive_write_set_format_raw(a) == ARCHIVE_OK &&
                      add_filter(a, how) == ARCHIVE_OK &&
                      ::archive_write_set_bytes_per_block(a, 0) == ARCHIVE_OK &&
                      ::archive_write_open(a, &sink, nullptr, put, nullptr) == ARCHIVE_OK;
  if (!is_set) return failure(writer, sink);
  const std::unique_ptr<::archive_entry, EntryDeleter> entry(::archive_entry_new());
  ::archive_entry_set_pathname(entry.get(), "data");
  ::archive_entry_set_filetype(entry.get(), AE_IFREG);
  if (::archive_write_header(a, entry.get()) != ARCHIVE_OK) return failure(writer, sink);
  return writer;
}

}  // namespace

Result<Compressed> compress(int in, int out, Compression how, const OnRead& told) {
  Compressed done;
  Sink sink;
  sink.fd = out;
  Writer writer;
  if (how != Compression::kNone) {
    SBX_ASSIGN(writer, open_writer(how, sink));
  }
  std::vector<char> buffer(kChunk);
  while (true) {
    SBX_ASSIGN(const std::size_t size, sys::read(in, buffer.data(), buffer.size()));
    if (size == 0) break;
    done.read += size;
    if (writer == nullptr) {
      SBX_TRY(sink.put({buffer.data(), size}));
    } else if (::archive_write_data(writer.get(), buffer.data(), size) < 0) {
      return failure(writer, sink);
    }
    if (told) SBX_TRY(told(done.read));
  }
  if (writer != nullptr && ::archive_write_close(writer.get()) != ARCHIVE_OK) {
    return failure(writer, sink);
  }
  done.written = sink.written;
  done.sha256 = sink.digest.hex();
  return done;
}

}  // namespace sbx::archive
