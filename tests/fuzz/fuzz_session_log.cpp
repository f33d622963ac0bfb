// Fuzz session log: files of any content as logs of an exec and as events of a session are read
// without a crash, to an end, and never into more than they hold.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/session/event_log.h"
#include "core/session/exec_log_reader.h"
#include "core/session/log_time.h"

namespace {

using namespace sbx;

void must(bool fact) {
  if (!fact) std::abort();
}

const fs::TempDir& directory() {
  static const fs::TempDir kDir = [] {
    Result<fs::TempDir> dir = fs::TempDir::create("/tmp", "sbx-fuzz-log-");
    must(dir.ok());
    return std::move(dir).value();
  }();
  return kDir;
}

void write_file(const char* name, std::string_view bytes) {
  const UniqueFd file(
      ::openat(directory().fd(), name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  must(file.valid() && sys::write_all(file.get(), bytes).ok());
}

/// The bytes as the records of two files with the right header, cut in the middle.
void read_records(std::string_view bytes) {
  std::string header(session::kLogMagic);
  header += std::string("\1\0\0\0\5\0\0\0", 8);
  header += std::string(24, '\0');
  write_file("5.log.1", header + std::string(bytes.substr(0, bytes.size() / 2)));
  header[16] = 1;
  write_file("5.log", header + std::string(bytes.substr(bytes.size() / 2)));
  auto reader = session::ExecLogReader::open(directory().fd(), 5);
  must(reader.ok());
  std::size_t total = 0;
  while (true) {
    const auto record = reader.value().next();
    if (!record.ok() || !record.value()) break;
    total += record.value()->bytes.size() + 1;
    must(total <= bytes.size() + 2);
  }
}

void read_files(std::string_view bytes) {
  (void)::unlinkat(directory().fd(), "6.log.1", 0);
  write_file("6.log", bytes);
  auto reader = session::ExecLogReader::open(directory().fd(), 6);
  if (!reader.ok()) return;
  for (std::size_t i = 0; i < bytes.size() + 2; ++i) {
    const auto record = reader.value().next();
    if (!record.ok() || !record.value()) return;
  }
  must(false);
}

void read_events(std::string_view bytes) {
  write_file("events.jsonl", bytes);
  auto reader = session::EventLogReader::open(directory().fd());
  must(reader.ok());
  while (true) {
    const auto event = reader.value().next();
    must(event.ok());
    if (!event.value()) break;
    must(event.value()->text.find('\n') == std::string::npos);
    must(session::parse_event(event.value()->text).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_records(bytes);
  read_files(bytes);
  read_events(bytes);
  (void)session::parse_since(bytes, 1'000'000'000'000);
  return 0;
}
