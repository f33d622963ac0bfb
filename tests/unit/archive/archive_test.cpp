// archive_test: what other programs read out of the archives written here, names of any bytes
// included. The test runs in the C locale, as sbx does.
#include "core/archive/archive.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"

#include "tests/support/process.h"

namespace sbx::archive {

namespace {

const std::string kUtf8Name = "gr\xc3\xbc\xc3\x9f e.txt";
const std::string kRawName = "raw\xff\xfe\n.bin";
constexpr std::int64_t kTime = 1'000'000'000'500'000'000;

ReadContent content(const std::string& text) {
  return [&text, at = std::size_t{0}](std::span<std::byte> buffer) mutable -> Result<std::size_t> {
    const std::size_t n = std::min(buffer.size(), text.size() - at);
    std::memcpy(buffer.data(), text.data() + at, n);
    at += n;
    return n;
  };
}

ArchiveEntry file_entry(const std::string& path, std::size_t size) {
  ArchiveEntry entry;
  entry.path = path;
  entry.size = size;
  entry.mtime_ns = kTime;
  return entry;
}

Status add_file(ArchiveWriter& writer, const std::string& path, const std::string& text) {
  return writer.add(file_entry(path, text.size()), content(text));
}

fs::TempDir temp_dir() {
  auto made = fs::TempDir::create("/tmp", "sbx-archive-test-");
  REQUIRE(made.ok());
  return std::move(made).value();
}

/// Everything that every format can hold.
void write_sample(const std::string& path) {
  auto made = ArchiveWriter::create(path);
  REQUIRE(made.ok());
  ArchiveWriter writer = std::move(made).value();
  ArchiveEntry dir = file_entry("d", 0);
  dir.type = EntryType::kDirectory;
  dir.mode = 0755;
  CHECK(writer.add(dir).ok());
  CHECK(add_file(writer, "d/plain.txt", "plain").ok());
  CHECK(add_file(writer, "empty", "").ok());
  CHECK(add_file(writer, kUtf8Name, "utf-8").ok());
  CHECK(add_file(writer, kRawName, "raw").ok());
  CHECK(
      add_file(writer, "long/" + std::string(150, 'x') + "/" + std::string(200, 'y'), "long").ok());
  ArchiveEntry link = file_entry("link", 0);
  link.type = EntryType::kSymlink;
  link.link = kUtf8Name;
  CHECK(writer.add(link).ok());
  REQUIRE(writer.commit().ok());
}

test::Outcome python(const std::string& code, const std::string& path) {
  return test::run({.argv = {"/usr/bin/python3", "-I", "-c", code, path}});
}

const std::string kListTar =
    "import sys, tarfile\n"
    "t = tarfile.open(sys.argv[1], errors='surrogateescape')\n"
    "for m in t:\n"
    "    d = t.extractfile(m).read() if m.isfile() else m.linkname.encode('utf-8')\n"
    "    n = m.name.encode('utf-8', 'surrogateescape')\n"
    "    print(ascii(n)[2:-1][-30:], oct(m.mode), m.uid, m.gid, m.uname, int(m.mtime), d)\n";

const std::string kListZip =
    "import sys, zipfile\n"
    "z = zipfile.ZipFile(sys.argv[1])\n"
    "assert z.testzip() is None\n"
    "for i in z.infolist():\n"
    "    n = i.filename.encode('utf-8' if i.flag_bits & 0x800 else 'cp437')\n"
    "    print(ascii(n)[2:-1][-30:], bool(i.flag_bits & 0x800), oct(i.external_attr >> 16), "
    "z.read(i))\n";

std::string slurp(const std::string& path) {
  auto read = fs::read_file(path, Bytes{std::uint64_t{1} << 30U});
  return read.ok() ? read.value() : std::string("unreadable");
}

}  // namespace

TEST_CASE("archive: the format follows from the end of the name, whatever its case") {
  CHECK(archive_format("a.tar") == ArchiveFormat::kTar);
  CHECK(archive_format("a.tar.gz") == ArchiveFormat::kTarGz);
  CHECK(archive_format("dir/a.TGZ") == ArchiveFormat::kTarGz);
  CHECK(archive_format("a.tar.zst") == ArchiveFormat::kTarZst);
  CHECK(archive_format("a.tar.xz") == ArchiveFormat::kTarXz);
  CHECK(archive_format("a.b.Zip") == ArchiveFormat::kZip);
  for (const char* name : {"a", "a.gz", "tar.gz.d", ".zip", "", "zip", "a.zip/"}) {
    CAPTURE(name);
    CHECK(archive_format(name) == ArchiveFormat::kNone);
  }
}

TEST_CASE("archive: tar files of every compression hold the same, without warnings of GNU tar") {
  const fs::TempDir dir = temp_dir();
  for (const std::string ending : {".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst"}) {
    CAPTURE(ending);
    const std::string path = dir.path() + "/a" + ending;
    write_sample(path);
    const test::Outcome listed = test::run({.argv = {"/bin/tar", "-tf", path}});
    INFO(listed.show());
    if (ending != ".tar.zst") CHECK(listed.code == 0);  // zstd(1) may be missing
    if (ending == ".tar.zst") {
      CHECK(slurp(path).rfind("\x28\xb5\x2f\xfd", 0) == 0);
      continue;
    }
    CHECK(listed.err.empty());
    const test::Outcome o = python(kListTar, path);
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out.find("d 0o755 0 0  1000000000 b''") != std::string::npos);
    CHECK(o.out.find("d/plain.txt 0o644 0 0  1000000000 b'plain'") != std::string::npos);
    CHECK(o.out.find("empty 0o644 0 0  1000000000 b''") != std::string::npos);
    CHECK(o.out.find("gr\\xc3\\xbc\\xc3\\x9f e.txt 0o644 0 0  1000000000 b'utf-8'") !=
          std::string::npos);
    CHECK(o.out.find("raw\\xff\\xfe\\n.bin 0o644 0 0  1000000000 b'raw'") != std::string::npos);
    CHECK(o.out.find("yyy 0o644 0 0  1000000000 b'long'") != std::string::npos);
    CHECK(o.out.find("link 0o644 0 0  1000000000 b'gr\\xc3\\xbc\\xc3\\x9f e.txt'") !=
          std::string::npos);
  }
}

