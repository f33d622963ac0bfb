// import_support: see import_support.h.
#include "tests/unit/image/import_support.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <doctest/doctest.h>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/storage_ids.h"
#include "core/workspace/beneath.h"

namespace sbx::image::test {

namespace {

fs::TempDir make_dir() {
  auto made = fs::TempDir::create("/tmp", "sbx-import-");
  REQUIRE(made.ok());
  return std::move(made).value();
}

void make_file(const std::string& path, std::string_view content) {
  const auto file = sys::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  REQUIRE(file.ok());
  REQUIRE(sys::write_all(file.value().get(), content).ok());
}

/// A line for everything below `dirfd`, into a text: to be read by who has another user's rights.
void list_tree(int dirfd, const std::string& at, std::string& out) {
  const auto names = workspace::read_names(dirfd);
  REQUIRE(names.ok());
  std::vector<std::string> sorted = names.value();
  std::ranges::sort(sorted);
  for (const std::string& name : sorted) {
    const std::string path = workspace::join_path(at, name);
    const auto st = sys::fstatat(dirfd, name, AT_SYMLINK_NOFOLLOW);
    REQUIRE(st.ok());
    out += text::cat(path,
                     " ",
                     st.value().st_mode,
                     " ",
                     st.value().st_nlink,
                     " ",
                     st.value().st_uid,
                     " ",
                     st.value().st_size,
                     " ",
                     st.value().st_mtim.tv_sec,
                     ".",
                     st.value().st_mtim.tv_nsec,
                     "\n");
    if (S_ISREG(st.value().st_mode)) {
      const auto content = fs::read_file_at(dirfd, name, Bytes{1U << 20U});
      out += content.ok() ? content.value() : "?";
    }
    if (!S_ISDIR(st.value().st_mode)) continue;
    const auto below = workspace::open_entry(dirfd, name, O_RDONLY | O_DIRECTORY);
    if (below.ok()) list_tree(below.value().get(), path, out);
  }
}

Stored look(int dirfd, const std::string& name) {
  Stored found;
  const auto st = sys::fstatat(dirfd, name, AT_SYMLINK_NOFOLLOW).value();
  found.mode = st.st_mode;
  found.uid = st.st_uid;
  found.gid = st.st_gid;
  found.mtime = st.st_mtim.tv_sec;
  found.size = static_cast<std::uint64_t>(st.st_size);
  found.inode = st.st_ino;
  found.links = st.st_nlink;
  found.device = st.st_rdev;
  if (S_ISLNK(st.st_mode)) found.text = sys::readlinkat(dirfd, name).value();
  if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return found;
  const auto fd = workspace::open_entry(dirfd, name, O_RDONLY);
  if (!fd.ok()) return found;
  if (S_ISREG(st.st_mode) && st.st_size < (1 << 20)) {
    found.text = sys::read_all(fd.value().get(), Bytes{1U << 20U}).value();
  }
  const auto attributes = workspace::all_xattrs(fd.value().get());
  if (attributes.ok()) found.xattrs.insert(attributes.value().begin(), attributes.value().end());
  return found;
}

void look_below(int dirfd, const std::string& at, std::map<std::string, Stored>& out) {
  const auto names = workspace::read_names(dirfd);
  if (!names.ok()) return;
  for (const std::string& name : names.value()) {
    const std::string path = workspace::join_path(at, name);
    out[path] = look(dirfd, name);
    if (!S_ISDIR(out[path].mode)) continue;
    const auto below = workspace::open_entry(dirfd, name, O_RDONLY | O_DIRECTORY);
    if (below.ok()) look_below(below.value().get(), path, out);
  }
}

void put(std::string& out, std::string_view text) {
  out += text::cat(text.size(), ":", text);
}

std::string take(std::string_view& in) {
  const std::size_t colon = in.find(':');
  const auto size = static_cast<std::size_t>(std::stoull(std::string(in.substr(0, colon))));
  const std::string text(in.substr(colon + 1, size));
  in.remove_prefix(colon + 1 + size);
  return text;
}

std::string encode(const std::map<std::string, Stored>& found) {
  std::string out;
  for (const auto& [path, file] : found) {
    put(out, path);
    for (const std::uint64_t number : {std::uint64_t{file.mode},
                                       std::uint64_t{file.uid},
                                       std::uint64_t{file.gid},
                                       static_cast<std::uint64_t>(file.mtime),
                                       file.size,
                                       file.inode,
                                       file.links,
                                       std::uint64_t{file.device},
                                       std::uint64_t{file.xattrs.size()}}) {
      put(out, std::to_string(number));
    }
    put(out, file.text);
    for (const auto& [name, value] : file.xattrs) {
      put(out, name);
      put(out, value);
    }
  }
  return out;
}

std::map<std::string, Stored> decode(std::string_view in) {
  std::map<std::string, Stored> found;
  const auto number = [&in] { return std::stoull(take(in)); };
  while (!in.empty()) {
    Stored& file = found[take(in)];
    file.mode = static_cast<mode_t>(number());
    file.uid = static_cast<uid_t>(number());
    file.gid = static_cast<gid_t>(number());
    file.mtime = static_cast<std::int64_t>(number());
    file.size = number();
    file.inode = number();
    file.links = number();
    file.device = number();
    const auto count = number();
    file.text = take(in);
    for (unsigned long long i = 0; i < count; ++i) {
      const std::string name = take(in);
      file.xattrs[name] = take(in);
    }
  }
  return found;
}

}  // namespace

bool can_import() {
  return confine::storage_ids().ok();
}

ImportRoom::ImportRoom() : dir_(make_dir()) {
  for (const char* name : {"/state", "/source", "/beside"}) {
    REQUIRE(sys::mkdirat(AT_FDCWD, dir_.path() + name, 0755).ok());
  }
  REQUIRE(::chmod(dir_.path().c_str(), 0755) == 0);
  make_file(path("beside/victim"), "untouched");
  make_file(path("state/victim"), "untouched");
  auto store = Store::open(path("state"));
  REQUIRE(store.ok());
  store_.emplace(std::move(store).value());
}

ImportRoom::~ImportRoom() {
  // Files of other ids.
  const auto ids = confine::storage_ids();
  if (!ids.ok()) return;
  const int layers_fd = store_->layers();
  for (const std::string& name : layers()) {
    const auto layer = workspace::open_entry(layers_fd, name, O_RDONLY | O_DIRECTORY);
    if (!layer.ok()) continue;
    static_cast<void>(confine::run_as_storage_root(ids.value(), "clean up", [&] {
      static_cast<void>(fs::remove_tree(layer.value().get(), "fs"));
      return 0;
    }));
  }
}

std::string ImportRoom::path(std::string_view name) const {
  return name.empty() ? dir_.path() : text::cat(dir_.path(), "/", name);
}

std::string ImportRoom::write(const std::string& name, std::string_view content) const {
  const std::string full = path("source/" + name);
  make_file(full, content);
  return full;
}

Result<Record> ImportRoom::import(std::string_view bytes, const Budget& budget) const {
  return import_path(write("archive", bytes), {}, budget);
}

Result<Record> ImportRoom::import_path(const std::string& path,
                                       const std::string& tag,
                                       const Budget& budget) const {
  ImportRequest request;
  request.path = path;
  request.name = "test";
  request.tag = tag;
  request.source = "a test";
  request.budget = budget;
  return import_image(*store_, request);
}

Result<Record> ImportRoom::import_piped(std::string_view bytes, const std::string& tag) const {
  auto pipe = sys::pipe();
  REQUIRE(pipe.ok());
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::signal(SIGPIPE, SIG_IGN);
    pipe.value().r.reset();
    static_cast<void>(sys::write_all(pipe.value().w.get(), bytes));
    ::_exit(0);
  }
  pipe.value().w.reset();
  const auto saved = sys::dup(STDIN_FILENO);
  REQUIRE(sys::dup_onto(pipe.value().r.get(), STDIN_FILENO, false).ok());
  pipe.value().r.reset();
  auto done = import_path("-", tag);
  if (saved.ok()) static_cast<void>(sys::dup_onto(saved.value().get(), STDIN_FILENO, false));
  int status = 0;
  ::waitpid(pid, &status, 0);
  return done;
}

