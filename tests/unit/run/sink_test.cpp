// sink_test: artifacts as a new directory, into an existing one, and as archives.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "tests/support/process.h"
#include "tests/unit/run/tree.h"
#include <nlohmann/json.hpp>

namespace sbx::run {

namespace {

ArtifactList bring_out(const Tree& work, const std::string& target) {
  ArtifactRequest request;
  request.work_dir = work.fd();
  auto sink = ArtifactSink::open(target);
  REQUIRE(sink.ok());
  auto list = find_artifacts(request);
  REQUIRE(list.ok());
  const Status written = sink.value().write(request, list.value());
  if (!written.ok()) FAIL(written.error().to_string());
  return std::move(list).value();
}

std::string refusal(const std::string& target) {
  auto sink = ArtifactSink::open(target);
  return sink.ok() ? "accepted" : sink.error().to_string();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string names_in(const std::string& dir) {
  return test::run({.argv = {"/bin/ls", "-A", dir}}).out;
}

void fill(const Tree& work) {
  work.write("a.txt", "abc", 0640);
  work.mkdir("sub");
  work.mkdir("sub/empty");
  work.write("sub/run.sh", "#!/bin/sh\n", 04755);
  work.write("bad\xff", "raw");
  REQUIRE(sys::symlinkat("/etc/shadow", work.fd(), "link").ok());
  REQUIRE(::mkfifo(work.at("pipe").c_str(), 0600) == 0);
  const timespec times[2] = {{1'000'000'000, 5}, {1'000'000'000, 5}};
  REQUIRE(::utimensat(work.fd(), "a.txt", times, 0) == 0);
}

}  // namespace

TEST_CASE("sink: a new directory holds files, modes, times and the manifest, and no links") {
  const Tree work;
  const Tree out;
  fill(work);
  const ArtifactList list = bring_out(work, out.at("new/deeper"));
  CHECK(out.read("new/deeper/a.txt") == "abc");
  CHECK(out.read("new/deeper/bad\xff") == "raw");
  CHECK((out.stat("new/deeper/a.txt").st_mode & 07777U) == 0640);
  CHECK(out.stat("new/deeper/a.txt").st_mtim.tv_sec == 1'000'000'000);
  CHECK((out.stat("new/deeper/sub/run.sh").st_mode & 07777U) == 0755);  // no set-user-id
  CHECK(S_ISDIR(out.stat("new/deeper/sub/empty").st_mode));
  CHECK((out.stat("new/deeper").st_mode & 0777U) == 0755);
  CHECK_FALSE(out.exists("new/deeper/link"));
  CHECK_FALSE(out.exists("new/deeper/pipe"));
  CHECK(names_in(out.at("new")) == "deeper\n");

  const auto manifest = nlohmann::json::parse(out.read("new/deeper/manifest.json"));
  CHECK(manifest["format"] == 1);
  CHECK(manifest["complete"] == true);
  REQUIRE(manifest["artifacts"].size() == 5);
  const auto& first = manifest["artifacts"][0];
  CHECK(first["path"] == "a.txt");
  CHECK(first["bytes"] == 3);
  CHECK(first["mode"] == "0640");
  CHECK(first["mime"] == "text/plain");
  CHECK(first["sha256"] == find_item(list, "a.txt").sha256);
  CHECK(manifest["artifacts"][1]["path"] == "bad\\xff");
  CHECK(manifest["artifacts"][1]["path_base64"] == "YmFk/w==");
  CHECK(manifest["artifacts"][2]["type"] == "symlink");
  CHECK(manifest["artifacts"][2]["target"] == "/etc/shadow");
  CHECK(manifest["artifacts"][3]["type"] == "fifo");
}

TEST_CASE("sink: an existing directory keeps what it has; files are replaced as a whole") {
  const Tree work;
  const Tree out;
  work.write("f", "new");
  out.write("f", "old");
  out.write("other", "kept");
  const UniqueFd reader(::open(out.at("f").c_str(), O_RDONLY | O_CLOEXEC));
  bring_out(work, out.path());
  CHECK(out.read("f") == "new");
  CHECK(out.read("other") == "kept");
  std::string old(3, ' ');
  CHECK(::read(reader.get(), old.data(), 3) == 3);
  CHECK(old == "old");
  CHECK(names_in(out.path()) == "f\nmanifest.json\nother\n");
}

TEST_CASE("sink: links in the output are replaced or refused, never followed") {
  const Tree work;
  const Tree out;
  const Tree victim;
  victim.write("target", "untouched");
  victim.mkdir("dir");
  work.write("f", "new");
  REQUIRE(sys::symlinkat(victim.at("target"), out.fd(), "f").ok());
  bring_out(work, out.path());
  CHECK(victim.read("target") == "untouched");
  CHECK(S_ISREG(out.stat("f").st_mode));

  work.mkdir("sub");
  work.write("sub/g", "x");
  REQUIRE(sys::symlinkat(victim.at("dir"), out.fd(), "sub").ok());
  ArtifactRequest request;
  request.work_dir = work.fd();
  auto sink = ArtifactSink::open(out.path());
  auto list = find_artifacts(request);
  REQUIRE((sink.ok() && list.ok()));
  const Status written = sink.value().write(request, list.value());
  REQUIRE_FALSE(written.ok());
  CHECK(has(written.error().hint(), "sub"));
  CHECK(names_in(victim.at("dir")).empty());
}

TEST_CASE("sink: hard links stay links and holes stay holes") {
  const Tree work;
  const Tree out;
  work.write("one", "shared");
  work.mkdir("sub");
  REQUIRE(::linkat(work.fd(), "one", work.fd(), "sub/two", 0) == 0);
  work.write("sparse", "");
  const UniqueFd fd(::open(work.at("sparse").c_str(), O_WRONLY | O_CLOEXEC));
#ifdef __SANITIZE_ADDRESS__
  constexpr off_t kSize = off_t{256} << 20U;  // the digest of 10 GiB of zeros takes minutes there
#else
  constexpr off_t kSize = off_t{10} << 30U;
#endif
  REQUIRE(::ftruncate(fd.get(), kSize) == 0);
  REQUIRE(::pwrite(fd.get(), "middle", 6, kSize / 2) == 6);
  bring_out(work, out.at("new"));
  CHECK(out.stat("new/one").st_ino == out.stat("new/sub/two").st_ino);
  const struct stat sparse = out.stat("new/sparse");
  CHECK(sparse.st_size == kSize);
  CHECK(sparse.st_blocks < 1000);
  const UniqueFd copy(::open(out.at("new/sparse").c_str(), O_RDONLY | O_CLOEXEC));
  std::string middle(6, ' ');
  CHECK(::pread(copy.get(), middle.data(), 6, kSize / 2) == 6);
  CHECK(middle == "middle");
}

TEST_CASE("sink: a program's own manifest.json is kept under another name") {
  const Tree work;
  const Tree out;
  work.write("manifest.json", "mine");
  work.write("manifest.json.artifact", "taken");
  const ArtifactList list = bring_out(work, out.at("new"));
  CHECK(out.read("new/manifest.json.artifact_") == "mine");
  CHECK(out.read("new/manifest.json.artifact") == "taken");
  const auto manifest = nlohmann::json::parse(out.read("new/manifest.json"));
  CHECK(manifest["artifacts"][0]["saved_as"] == "manifest.json.artifact_");
  CHECK(list.warnings.size() == 1);
}

TEST_CASE("sink: a directory called manifest.json is kept under another name, with all in it") {
  const Tree work;
  const Tree out;
  work.mkdir("manifest.json");
  work.mkdir("manifest.json/sub");
  work.write("manifest.json/sub/f", "deep");
  work.write("manifest.json.artifact", "taken");
  work.write("z", "other");
  REQUIRE(::linkat(work.fd(), "manifest.json/sub/f", work.fd(), "twin", 0) == 0);
  for (const std::string place : {"new", "unpacked"}) {
    CAPTURE(place);
    if (place == "new") {
      CHECK(bring_out(work, out.at("new")).warnings.size() == 1);
    } else {
      bring_out(work, out.at("all.tar"));
      REQUIRE(::mkdir(out.at("unpacked").c_str(), 0755) == 0);
      const test::Outcome o =
          test::run({.argv = {"/bin/tar", "-xf", out.at("all.tar"), "-C", out.at("unpacked")}});
      INFO(o.show());
      CHECK(o.code == 0);
    }
    CHECK(out.read(place + "/manifest.json.artifact_/sub/f") == "deep");
    CHECK(out.read(place + "/manifest.json.artifact") == "taken");
    CHECK(out.read(place + "/twin") == "deep");
    CHECK(out.read(place + "/z") == "other");
    const auto manifest = nlohmann::json::parse(out.read(place + "/manifest.json"));
    const auto& all = manifest["artifacts"];
    const bool names_it = std::any_of(all.begin(), all.end(), [](const nlohmann::json& item) {
      return item["path"] == "manifest.json/sub/f" &&
             item["saved_as"] == "manifest.json.artifact_/sub/f";
    });
    CHECK(names_it);
  }
}

TEST_CASE("sink: archives hold the same files and the manifest") {
  const Tree work;
  const Tree out;
  fill(work);
  work.write("twin", "shared");
  REQUIRE(::linkat(work.fd(), "twin", work.fd(), "twin2", 0) == 0);
  for (const std::string ending : {".tar", ".tar.gz", ".zip"}) {
    CAPTURE(ending);
    const std::string file = out.at("deep/out" + ending);
    bring_out(work, file);
    const test::Outcome o =
        test::run({.argv = {"/usr/bin/python3",
                            "-I",
                            "-c",
                            "import sys, shutil, json, os, hashlib\n"
                            "shutil.unpack_archive(sys.argv[1], sys.argv[2])\n"
                            "m = json.load(open(sys.argv[2] + '/manifest.json'))\n"
                            "for a in m['artifacts']:\n"
                            "    if 'sha256' not in a or 'path_base64' in a: continue\n"
                            "    d = open(os.path.join(sys.argv[2], a['path']), 'rb').read()\n"
                            "    assert hashlib.sha256(d).hexdigest() == a['sha256'], a\n"
                            "    print(a['path'])\n",
                            file,
                            out.at("unpacked" + ending)}});
    INFO(o.show());
    CHECK(o.out == "a.txt\nsub/run.sh\ntwin\ntwin2\n");
    CHECK_FALSE(out.exists("unpacked" + ending + "/link"));
  }
  CHECK(names_in(out.at("deep")) == "out.tar\nout.tar.gz\nout.zip\n");
}

TEST_CASE("sink: a place that cannot work is refused before anything runs") {
  const Tree out;
  out.write("file", "x");
  out.write("old.zip", "x");
  CHECK(has(refusal(""), "empty"));
  CHECK(has(refusal(out.at("file")), "not a directory"));
  CHECK(has(refusal(out.at("file/sub")), "is not a directory"));
  CHECK(has(refusal(out.at("file/sub.zip")), "is not a directory"));
  CHECK(refusal(out.at("old.zip")) == "accepted");
  CHECK(refusal(out.at("a/b/c")) == "accepted");
  CHECK(refusal(out.at("a/b/c.tar.xz")) == "accepted");
  CHECK_FALSE(out.exists("a"));

  const std::string long_name(256, 'n');
  CHECK(has(refusal(out.at(long_name)), "File name too long"));
  CHECK(has(refusal(out.at("a/b/" + long_name)), "File name too long"));
  CHECK(has(refusal(out.at(long_name + ".tar")), "File name too long"));
  REQUIRE(::symlink("nowhere", out.at("dangling").c_str()) == 0);
  CHECK(has(refusal(out.at("dangling")), "leads to nothing"));
  CHECK(has(refusal(out.at("dangling/new")), "leads to nothing"));
  CHECK(has(refusal(out.at("dangling/new/a.zip")), "leads to nothing"));
  REQUIRE(::symlink("loop", out.at("loop").c_str()) == 0);
  CHECK(has(refusal(out.at("loop")), "Too many levels of symbolic links"));
}

TEST_CASE("sink: a new directory that fails half way leaves nothing behind") {
  const Tree work;
  const Tree out;
  work.write("f", "content");
  ArtifactRequest request;
  request.work_dir = work.fd();
  auto sink = ArtifactSink::open(out.at("new"));
  auto list = find_artifacts(request);
  REQUIRE((sink.ok() && list.ok()));
  int asked = 0;
  request.should_stop = [&] { return ++asked > 1; };
  CHECK_FALSE(sink.value().write(request, list.value()).ok());
  CHECK(names_in(out.path()).empty());
}

}  // namespace sbx::run
