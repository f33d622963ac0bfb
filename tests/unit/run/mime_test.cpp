// mime_test: what decides the media type.
#include "core/run/mime.h"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace sbx::run {

TEST_CASE("mime: by content, ending, and what the bytes look like") {
  struct Row {
    std::string_view path;
    std::string_view head;
    std::string_view type;
  };
  using namespace std::string_view_literals;
  const Row rows[] = {
      {"chart.png", "\x89PNG\r\n\x1a\n....", "image/png"},
      {"no-ending", "\x89PNG\r\n\x1a\n....", "image/png"},
      {"wrong.txt", "\x89PNG\r\n\x1a\n....", "image/png"},
      {"error.png", "<html>not found</html>", "text/plain"},
      {"a.JPEG", "\xff\xd8\xff\xe0", "image/jpeg"},
      {"table.csv", "a,b\n1,2\n", "text/csv"},
      {"dir.csv/plain", "a,b\n1,2\n", "text/plain"},
      {"x.json", "{}", "application/json"},
      {"a.svg", "<svg/>", "image/svg+xml"},
      {"book.xlsx",
       "PK\x03\x04...",
       "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
      {"a.zip", "PK\x03\x04...", "application/zip"},
      {"a.tar.gz", "\x1f\x8b\x08", "application/gzip"},
      {"r.pdf", "%PDF-1.7", "application/pdf"},
      {"a.parquet", "PAR1....", "application/vnd.apache.parquet"},
      {"song.mp3", "\xff\xfb\x90", "audio/mpeg"},
      {"program",
       "\x7f"
       "ELF\x02",
       "application/x-executable"},
      {"notes", "gr\xc3\xbc\xc3\x9f dich\n", "text/plain"},
      {"data", "\x00\x01\x02"sv, "application/octet-stream"},
      {"latin1", "gr\xfc\xdf", "application/octet-stream"},
      {"empty", "", "application/x-empty"},
      {"empty.csv", "", "text/csv"},
      {".csv", "a", "text/plain"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.path);
    CHECK(mime_type(row.path, row.head) == row.type);
  }
}

TEST_CASE("mime: a character that the examined bytes cut in two is still text") {
  std::string text(kMimeHead - 1, 'x');
  text += "\xc3\xbc";
  CHECK(mime_type("notes", std::string_view(text).substr(0, kMimeHead)) == "text/plain");
}

TEST_CASE("mime: a tar file is known by the word in its header") {
  std::string header(kMimeHead, '\0');
  header.replace(257, 5, "ustar");
  CHECK(mime_type("backup", header) == "application/x-tar");
}

}  // namespace sbx::run
