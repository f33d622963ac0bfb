// files test: copies into and out of a living sandbox, by the file worker inside.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/archive/pack.h"
#include "core/archive/transfer.h"
#include "core/archive/unpack.h"
#include "core/base/sys.h"

#include "tests/unit/supervise/box.h"

namespace sbx::supervise {

namespace {

UniqueFd memory() {
  return UniqueFd(::memfd_create("stream", MFD_CLOEXEC));
}

/// How a worker ended.
struct Worked {
  int status = -1;
  std::optional<Error> refused;  ///< it never ran
  archive::TransferReport report;

  bool is_ok() const { return status == 0 && !report.error.has_value(); }
  std::string error() const {
    if (refused.has_value()) return refused->message();
    return report.error.has_value() ? report.error->message() : "";
  }
};

/// Runs a worker to its end with `stream`.
Worked work(Box& box, ipc::Files request, int stream) {
  Worked worked;
  Result<sys::Pipe> report = sys::pipe();
  if (!report.ok()) return worked;
  const std::array<int, 2> fds{stream, report.value().w.get()};
  bool is_done = false;
  FilesHandler handler;
  handler.on_exit = [&](int status) {
    worked.status = status;
    is_done = true;
  };
  handler.on_failed = [&](Error error) {
    worked.refused = std::move(error);
    is_done = true;
  };
  if (!box.sup->files(std::move(request), fds, std::move(handler)).ok()) return worked;
  report.value().w.reset();
  box.wait([&] { return is_done; });
  const Result<std::string> text =
      sys::read_all(report.value().r.get(), Bytes{archive::kMaxReport});
  if (!text.ok()) return worked;
  Result<archive::TransferReport> decoded = archive::decode_report(text.value());
  if (decoded.ok()) worked.report = std::move(decoded).value();
  return worked;
}

ipc::Files pack_of(const std::string& path, const std::string& root_name) {
  ipc::Files request;
  request.op = ipc::FilesOp::kPack;
  request.path = path;
  request.root_name = root_name;
  return request;
}

ipc::Files unpack_to(const std::string& path, const std::string& root_name) {
  ipc::Files request = pack_of(path, root_name);
  request.op = ipc::FilesOp::kUnpack;
  return request;
}

/// A stream with one file.
UniqueFd stream_of(const std::string& dir, const std::string& name) {
  UniqueFd stream = memory();
  archive::PackRequest request;
  request.path = text::cat(dir, "/", name);
  request.root_name = name;
  archive::TransferReport report;
  if (!archive::pack(request, stream.get(), report).ok()) return {};
  (void)::lseek(stream.get(), 0, SEEK_SET);
  return stream;
}

Status unpack_stream(int stream, const std::string& to, const std::string& root_name) {
  (void)::lseek(stream, 0, SEEK_SET);
  archive::UnpackRequest request;
  request.path = to;
  request.root_name = root_name;
  archive::TransferReport report;
  return archive::unpack(request, stream, report);
}

/// A host directory with "f" in it.
struct HostDir {
  test::WorkDir dir{test::self()};
  HostDir() {
    const Result<UniqueFd> fd = sys::open(dir.path() + "/f", O_WRONLY | O_CREAT, 0640);
    if (fd.ok()) (void)sys::write_all(fd.value().get(), "from the host\n");
  }
  std::string text(const std::string& name) const {
    const auto read = fs::read_file(dir.path() + "/" + name, Bytes{65536});
    return read.ok() ? std::string(text::trim(read.value())) : "";
  }
};

}  // namespace

TEST_CASE("files: a copy goes in as the job's user and comes out again") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    const HostDir host;
    const UniqueFd in = stream_of(host.dir.path(), "f");
    const Worked copied = work(box, unpack_to("/work", "f"), in.get());
    BOX_CHECK(copied.error().empty());
    BOX_CHECK(copied.is_ok());
    const auto seen = box.run("test -O f && test $(stat -c %a f) = 640 && mkdir d && ln f d/g");
    BOX_CHECK(seen.has_value() && seen->status == 0);
    const UniqueFd out = memory();
    BOX_CHECK(work(box, pack_of(".", ""), out.get()).is_ok());
    BOX_OK(unpack_stream(out.get(), host.dir.path() + "/back", ""));
    BOX_CHECK(host.text("back/d/g") == "from the host");
    struct stat info {};
    BOX_CHECK(::stat((host.dir.path() + "/back/f").c_str(), &info) == 0);
    BOX_CHECK(info.st_nlink == 2 && info.st_uid == ::geteuid());
    return {};
  });
}

TEST_CASE("files: a copy works while the payload is frozen, and leaves it frozen") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    box.start_counter("n");
    BOX_CHECK(box.wait_for_file("n"));
    BOX_OK(box.set_frozen(true));
    const HostDir host;
    const UniqueFd in = stream_of(host.dir.path(), "f");
    BOX_CHECK(work(box, unpack_to("/work/new", "f"), in.get()).is_ok());
    const UniqueFd out = memory();
    BOX_CHECK(work(box, pack_of("/work/new", "new"), out.get()).is_ok());
    BOX_OK(unpack_stream(out.get(), host.dir.path(), "new"));
    BOX_CHECK(host.text("new") == "from the host");
    BOX_CHECK(box.sup->is_frozen());
    BOX_CHECK(box.is_standing("n"));
    BOX_OK(box.set_frozen(false));
    BOX_CHECK(box.is_moving("n"));
    return {};
  });
}

