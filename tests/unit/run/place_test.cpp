// place test: what -o made is known again, replaced and removed whole, and nothing else is touched.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "core/confine/process_identity.h"
#include "core/run/out_place.h"
#include "core/run/scratch.h"

#include "tests/support/process.h"
#include "tests/unit/run/tree.h"

namespace sbx::run {

namespace {

std::string names_in(const std::string& dir) {
  return test::run({.argv = {"/bin/ls", "-A", dir}}).out;
}

/// Brings `work` out to `target` as a run with a date pattern does; what it announced.
OutPlace bring_out(const Tree& work, const std::string& target, const std::string& state) {
  ArtifactRequest request;
  request.work_dir = work.fd();
  auto sink = ArtifactSink::open(target);
  REQUIRE(sink.ok());
  OutPlace place;
  sink.value().set_publishing(
      {.state_dir = state, .is_dated = true, .announce = [&](const OutPlace& told) -> Status {
         place = told;
         return {};
       }});
  auto list = find_artifacts(request);
  REQUIRE(list.ok());
  const Status written = sink.value().write(request, list.value());
  if (!written.ok()) FAIL(written.error().to_string());
  return place;
}

}  // namespace

TEST_CASE("place: a directory that a run made is removed whole, and its note with it") {
  const Tree work;
  const Tree out;
  const Tree state;
  work.write("f", "1");
  work.mkdir("sub");
  work.write("sub/bad\xff", "2");
  const OutPlace place = bring_out(work, out.at("day"), state.path());
  CHECK(place.kind == OutPlace::Kind::kDirectory);
  CHECK(place.path == out.at("day"));
  CHECK(place.inode == out.stat("day").st_ino);
  CHECK(remove_place(place, state.path()).end == Removal::End::kRemoved);
  CHECK(names_in(out.path()).empty());
  CHECK_FALSE(state.exists("scratch"));
  CHECK(remove_place(place, state.path()).end == Removal::End::kGone);
}

TEST_CASE("place: a directory that holds anything else, or is another one, stays") {
  const Tree work;
  const Tree out;
  work.write("f", "1");
  OutPlace place = bring_out(work, out.at("day"), {});

  out.write("day/notes.txt", "mine");
  Removal removal = remove_place(place, {});
  CHECK(removal.end == Removal::End::kLeft);
  CHECK(removal.why.find("notes.txt") != std::string::npos);
  REQUIRE(::unlink(out.at("day/notes.txt").c_str()) == 0);

  REQUIRE(::symlink("f", out.at("day/link").c_str()) == 0);
  CHECK(remove_place(place, {}).end == Removal::End::kLeft);
  REQUIRE(::unlink(out.at("day/link").c_str()) == 0);

  REQUIRE(::rename(out.at("day").c_str(), out.at("moved").c_str()) == 0);
  REQUIRE(::symlink("moved", out.at("day").c_str()) == 0);
  CHECK(remove_place(place, {}).end == Removal::End::kLeft);
  REQUIRE(::unlink(out.at("day").c_str()) == 0);
  out.mkdir("day");  // the user's own, of the same name
  CHECK(remove_place(place, {}).end == Removal::End::kLeft);
  CHECK(out.exists("day"));

  place.path = out.at("moved");
  place.digest = std::string(64, '0');
  CHECK(remove_place(place, {}).end == Removal::End::kLeft);
  place.kind = OutPlace::Kind::kShared;
  CHECK(remove_place(place, {}).end == Removal::End::kLeft);
  CHECK(out.read("moved/f") == "1");
}

TEST_CASE("place: what the user took away from it does not keep the rest") {
  const Tree work;
  const Tree out;
  work.write("f", "1");
  work.write("g", "1");
  const OutPlace place = bring_out(work, out.at("day"), {});
  REQUIRE(::unlink(out.at("day/f").c_str()) == 0);
  CHECK(remove_place(place, {}).end == Removal::End::kRemoved);
}

TEST_CASE("place: an archive is removed while it is the same file") {
  const Tree work;
  const Tree out;
  work.write("f", "1");
  const OutPlace place = bring_out(work, out.at("day.tar"), {});
  CHECK(place.kind == OutPlace::Kind::kArchive);
  CHECK(names_in(out.path()) == "day.tar\n");
  const OutPlace again = bring_out(work, out.at("day.tar"), {});
  CHECK(remove_place(place, {}).end == Removal::End::kLeft);
  CHECK(remove_place(again, {}).end == Removal::End::kRemoved);
}

TEST_CASE("place: a dated directory is replaced as a whole when all in it is sbx's own") {
  const Tree work;
  const Tree out;
  work.write("old", "1");
  const OutPlace first = bring_out(work, out.at("day"), {});
  REQUIRE(::unlink(work.at("old").c_str()) == 0);
  work.write("new", "2");
  const OutPlace second = bring_out(work, out.at("day"), {});
  CHECK(second.kind == OutPlace::Kind::kDirectory);
  CHECK(second.inode != first.inode);
  CHECK(names_in(out.at("day")) == "manifest.json\nnew\n");
  CHECK(names_in(out.path()) == "day\n");
}

TEST_CASE("place: a dated directory with a user's file in it gets file after file and stays his") {
  const Tree work;
  const Tree out;
  out.mkdir("day");
  out.write("day/mine", "1");
  work.mkdir("sub");
  work.write("sub/new", "2");
  const OutPlace place = bring_out(work, out.at("day"), {});
  CHECK(place.kind == OutPlace::Kind::kShared);
  CHECK(out.read("day/mine") == "1");
  CHECK(out.read("day/sub/new") == "2");
  CHECK(names_in(out.at("day")) == "manifest.json\nmine\nsub\n");
}

TEST_CASE("place: one that was announced and never appeared is not there, whatever has its name") {
  const Tree work;
  const Tree out;
  work.write("f", "1");
  const OutPlace first = bring_out(work, out.at("day"), {});
  CHECK(is_there(first));
  const OutPlace second = bring_out(work, out.at("day"), {});  // replaces it
  CHECK(is_there(second));
  CHECK_FALSE(is_there(first));
  OutPlace never = second;
  never.path = out.at("other");
  CHECK_FALSE(is_there(never));
}

TEST_CASE("place: an announcement that fails keeps the place as it was") {
  const Tree work;
  const Tree out;
  work.write("f", "1");
  for (const std::string name : {"new", "new.tar"}) {
    ArtifactRequest request;
    request.work_dir = work.fd();
    auto sink = ArtifactSink::open(out.at(name));
    REQUIRE(sink.ok());
    sink.value().set_publishing(
        {.state_dir = {}, .is_dated = false, .announce = [](const OutPlace&) -> Status {
           return sys_error("write the record", ENOSPC);
         }});
    auto list = find_artifacts(request);
    REQUIRE(list.ok());
    CHECK(sink.value().write(request, list.value()).error().sys_errno() == ENOSPC);
  }
  CHECK(names_in(out.path()).empty());
}

TEST_CASE("scratch: what a killed run left is found by its note and removed, what lives stays") {
  const Tree state;
  const Tree out;
  std::string left;
  {
    auto living = Scratch::create(out.path(), state.path());
    REQUIRE(living.ok());
    CHECK(reclaim_scratch(state.path(), Reclaim::kRemove).empty());
    CHECK(out.exists(living.value().name()));
    // The same, as if its process had been killed: another start time in the note.
    left = living.value().name();
    const std::string note = "scratch/" + left.substr(1) + ".json";
    std::string text = state.read(note);
    const std::size_t at = text.find("\"start\":") + 8;
    text.insert(at, "9");
    state.write("scratch/copy.json", text);
    out.write(left + "/half", "x");
    CHECK(reclaim_scratch(state.path(), Reclaim::kDryRun).size() == 1);
    CHECK(out.exists(left));
    CHECK(reclaim_scratch(state.path(), Reclaim::kRemove).size() == 1);
    CHECK_FALSE(out.exists(left));
    CHECK_FALSE(state.exists("scratch/copy.json"));
  }
  CHECK_FALSE(state.exists("scratch"));
}

TEST_CASE("scratch: a note that leads anywhere else removes nothing") {
  const Tree state;
  const Tree out;
  out.mkdir("mine");
  state.mkdir("scratch");
  const auto self = confine::identity_of(::getpid());
  REQUIRE(self.ok());
  for (const std::string name : {"mine", ".", "..", ".sbx-out-../../../xx", ".sbx-out-"}) {
    state.write("scratch/note.json",
                R"({"format":1,"parent":")" + out.path() + R"(","name":")" + name +
                    R"(","process":{"pid":1,"start":1,"pid_namespace":1,"boot":"old"}})");
    CHECK(reclaim_scratch(state.path(), Reclaim::kRemove).empty());
  }
  CHECK(out.exists("mine"));
}

}  // namespace sbx::run