std::map<std::string, Stored> ImportRoom::content(const std::string& layer) const {
  const auto root = workspace::open_layer(store_->layers(), layer, "root");
  REQUIRE(root.ok());
  const auto ids = confine::storage_ids();
  auto pipe = sys::pipe();
  REQUIRE((ids.ok() && pipe.ok()));
  auto child = confine::fork_as_storage_root(ids.value(), [&] {
    std::map<std::string, Stored> found;
    found[""] = look(root.value().get(), ".");
    look_below(root.value().get(), "", found);
    return sys::write_all(pipe.value().w.get(), encode(found)).ok() ? 0 : 1;
  });
  REQUIRE(child.ok());
  pipe.value().w.reset();
  const auto text = sys::read_all(pipe.value().r.get(), Bytes{std::uint64_t{256} << 20U});
  REQUIRE(text.ok());
  return decode(text.value());
}

std::map<std::string, Stored> ImportRoom::content(const Record& record) const {
  REQUIRE(record.layers.size() == 1);
  return content(record.layers.front().id);
}

std::vector<std::string> ImportRoom::layers() const {
  const auto dir = workspace::open_directory(store_->layers(), "");
  REQUIRE(dir.ok());
  auto names = workspace::read_names(dir.value().get());
  REQUIRE(names.ok());
  std::erase(names.value(), "lock");
  std::ranges::sort(names.value());
  return names.value();
}

std::string ImportRoom::outside() const {
  std::string out;
  for (const char* name : {"beside", "source"}) {
    const auto dir = fs::open_dir(path(name));
    REQUIRE(dir.ok());
    list_tree(dir.value().get(), name, out);
  }
  const auto state = fs::open_dir(path("state"));
  REQUIRE(state.ok());
  out += fs::read_file_at(state.value().get(), "victim", Bytes{1024}).value();
  std::vector<std::string> names = workspace::read_names(state.value().get()).value();
  std::ranges::sort(names);
  out += text::join(names, " ");
  return out;
}

}  // namespace sbx::image::test