TEST_CASE("archive: zip marks the names that are UTF-8, and only those") {
  const fs::TempDir dir = temp_dir();
  const std::string path = dir.path() + "/a.zip";
  write_sample(path);
  const test::Outcome o = python(kListZip, path);
  INFO(o.show());
  CHECK(o.code == 0);
  CHECK(o.out.find("d/plain.txt False 0o100644 b'plain'") != std::string::npos);
  CHECK(o.out.find("gr\\xc3\\xbc\\xc3\\x9f e.txt True 0o100644 b'utf-8'") != std::string::npos);
  CHECK(o.out.find("raw\\xff\\xfe\\n.bin False 0o100644 b'raw'") != std::string::npos);
  CHECK(o.out.find("link False 0o120") != std::string::npos);
}

TEST_CASE("archive: the same input gives the same bytes") {
  const fs::TempDir dir = temp_dir();
  for (const std::string ending : {".tar", ".tar.gz", ".tar.zst", ".tar.xz", ".zip"}) {
    CAPTURE(ending);
    write_sample(dir.path() + "/a" + ending);
    test::pause(0.01);
    write_sample(dir.path() + "/b" + ending);
    CHECK(slurp(dir.path() + "/a" + ending) == slurp(dir.path() + "/b" + ending));
  }
}

TEST_CASE("archive: hard links are kept by tar and refused by zip") {
  const fs::TempDir dir = temp_dir();
  const std::string path = dir.path() + "/a.tar";
  auto made = ArchiveWriter::create(path);
  REQUIRE(made.ok());
  CHECK(made.value().keeps_hard_links());
  CHECK(add_file(made.value(), "one", "content").ok());
  ArchiveEntry link = file_entry("two", 0);
  link.type = EntryType::kHardLink;
  link.link = "one";
  CHECK(made.value().add(link).ok());
  REQUIRE(made.value().commit().ok());
  const test::Outcome o = test::run(
      {.argv = {"/bin/sh", "-c", "tar xf a.tar && stat -c %h one && cat two"}, .cwd = dir.path()});
  INFO(o.show());
  CHECK(o.out == "2\ncontent");

  auto zip = ArchiveWriter::create(dir.path() + "/a.zip");
  REQUIRE(zip.ok());
  CHECK_FALSE(zip.value().keeps_hard_links());
  CHECK(zip.value().add(link).error().code() == Errc::kUnsupported);
}

