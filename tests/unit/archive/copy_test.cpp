// copy_test: what a copy keeps of a tree, where it goes, and what it says of the rest.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "core/archive/part_file.h"
#include "core/archive/transfer.h"
#include "core/base/text.h"

#include "tests/support/process.h"
#include "tests/unit/archive/copy_support.h"

namespace sbx::archive {

using test::Copied;
using test::copy;
using test::Tree;

namespace {

std::uint64_t noted(const TransferReport& report, NoteKind kind) {
  return report.notes[static_cast<std::size_t>(kind)].count;
}

void require_copied(const Copied& copied) {
  INFO(copied.show());
  REQUIRE(copied.packed.ok());
  REQUIRE(copied.unpacked.ok());
}

void set_time(const std::string& path, std::int64_t seconds, long ns) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                             {.tv_sec = seconds, .tv_nsec = ns}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

bool set_attribute(const std::string& path, const char* name, std::string_view value) {
  return ::lsetxattr(path.c_str(), name, value.data(), value.size(), 0) == 0;
}

std::string attribute(const std::string& path, const char* name) {
  std::array<char, 256> value{};
  const ssize_t size = ::lgetxattr(path.c_str(), name, value.data(), value.size());
  return size < 0 ? "none" : std::string(value.data(), static_cast<std::size_t>(size));
}

}  // namespace

TEST_CASE("copy: a tree keeps content, modes, times in ns, links as links and hard links") {
  const Tree tree;
  tree.dir("src");
  tree.dir("src/sub", 0750);
  tree.file("src/sub/a", "first", 0640);
  tree.hard_link("src/b", "src/sub/a");
  tree.link("src/link", "../nowhere");
  tree.file("src/empty", "", 0400);
  set_time(tree.path("src/sub/a"), 1'000'000'000, 123'456'789);
  set_time(tree.path("src/link"), 5, 7);
  set_time(tree.path("src/sub"), -3, 900'000'000);
  require_copied(copy(tree.path("src"), tree.path("dst")));
  CHECK(tree.content("dst/sub/a") == "first");
  CHECK(tree.info("dst/sub/a").st_ino == tree.info("dst/b").st_ino);
  CHECK(tree.info("dst/b").st_nlink == 2);
  CHECK(tree.link_text("dst/link") == "../nowhere");
  CHECK((tree.info("dst/sub/a").st_mode & 07777U) == 0640);
  CHECK((tree.info("dst/sub").st_mode & 07777U) == 0750);
  CHECK((tree.info("dst/empty").st_mode & 07777U) == 0400);
  CHECK(tree.info("dst/sub/a").st_mtim.tv_sec == 1'000'000'000);
  CHECK(tree.info("dst/sub/a").st_mtim.tv_nsec == 123'456'789);
  CHECK(tree.info("dst/link").st_mtim.tv_nsec == 7);
  CHECK(tree.info("dst/sub").st_mtim.tv_sec == tree.info("src/sub").st_mtim.tv_sec);
  CHECK(tree.names("dst") == "b empty link sub");
}

TEST_CASE("copy: the destination decides what the copy is called, as with cp -a") {
  const Tree tree;
  tree.file("f", "1");
  tree.dir("d");
  tree.file("d/x", "2");
  tree.dir("there");
  require_copied(copy(tree.path("f"), tree.path("there")));
  CHECK(tree.content("there/f") == "1");
  require_copied(copy(tree.path("f"), tree.path("g")));
  CHECK(tree.content("g") == "1");
  require_copied(copy(tree.path("d"), tree.path("there")));
  CHECK(tree.content("there/d/x") == "2");
  require_copied(copy(tree.path("d"), tree.path("new")));
  CHECK(tree.content("new/x") == "2");
  require_copied(copy(tree.path("d/."), tree.path("there")));
  CHECK(tree.content("there/x") == "2");
  require_copied(copy(tree.path("d/."), tree.path("fresh")));
  CHECK(tree.content("fresh/x") == "2");
  CHECK(tree.names() == "d f fresh g new there");
}

TEST_CASE("copy: what cannot be at the destination is refused, and what was there stays") {
  const Tree tree;
  tree.file("f", "old");
  tree.dir("d");
  tree.dir("there");
  tree.dir("there/f");
  CHECK(!copy(tree.path("d"), tree.path("f")).unpacked.ok());
  CHECK(tree.content("f") == "old");
  CHECK(!copy(tree.path("f"), tree.path("missing/")).unpacked.ok());
  CHECK(!copy(tree.path("f"), tree.path("no/such/dir")).unpacked.ok());
  CHECK(!copy(tree.path("f"), tree.path("there")).unpacked.ok());
  CHECK(tree.names("there/f").empty());
  CHECK(!copy(tree.path("none"), tree.path("there")).packed.ok());
  CHECK(tree.names() == "d f there");
}

TEST_CASE("copy: a link on the command line is copied itself, with a slash what it leads to") {
  const Tree tree;
  tree.dir("d");
  tree.file("d/x", "1");
  tree.link("l", "d");
  require_copied(copy(tree.path("l"), tree.path("a")));
  CHECK(tree.link_text("a") == "d");
  require_copied(copy(tree.path("l/"), tree.path("b")));
  CHECK(tree.content("b/x") == "1");
}

TEST_CASE("copy: a link at the final name is replaced, not written through") {
  const Tree tree;
  tree.file("f", "new");
  tree.file("secret", "old");
  tree.dir("there");
  tree.link("there/f", tree.path("secret"));
  require_copied(copy(tree.path("f"), tree.path("there")));
  CHECK(tree.content("secret") == "old");
  CHECK(tree.content("there/f") == "new");
}

TEST_CASE("copy: names are any bytes") {
  const Tree tree;
  tree.dir("src");
  const std::string long_name(255, 'n');
  const std::array<std::string, 9> names{"a b",
                                         "(x)",
                                         "$HOME",
                                         "new\nline",
                                         "-dash",
                                         "co:lon,x=y",
                                         "gr\xc3\xbc\xc3\x9f",
                                         "raw\xff\xfe",
                                         long_name};
  for (const std::string& name : names) {
    tree.file("src/" + name, name);
    tree.link("src/l" + name.substr(0, 200), name);
  }
  require_copied(copy(tree.path("src"), tree.path("dst")));
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(tree.content("dst/" + name) == name);
    CHECK(tree.link_text("dst/l" + name.substr(0, 200)) == name);
  }
}

TEST_CASE("copy: a file of 100 GB that is all holes but for two places costs nothing") {
  const Tree tree;
  const std::uint64_t size = 100ULL << 30U;
  {
    const int fd = ::open(tree.path("big").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    REQUIRE(fd >= 0);
    REQUIRE(::ftruncate(fd, static_cast<off_t>(size)) == 0);
    REQUIRE(::pwrite(fd, "one", 3, 10'000'000) == 3);
    REQUIRE(::pwrite(fd, "two", 3, static_cast<off_t>(size) - 5'000'000) == 3);
    REQUIRE(::close(fd) == 0);
  }
  const Copied copied = copy(tree.path("big"), tree.path("copy"));
  require_copied(copied);
  CHECK(copied.stream_bytes < (1U << 20U));
  const struct stat info = tree.info("copy");
  CHECK(static_cast<std::uint64_t>(info.st_size) == size);
  CHECK(info.st_blocks <= tree.info("big").st_blocks);
  const int fd = ::open(tree.path("copy").c_str(), O_RDONLY | O_CLOEXEC);
  std::array<char, 3> text{};
  CHECK(::pread(fd, text.data(), 3, static_cast<off_t>(size) - 5'000'000) == 3);
  CHECK(std::string(text.data(), 3) == "two");
  CHECK(::pread(fd, text.data(), 3, 10'000'000) == 3);
  CHECK(std::string(text.data(), 3) == "one");
  (void)::close(fd);
}

TEST_CASE("copy: user attributes are kept; those of overlays and of the system never") {
  const Tree tree;
  tree.dir("src");
  tree.file("src/f", "x");
  if (!set_attribute(tree.path("src/f"), "user.note", std::string_view("a\0b\n=", 5))) {
    MESSAGE("SKIP: this file system has no user attributes");
    return;
  }
  REQUIRE(set_attribute(tree.path("src"), "user.dir", "d"));
  REQUIRE(set_attribute(tree.path("src"), "user.overlay.opaque", "y"));
  require_copied(copy(tree.path("src"), tree.path("dst")));
  CHECK(attribute(tree.path("dst/f"), "user.note") == std::string("a\0b\n=", 5));
  CHECK(attribute(tree.path("dst"), "user.dir") == "d");
  CHECK(attribute(tree.path("dst"), "user.overlay.opaque") == "none");
}

TEST_CASE("copy: access control lists are kept") {
  const Tree tree;
  tree.file("f", "x", 0640);
  // Version 2, then user::rw-, user:12345:r--, group::r--, mask::r--, other::---.
  const std::string acl(
      "\x02\0\0\0"
      "\x01\0\x06\0\xff\xff\xff\xff"
      "\x02\0\x04\0\x39\x30\0\0"
      "\x04\0\x04\0\xff\xff\xff\xff"
      "\x10\0\x04\0\xff\xff\xff\xff"
      "\x20\0\0\0\xff\xff\xff\xff",
      44);
  if (!set_attribute(tree.path("f"), "system.posix_acl_access", acl)) {
    MESSAGE("SKIP: this file system has no access control lists");
    return;
  }
  require_copied(copy(tree.path("f"), tree.path("g")));
  CHECK(attribute(tree.path("g"), "system.posix_acl_access") == acl);
}

TEST_CASE("copy: setuid bits are dropped and FIFOs left out, and both are said") {
  const Tree tree;
  tree.dir("src");
  tree.file("src/f", "x", 04755);
  tree.fifo("src/pipe");
  const Copied copied = copy(tree.path("src"), tree.path("dst"));
  require_copied(copied);
  CHECK((tree.info("dst/f").st_mode & 07777U) == 0755);
  CHECK(tree.names("dst") == "f");
  CHECK(noted(copied.from, NoteKind::kSetuid) == 1);
  REQUIRE(noted(copied.from, NoteKind::kSpecialFile) == 1);
  const Note& note = copied.from.notes[static_cast<std::size_t>(NoteKind::kSpecialFile)];
  CHECK(note.paths.front() == "src/pipe");
}

TEST_CASE("copy: another tar reads the stream, and we read another tar's") {
  const Tree tree;
  tree.dir("src");
  tree.file("src/f", std::string(100'000, 'x'));
  tree.hard_link("src/h", "src/f");
  tree.file("src/" + std::string(200, 'n'), "long");
  REQUIRE(::truncate(tree.path("src/f").c_str(), 50'000'000) == 0);
  PackRequest source;
  source.path = tree.path("src");
  source.root_name = "src";
  TransferReport report;
  const int stream = ::open(tree.path("s.tar").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(pack(source, stream, report).ok());
  (void)::close(stream);
  tree.dir("out");
  sbx::test::Spec spec;
  spec.argv = {"tar", "-xf", tree.path("s.tar"), "-C", tree.path("out")};
  CHECK(sbx::test::run(spec).code == 0);
  CHECK((tree.content("out/src/f") == tree.content("src/f")));
  CHECK(tree.content("out/src/" + std::string(200, 'n')) == "long");
  for (const std::string format : {"gnu", "pax", "ustar"}) {
    CAPTURE(format);
    tree.dir("in" + format);
    const std::string archive = tree.path(format + ".tar");
    spec.argv = {"tar", "-S", "--format=" + format, "-cf", archive, "-C", tree.path(), "src"};
    if (format == "ustar") spec.argv.erase(spec.argv.begin() + 1);
    CHECK(sbx::test::run(spec).code <= (format == "ustar" ? 2 : 0));
    const int in = ::open(archive.c_str(), O_RDONLY | O_CLOEXEC);
    const Status done = test::unpack_any(in, tree.path("in" + format));
    (void)::close(in);
    INFO((done.ok() ? "" : done.error().message()));
    CHECK(done.ok());
    CHECK((tree.content("in" + format + "/src/f") == tree.content("src/f")));
    CHECK(tree.info("in" + format + "/src/h").st_nlink == 2);
  }
}

TEST_CASE("copy: going on skips what is there and continues an unfinished file") {
  const Tree tree;
  tree.dir("src");
  std::string big(5U << 20U, 'b');
  for (std::size_t i = 0; i < big.size(); i += 4096) {
    big[i] = static_cast<char>(i >> 12U);
  }
  tree.file("src/big", big);
  tree.file("src/same", "same");
  tree.dir("dst");
  require_copied(copy(tree.path("src"), tree.path("dst"), true));
  CHECK((tree.content("dst/src/big") == big));
  const Copied again = copy(tree.path("src"), tree.path("dst"), true);
  require_copied(again);
  CHECK(again.from.skipped == 2);
  // As if it had been cut after 3 MiB.
  const struct stat info = tree.info("src/big");
  const std::string part =
      part_name("big", big.size(), info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec);
  REQUIRE(::unlink(tree.path("dst/src/big").c_str()) == 0);
  tree.file("dst/src/" + part, big.substr(0, 3U << 20U), 0600);
  const Copied rest = copy(tree.path("src"), tree.path("dst"), true);
  require_copied(rest);
  CHECK(rest.from.bytes == 2U << 20U);
  CHECK((tree.content("dst/src/big") == big));
  CHECK(tree.names("dst/src") == "big same");
  // One whose begin is another is not gone on with.
  REQUIRE(::unlink(tree.path("dst/src/big").c_str()) == 0);
  tree.file("dst/src/" + part, std::string(3U << 20U, 'z'), 0600);
  const Copied whole = copy(tree.path("src"), tree.path("dst"), true);
  require_copied(whole);
  CHECK(whole.from.bytes == big.size());
  CHECK((tree.content("dst/src/big") == big));
  CHECK(tree.names("dst/src") == "big same");
}

TEST_CASE("copy: what a killed copy left is removed by the next one into that directory") {
  const Tree tree;
  tree.file("f", "x");
  tree.dir("dst");
  tree.file("dst/" + part_name("other", 1, 2), "half", 0600);
  tree.link("dst/" + part_name("link", 1, 2), "/etc");
  tree.file("dst/.sbx-part-of-mine", "mine");
  require_copied(copy(tree.path("f"), tree.path("dst")));
  CHECK(tree.names("dst") == ".sbx-part-of-mine f");
}

TEST_CASE("copy: a stream that is cut leaves nothing under the final name") {
  const Tree tree;
  tree.file("f", std::string(3U << 20U, 'f'));
  tree.dir("dst");
  PackRequest source;
  source.path = tree.path("f");
  source.root_name = "f";
  TransferReport report;
  const UniqueFd stream = test::memory_file("");
  REQUIRE(pack(source, stream.get(), report).ok());
  const std::string all = test::all_of(stream.get());
  for (const std::size_t size : {all.size() / 2, all.size() - 1024, std::size_t{700}}) {
    const UniqueFd cut = test::memory_file(std::string_view(all).substr(0, size));
    CHECK(!test::unpack_one(cut.get(), tree.path("dst"), "f").ok());
    const bool is_whole = size == all.size() - 1024;
    CHECK(tree.names("dst") == (is_whole ? "f" : ""));
    (void)::unlink(tree.path("dst/f").c_str());
  }
}

TEST_CASE("copy: a report survives its journey, and rubbish is refused") {
  TransferReport report;
  report.entries = 3;
  report.note(NoteKind::kSpecialFile, "a\xff:b");
  report.error = Error(Errc::kLimit, "too much").with_hint("less");
  const Result<TransferReport> read = decode_report(encode(report));
  REQUIRE(read.ok());
  CHECK(read.value().entries == 3);
  CHECK(read.value().notes[0].paths.front() == "a\xff:b");
  REQUIRE(read.value().error.has_value());
  CHECK(read.value().error->hint() == "less");
  CHECK(!decode_report("").ok());
  CHECK(!decode_report(encode(report) + "x").ok());
  CHECK(!decode_report("99999999999999999999:x").ok());
}

}  // namespace sbx::archive
