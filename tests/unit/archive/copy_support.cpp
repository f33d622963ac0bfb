// copy_support: see copy_support.h.
#include "tests/unit/archive/copy_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/archive/tar_writer.h"
#include "core/archive/tree_path.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive::test {

namespace {

fs::TempDir make_dir() {
  auto made = fs::TempDir::create("/tmp", "sbx-copy-test-");
  REQUIRE(made.ok());
  return std::move(made).value();
}

void rewind(int fd) {
  REQUIRE(::lseek(fd, 0, SEEK_SET) == 0);
}

UniqueFd memory() {
  UniqueFd fd(::memfd_create("stream", MFD_CLOEXEC));
  REQUIRE(fd.valid());
  return fd;
}

std::string_view message(const Status& status) {
  return status.ok() ? std::string_view("ok") : std::string_view(status.error().message());
}

}  // namespace

Tree::Tree() : dir_(make_dir()) {}

std::string Tree::path(std::string_view name) const {
  return name.empty() ? dir_.path() : text::cat(dir_.path(), '/', name);
}

void Tree::dir(std::string_view name, mode_t mode) const {
  REQUIRE(::mkdir(path(name).c_str(), 0700) == 0);
  REQUIRE(::chmod(path(name).c_str(), mode) == 0);
}

void Tree::file(std::string_view name, std::string_view content, mode_t mode) const {
  const Result<UniqueFd> fd = sys::open(path(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  REQUIRE(fd.ok());
  REQUIRE(sys::write_all(fd.value().get(), content).ok());
  REQUIRE(::chmod(path(name).c_str(), mode) == 0);
}

void Tree::link(std::string_view name, const std::string& target) const {
  REQUIRE(::symlink(target.c_str(), path(name).c_str()) == 0);
}

void Tree::hard_link(std::string_view name, std::string_view target) const {
  REQUIRE(::link(path(target).c_str(), path(name).c_str()) == 0);
}

void Tree::fifo(std::string_view name) const {
  REQUIRE(::mkfifo(path(name).c_str(), 0600) == 0);
}

std::string Tree::content(std::string_view name) const {
  struct stat found {};
  if (::lstat(path(name).c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return "";
  Result<std::string> all = fs::read_file(path(name), Bytes{std::uint64_t{1} << 30U});
  REQUIRE(all.ok());
  return std::move(all).value();
}

std::string Tree::link_text(std::string_view name) const {
  const Result<std::string> text = sys::readlinkat(AT_FDCWD, path(name));
  return text.ok() ? text.value() : "";
}

struct stat Tree::info(std::string_view name) const {
  struct stat found {};
  CAPTURE(std::string(name));
  REQUIRE(::lstat(path(name).c_str(), &found) == 0);
  return found;
}

bool Tree::exists(std::string_view name) const {
  struct stat found {};
  return ::lstat(path(name).c_str(), &found) == 0;
}

void Tree::remove(const std::string& name) const {
  REQUIRE(fs::remove_tree(dir_.fd(), name).ok());
}

std::string Tree::names(std::string_view dir_name) const {
  std::vector<std::string> names;
  DIR* stream = ::opendir(path(dir_name).c_str());
  REQUIRE(stream != nullptr);
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  (void)::closedir(stream);
  std::sort(names.begin(), names.end());
  return text::join(names, " ");
}

std::string Copied::show() const {
  return text::cat("packed: ", message(packed), ", unpacked: ", message(unpacked));
}

Copied copy(const std::string& from, const std::string& to, bool is_resuming) {
  UnpackRequest target;
  target.path = to;
  target.root_name = name_of_copy(from);
  target.is_keeping_parts = is_resuming;
  std::optional<Inventory> present;
  if (is_resuming) {
    const UniqueFd list = memory();
    REQUIRE(write_inventory(target, list.get()).ok());
    rewind(list.get());
    Result<Inventory> read = Inventory::read(list.get());
    REQUIRE(read.ok());
    present = std::move(read).value();
  }
  PackRequest source;
  source.path = from;
  source.root_name = target.root_name;
  source.is_following = split_path(from).has_slash;
  source.present = present.has_value() ? &*present : nullptr;
  Copied copied;
  const UniqueFd stream = memory();
  copied.packed = pack(source, stream.get(), copied.from);
  copied.stream_bytes = static_cast<std::uint64_t>(::lseek(stream.get(), 0, SEEK_CUR));
  rewind(stream.get());
  copied.unpacked = unpack(target, stream.get(), copied.to);
  return copied;
}

UniqueFd memory_file(std::string_view content) {
  UniqueFd fd = memory();
  REQUIRE(sys::write_all(fd.get(), content).ok());
  rewind(fd.get());
  return fd;
}

std::string all_of(int fd) {
  rewind(fd);
  Result<std::string> all = sys::read_all(fd, Bytes{std::uint64_t{1} << 30U});
  REQUIRE(all.ok());
  return std::move(all).value();
}

HostileStream::HostileStream() : fd_(memory()) {}

HostileStream& HostileStream::add(const TarEntry& entry, const std::string& content) {
  // Each writer begins where the former one ended, without an end mark between them.
  const off_t begin = ::lseek(fd_.get(), 0, SEEK_CUR);
  TarWriter writer(fd_.get());
  std::size_t at = 0;
  REQUIRE(writer
              .add(entry,
                   [&](std::span<std::byte> buffer) -> Result<std::size_t> {
                     const std::size_t size = std::min(buffer.size(), content.size() - at);
                     std::memcpy(buffer.data(), content.data() + at, size);
                     at += size;
                     return size;
                   })
              .ok());
  REQUIRE(writer.finish().ok());
  const off_t mark = ::lseek(fd_.get(), -1024, SEEK_CUR);
  REQUIRE(mark > begin);
  REQUIRE(::ftruncate(fd_.get(), mark) == 0);
  return *this;
}

HostileStream& HostileStream::dir(const std::string& path) {
  TarEntry entry;
  entry.path = path;
  entry.type = TarType::kDirectory;
  entry.mode = 0755;
  return add(entry);
}

HostileStream& HostileStream::file(const std::string& path, const std::string& content) {
  TarEntry entry;
  entry.path = path;
  entry.size = content.size();
  return add(entry, content);
}

HostileStream& HostileStream::symlink(const std::string& path, const std::string& target) {
  TarEntry entry;
  entry.path = path;
  entry.type = TarType::kSymlink;
  entry.link = target;
  return add(entry);
}

HostileStream& HostileStream::hard_link(const std::string& path, const std::string& target) {
  TarEntry entry;
  entry.path = path;
  entry.type = TarType::kHardLink;
  entry.link = target;
  return add(entry);
}

int HostileStream::end() {
  REQUIRE(TarWriter(fd_.get()).finish().ok());
  rewind(fd_.get());
  return fd_.get();
}

Status unpack_one(int stream, const std::string& to, const std::string& root_name) {
  UnpackRequest request;
  request.path = to;
  request.root_name = root_name;
  TransferReport report;
  return unpack(request, stream, report);
}

Status unpack_any(int stream, const std::string& to) {
  UnpackRequest request;
  request.path = to;
  request.members = Members::kAny;
  TransferReport report;
  return unpack(request, stream, report);
}

}  // namespace sbx::archive::test