TEST_CASE("archive: a sparse file of 4 GiB stays sparse in tar, as does one that is all hole") {
  const fs::TempDir dir = temp_dir();
  auto made = ArchiveWriter::create(dir.path() + "/a.tar", Holes::kYes);
  REQUIRE(made.ok());
  constexpr std::uint64_t kSize = std::uint64_t{4} << 30U;
  constexpr std::uint64_t kAt = std::uint64_t{1} << 30U;
  std::uint64_t at = 0;
  const ReadContent read = [&](std::span<std::byte> buffer) -> Result<std::size_t> {
    const std::size_t n = std::min<std::uint64_t>(buffer.size(), kSize - at);
    std::memset(buffer.data(), at == kAt ? 'x' : 0, n);
    at += n;
    return n;
  };
  ArchiveEntry entry = file_entry("sparse", kSize);
  entry.data = {{.offset = kAt, .length = 4096}};
  CHECK(made.value().add(entry, read).ok());
  ArchiveEntry hole = file_entry("hole", 1'000'000);
  hole.data = {{.offset = 1'000'000, .length = 0}};
  CHECK(made.value()
            .add(hole,
                 [](std::span<std::byte> buffer) -> Result<std::size_t> {
                   std::memset(buffer.data(), 0, buffer.size());
                   return buffer.size();
                 })
            .ok());
  REQUIRE(made.value().commit().ok());
  const test::Outcome o = test::run(
      {.argv = {"/bin/sh",
                "-c",
                "tar xf a.tar 2>/dev/null; stat -c '%n %s' sparse hole; test $(stat -c %b sparse) "
                "-lt 100 && echo small; tail -c +1073741825 sparse | head -c 4"},
       .cwd = dir.path()});
  INFO(o.show());
  CHECK(o.out == "sparse 4294967296\nhole 1000000\nsmall\nxxxx");
}

TEST_CASE("archive: nothing is left when it is not committed, and an old file stays as it was") {
  const fs::TempDir dir = temp_dir();
  const std::string path = dir.path() + "/a.tar.gz";
  REQUIRE(fs::write_atomic(dir.fd(), "a.tar.gz", "old", 0600).ok());
  {
    auto made = ArchiveWriter::create(path);
    REQUIRE(made.ok());
    CHECK(add_file(made.value(), "f", "text").ok());
  }
  CHECK(slurp(path) == "old");
  const test::Outcome o = test::run({.argv = {"/bin/ls", "-A"}, .cwd = dir.path()});
  CHECK(o.out == "a.tar.gz\n");
  {
    auto made = ArchiveWriter::create(path);
    REQUIRE(made.ok());
    REQUIRE(made.value().commit().ok());
  }
  CHECK(slurp(path) != "old");
}

TEST_CASE(
    "archive: content that ends early is an error, as are an unknown ending and a bad place") {
  const fs::TempDir dir = temp_dir();
  auto made = ArchiveWriter::create(dir.path() + "/a.zip");
  REQUIRE(made.ok());
  const std::string text = "short";
  CHECK(made.value().add(file_entry("f", 100), content(text)).error().code() == Errc::kProtocol);
  CHECK(ArchiveWriter::create(dir.path() + "/a.rar").error().code() == Errc::kUsage);
  CHECK(ArchiveWriter::create(dir.path() + "/no/a.zip").error().code() == Errc::kNotFound);
}

TEST_CASE("archive: a full disk is an error that says so and leaves nothing") {
  // A file size limit stands in for the disk: the writer meets EFBIG where it would meet ENOSPC.
  const fs::TempDir dir = temp_dir();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 100'000, .rlim_max = 100'000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    bool is_right = false;
    {
      auto made = ArchiveWriter::create(dir.path() + "/a.tar");
      if (!made.ok()) ::_exit(3);
      const Status added = add_file(made.value(), "f", std::string(1'000'000, 'x'));
      is_right = !added.ok() && added.error().sys_errno() == EFBIG &&
                 added.error().message().find("a.tar") != std::string::npos;
    }
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
  CHECK(test::run({.argv = {"/bin/ls", "-A"}, .cwd = dir.path()}).out.empty());
}

}  // namespace sbx::archive
