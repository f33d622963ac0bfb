// Mime: one table of endings and magic numbers.
#include "core/run/mime.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/text.h"

namespace sbx::run {

namespace {

using namespace std::string_view_literals;

/// A row says: files that begin with `magic` (at `offset`), or else those whose name ends in
/// `.extension`, are of `type`. A row with a weak magic needs the extension too, because other
/// formats share the magic.
struct Row {
  std::string_view extension;  // lower case; empty: magic only
  std::string_view type;
  std::string_view magic = {};  // empty: extension only
  std::size_t offset = 0;
};

constexpr std::array kRows{
    // zip and XML containers: told apart by the ending, so they stand before their magic
    Row{"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    Row{"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    Row{"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    Row{"odt", "application/vnd.oasis.opendocument.text"},
    Row{"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    Row{"npz", "application/x-npz"},
    Row{"jar", "application/java-archive"},
    Row{"whl", "application/x-wheel+zip"},
    Row{"epub", "application/epub+zip"},
    Row{"zip", "application/zip", "PK\x03\x04"sv},
    Row{"png", "image/png", "\x89PNG\r\n\x1a\n"sv},
    Row{"jpg", "image/jpeg", "\xff\xd8\xff"sv},
    Row{"jpeg", "image/jpeg"},
    Row{"gif", "image/gif", "GIF8"sv},
    Row{"webp", "image/webp", "WEBP"sv, 8},
    Row{"bmp", "image/bmp"},
    Row{"tif", "image/tiff", "II*\0"sv},
    Row{"tiff", "image/tiff", "MM\0*"sv},
    Row{"ico", "image/vnd.microsoft.icon"},
    Row{"avif", "image/avif", "ftypavif"sv, 4},
    Row{"svg", "image/svg+xml"},
    Row{"pdf", "application/pdf", "%PDF-"sv},
    Row{"ps", "application/postscript", "%!PS"sv},
    Row{"eps", "application/postscript"},
    Row{"gz", "application/gzip", "\x1f\x8b"sv},
    Row{"tgz", "application/gzip"},
    Row{"zst", "application/zstd", "\x28\xb5\x2f\xfd"sv},
    Row{"xz",
        "application/x-xz",
        "\xfd"
        "7zXZ\0"sv},
    Row{"bz2", "application/x-bzip2", "BZh"sv},
    Row{"7z", "application/x-7z-compressed", "7z\xbc\xaf\x27\x1c"sv},
    Row{"tar", "application/x-tar", "ustar"sv, 257},
    Row{"",
        "application/x-executable",
        "\x7f"
        "ELF"sv},
    Row{"wasm", "application/wasm", "\0asm"sv},
    Row{"sqlite", "application/vnd.sqlite3", "SQLite format 3\0"sv},
    Row{"db", "application/vnd.sqlite3", "SQLite format 3\0"sv},
    Row{"parquet", "application/vnd.apache.parquet", "PAR1"sv},
    Row{"feather", "application/vnd.apache.arrow.file", "ARROW1"sv},
    Row{"arrow", "application/vnd.apache.arrow.file"},
    Row{"h5", "application/x-hdf5", "\x89HDF\r\n\x1a\n"sv},
    Row{"hdf5", "application/x-hdf5"},
    Row{"npy", "application/x-npy", "\x93NUMPY"sv},
    Row{"mp3", "audio/mpeg", "ID3"sv},
    Row{"flac", "audio/flac", "fLaC"sv},
    Row{"ogg", "audio/ogg", "OggS"sv},
    Row{"wav", "audio/wav", "WAVE"sv, 8},
    Row{"mp4", "video/mp4", "ftyp"sv, 4},
    Row{"webm", "video/webm", "\x1a\x45\xdf\xa3"sv},
    Row{"mkv", "video/x-matroska"},
    Row{"ttf", "font/ttf"},
    Row{"otf", "font/otf", "OTTO"sv},
    Row{"woff2", "font/woff2", "wOF2"sv},
    Row{"pkl", "application/x-python-pickle"},
    Row{"pickle", "application/x-python-pickle"},
    // text: no magic
    Row{"txt", "text/plain"},
    Row{"log", "text/plain"},
    Row{"csv", "text/csv"},
    Row{"tsv", "text/tab-separated-values"},
    Row{"html", "text/html"},
    Row{"htm", "text/html"},
    Row{"css", "text/css"},
    Row{"md", "text/markdown"},
    Row{"js", "text/javascript"},
    Row{"mjs", "text/javascript"},
    Row{"json", "application/json"},
    Row{"jsonl", "application/jsonl"},
    Row{"ndjson", "application/x-ndjson"},
    Row{"geojson", "application/geo+json"},
    Row{"ipynb", "application/x-ipynb+json"},
    Row{"xml", "application/xml"},
    Row{"yaml", "application/yaml"},
    Row{"yml", "application/yaml"},
    Row{"toml", "application/toml"},
    Row{"sql", "application/sql"},
    Row{"tex", "application/x-tex"},
    Row{"py", "text/x-python"},
    Row{"sh", "application/x-sh"},
    Row{"c", "text/x-c"},
    Row{"ics", "text/calendar"},
    Row{"rtf", "application/rtf", R"({\rtf)"sv},
};

std::string lower_extension(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return {};
  std::string extension(path.substr(dot + 1));
  std::transform(extension.begin(), extension.end(), extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return extension;
}

bool has_magic(const Row& row, std::string_view head) {
  return !row.magic.empty() && head.size() >= row.offset + row.magic.size() &&
         head.substr(row.offset, row.magic.size()) == row.magic;
}

/// UTF-8 without control characters but white space; a character cut at the end does not count.
bool looks_like_text(std::string_view head) {
  constexpr std::size_t kLongestCharacter = 4;
  const bool is_clean = std::none_of(head.begin(), head.end(), [](char c) {
    return (c >= 0 && c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\x1b') ||
           c == '\x7f';
  });
  if (!is_clean) return false;
  const std::size_t valid = text::utf8_valid_prefix(head);
  return valid == head.size() ||
         (head.size() == kMimeHead && head.size() - valid < kLongestCharacter);
}

}  // namespace

std::string_view mime_type(std::string_view path, std::string_view head) {
  head = head.substr(0, kMimeHead);
  const std::string extension = lower_extension(path);
  const auto by_extension = std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) {
    return !extension.empty() && row.extension == extension;
  });
  const auto by_magic = std::find_if(
      kRows.begin(), kRows.end(), [&](const Row& row) { return has_magic(row, head); });
  const bool has_extension = by_extension != kRows.end();
  if (by_magic != kRows.end()) {
    // The bytes decide, but an ending without a magic of its own may say more (docx, of a zip).
    const bool refines = has_extension && by_extension->magic.empty() &&
                         by_extension->type.starts_with("application/");
    return refines ? by_extension->type : by_magic->type;
  }
  const bool is_text = !head.empty() && looks_like_text(head);
  // Text under the name of a format that has a magic is a wrong name (an error page as .png).
  if (has_extension && (by_extension->magic.empty() || !is_text)) return by_extension->type;
  if (head.empty()) return "application/x-empty";
  return is_text ? "text/plain" : "application/octet-stream";
}

}  // namespace sbx::run
