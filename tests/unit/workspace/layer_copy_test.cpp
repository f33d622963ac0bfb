// Tests of the raw copy of a layer.
#include "core/workspace/layer_copy.h"

#include <sys/wait.h>

#include <string>

#include <doctest/doctest.h>

#include "core/workspace/beneath.h"

#include "tests/unit/workspace/place.h"

namespace sbx::workspace {
namespace {

bool same_times(const struct stat& a, const struct stat& b) {
  return a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

void check_same_metadata(const std::string& a, const std::string& b) {
  CAPTURE(a);
  const struct stat x = stat_of(a);
  const struct stat y = stat_of(b);
  CHECK(x.st_mode == y.st_mode);
  CHECK(x.st_uid == y.st_uid);
  CHECK(x.st_gid == y.st_gid);
  CHECK(x.st_rdev == y.st_rdev);
  if (!S_ISDIR(x.st_mode)) CHECK(x.st_size == y.st_size);
  CHECK(same_times(x, y));
}

}  // namespace

TEST_CASE("layer copy: everything that is stored is there again") {
  const Place place;
  const std::string from = place.layer();
  make_dir(place.at(from, "dir"), 0711);
  write_file(place.at(from, "dir/file"), "content", 04751);
  write_file(place.at(from, "bytes \xff\n"), "");
  REQUIRE(::setxattr(place.at(from, "dir/file").c_str(), "user.note", "hello", 5, 0) == 0);
  make_dir(place.at(from, "made-again"));
  make_opaque(place.at(from, "made-again"));
  make_whiteout(place.at(from, "gone"));
  make_link("/etc/passwd", place.at(from, "link"));
  REQUIRE(::mkfifo(place.at(from, "fifo").c_str(), 0600) == 0);
  REQUIRE(::link(place.at(from, "dir/file").c_str(), place.at(from, "second").c_str()) == 0);
  if (::geteuid() == 0) {
    REQUIRE(::lchown(place.at(from, "link").c_str(), 1234, 5678) == 0);
    REQUIRE(::chown(place.at(from, "dir").c_str(), 1234, 5678) == 0);
  }
  make_dir(place.at(from, "closed"), 0);
  reach_own_files();
  const auto report = copy_layer(place.fd(), from);
  if (!report.ok()) FAIL(report.error().to_string());
  const std::string to = report.value().id;
  CHECK(report.value().files == 4);  // file, its second name not, bytes, link, fifo
  for (const char* name : {"",
                           "dir",
                           "dir/file",
                           "bytes \xff\n",
                           "made-again",
                           "gone",
                           "link",
                           "fifo",
                           "second",
                           "closed"}) {
    check_same_metadata(place.at(from, name), place.at(to, name));
  }
  CHECK(read_text(place.at(to, "dir/file")) == "content");
  CHECK(attribute(place.at(to, "dir/file"), "user.note") == "hello");
  CHECK(attribute(place.at(to, "made-again"), "user.overlay.opaque") == "y");
  CHECK(stat_of(place.at(to, "dir/file")).st_ino == stat_of(place.at(to, "second")).st_ino);
  CHECK(stat_of(place.at(to, "dir/file")).st_ino != stat_of(place.at(from, "dir/file")).st_ino);
}

TEST_CASE("layer copy: holes stay holes") {
  const Place place;
  const std::string from = place.layer();
  write_file(place.at(from, "sparse"), "begin");
  constexpr off_t kSize = 10'000'000'000;
  REQUIRE(::truncate(place.at(from, "sparse").c_str(), kSize) == 0);
  const auto report = copy_layer(place.fd(), from);
  if (!report.ok()) FAIL(report.error().to_string());
  const struct stat st = stat_of(place.at(report.value().id, "sparse"));
  CHECK(st.st_size == kSize);
  CHECK(st.st_blocks < 1000);
  CHECK(report.value().bytes < 100'000);
}

TEST_CASE("layer copy: a tree deeper than PATH_MAX is copied, one without end refused") {
  const Place place;
  const std::string from = place.layer();
  const std::string name(200, 'd');
  auto make_deep = [&](int levels) {
    UniqueFd at = fs::open_dir(place.root(from)).value();
    for (int i = 0; i < levels; ++i) {
      REQUIRE(sys::mkdirat(at.get(), name, 0755).ok());
      at = sys::openat(at.get(), name, O_RDONLY | O_DIRECTORY).value();
    }
    REQUIRE(sys::openat(at.get(), "leaf", O_WRONLY | O_CREAT, 0644).ok());
  };
  int levels = 60;  // 12,000 bytes
  bool is_too_deep = false;
  SUBCASE("deeper than PATH_MAX") {}
  SUBCASE("deeper than what is walked") {
    levels = 400;
    is_too_deep = true;
  }
  make_deep(levels);
  const auto report = copy_layer(place.fd(), from);
  CHECK(report.ok() != is_too_deep);
  if (report.ok()) CHECK(report.value().files == 1);
  if (!report.ok()) CHECK(report.error().code() == Errc::kLimit);
}

TEST_CASE("layer copy: it remembers since when the content can have been made") {
  const Place place;
  const std::string from = place.layer();
  CHECK(layer_since(place.fd(), from) == 0);
  const auto first = copy_layer(place.fd(), from);
  REQUIRE(first.ok());
  const std::int64_t since = layer_since(place.fd(), first.value().id);
  CHECK(since > 0);
  const auto second = copy_layer(place.fd(), first.value().id);
  REQUIRE(second.ok());
  CHECK(layer_since(place.fd(), second.value().id) == since);
}

TEST_CASE("layer copy: stopped or killed it leaves nothing that stays") {
  const Place place;
  const std::string from = place.layer();
  write_file(place.at(from, "file"), "content");
  SUBCASE("stopped by its caller") {
    const auto report = copy_layer(place.fd(), from, [](const CopyProgress&) {
      return Status(Error(Errc::kTimeout, "stop"));
    });
    REQUIRE(!report.ok());
    CHECK(report.error().code() == Errc::kTimeout);
  }
  SUBCASE("killed") {
    const pid_t pid = ::fork();
    if (pid == 0) {
      static_cast<void>(copy_layer(place.fd(), from, [](const CopyProgress&) {
        ::kill(::getpid(), SIGKILL);
        return Status();
      }));
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFSIGNALED(status));
    const auto lock = LayersLock::take(place.fd(), LayersLock::Mode::kExclusive);
    REQUIRE(lock.ok());
    const auto swept = sweep(place.fd(), lock.value(), {from}, Millis{0});
    REQUIRE(swept.ok());
    CHECK(swept.value() == 1);
  }
  const auto dir = open_directory(place.fd(), "");
  REQUIRE(dir.ok());
  const auto names = read_names(dir.value().get());
  REQUIRE(names.ok());
  for (const std::string& name : names.value()) {
    CHECK((name == from || name == "lock"));
  }
}

}  // namespace sbx::workspace