TEST_CASE("files: paths are the sandbox's own; magic links lead nowhere") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    const auto made = box.run("ln -s / root; ln -s /proc/1/root magic; mkdir d; ln -s ../.. d/up");
    BOX_CHECK(made.has_value() && made->status == 0);
    for (const std::string path :
         {"/proc/1/root/etc/.", "magic/etc/.", "/proc/self/fd/3/.", "none"}) {
      const UniqueFd out = memory();
      const Worked refused = work(box, pack_of(path, path.ends_with('.') ? "" : "x"), out.get());
      BOX_CHECK(!refused.is_ok());
    }
    const HostDir host;
    const UniqueFd in = stream_of(host.dir.path(), "f");
    BOX_CHECK(!work(box, unpack_to("/usr", "f"), in.get()).is_ok());
    const UniqueFd again = stream_of(host.dir.path(), "f");
    BOX_CHECK(work(box, unpack_to("root/work/d/up/work", "f"), again.get()).is_ok());
    BOX_CHECK(box.file("f") == "from the host");
    return {};
  });
}

TEST_CASE("files: what the job shut for itself comes out, FIFOs are named and left") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    const auto made =
        box.run("mkdir d; echo x > d/shut; chmod 0 d/shut; mkfifo d/pipe; mkdir -m 0 d/closed");
    BOX_CHECK(made.has_value() && made->status == 0);
    const UniqueFd out = memory();
    const Worked packed = work(box, pack_of("d", "d"), out.get());
    BOX_CHECK(packed.error().empty());
    BOX_CHECK(
        packed.report.notes[static_cast<std::size_t>(archive::NoteKind::kSpecialFile)].count == 1);
    const HostDir host;
    BOX_OK(unpack_stream(out.get(), host.dir.path(), "d"));
    struct stat info {};
    BOX_CHECK(::stat((host.dir.path() + "/d/shut").c_str(), &info) == 0);
    BOX_CHECK(info.st_size == 2 && (info.st_mode & 07777U) == 0);
    BOX_CHECK(::access((host.dir.path() + "/d/pipe").c_str(), F_OK) != 0);
    const auto same = box.run("test $(stat -c %a d/shut) = 0 && test $(stat -c %a d/closed) = 0");
    BOX_CHECK(same.has_value() && same->status == 0);
    return {};
  });
}

TEST_CASE("files: a stream that ends early leaves no file, and its report says so") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    const HostDir host;
    const UniqueFd in = stream_of(host.dir.path(), "f");
    BOX_CHECK(::ftruncate(in.get(), 1536 + 5) == 0);
    const Worked cut = work(box, unpack_to("/work", "f"), in.get());
    BOX_CHECK(WIFEXITED(cut.status) && WEXITSTATUS(cut.status) == 1);
    BOX_CHECK(cut.error().find("ended early") != std::string::npos);
    const auto empty = box.run("test -z \"$(ls -A)\"");
    BOX_CHECK(empty.has_value() && empty->status == 0);
    return {};
  });
}

TEST_CASE("files: workers are counted, and end when their stream is closed") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    Result<sys::Pipe> stream = sys::pipe();
    const UniqueFd report = memory();
    BOX_CHECK(stream.ok());
    int ended = 0;
    std::vector<std::string> refused;
    for (int i = 0; i < 17; ++i) {
      const std::array<int, 2> fds{stream.value().r.get(), report.get()};
      FilesHandler handler;
      handler.on_exit = [&](int) { ++ended; };
      handler.on_failed = [&](Error error) { refused.push_back(error.message()); };
      BOX_CHECK(box.sup->files(unpack_to("/work", "f"), fds, std::move(handler)).ok());
    }
    BOX_CHECK(box.wait([&] { return !refused.empty(); }));
    BOX_CHECK(refused.front().find("too many copies") != std::string::npos);
    BOX_CHECK(ended == 0);
    stream.value().w.reset();
    BOX_CHECK(box.wait([&] { return ended == 16; }));
    BOX_CHECK(refused.size() == 1);
    return {};
  });
}

TEST_CASE("files: the worker has no capability, no new privileges and a filter of its own") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    Result<sys::Pipe> stream = sys::pipe();
    const UniqueFd report = memory();
    BOX_CHECK(stream.ok());
    const std::array<int, 2> fds{stream.value().r.get(), report.get()};
    FilesHandler handler;
    bool is_done = false;
    handler.on_exit = [&](int) { is_done = true; };
    handler.on_failed = [](const Error&) {};
    BOX_CHECK(box.sup->files(unpack_to("/work", "f"), fds, std::move(handler)).ok());
    // The only other process inside than PID 1 and the shell itself.
    const auto looked = box.run(
        "for i in $(seq 200); do for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n = 1 ] || "
        "[ $n = $$ ] || { grep -q 'Seccomp:.2' $p/status 2>/dev/null && cat $p/status > status && "
        "(readlink $p/fd/0; ls $p/fd) > fds 2>/dev/null; grep -q CapEff status && exit 0; }; done; "
        "done; exit 1");
    BOX_CHECK(looked.has_value() && looked->status == 0);
    const std::string status = box.file("status");
    for (const std::string line : {"CapEff:\t0000000000000000",
                                   "CapPrm:\t0000000000000000",
                                   "CapBnd:\t0000000000000000",
                                   "NoNewPrivs:\t1"}) {
      BOX_CHECK(status.find(line) != std::string::npos);
    }
    BOX_CHECK(box.file("fds").empty());  // not dumpable: its descriptors are nobody's
    stream.value().w.reset();
    BOX_CHECK(box.wait([&] { return is_done; }));
    return {};
  });
}

}  // namespace sbx::supervise
