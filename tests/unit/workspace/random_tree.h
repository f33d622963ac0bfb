// random_tree: seeded random changes of a tree, real overlay mounts to make them in, and snapshots
// of a tree as plain text to compare. For use in a child of its own: it mounts.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "core/workspace/merged_tree.h"

#include "tests/unit/workspace/place.h"

namespace sbx::workspace {

/// Path -> everything that matters of the object.
using Snapshot = std::map<std::string, std::string>;

inline std::string describe(const struct stat& st,
                            const std::string& content,
                            const std::string& note) {
  std::string times;
  if (!S_ISDIR(st.st_mode)) times = text::cat(st.st_mtim.tv_sec, ".", st.st_mtim.tv_nsec);
  const std::string size = S_ISDIR(st.st_mode) ? "" : std::to_string(st.st_size);
  return text::cat(st.st_mode, " ", st.st_uid, " ", size, " ", times, " [", content, "] ", note);
}

/// What the kernel shows below `root`.
inline Snapshot snapshot_of_path(const std::string& root) {
  Snapshot found;
  namespace stdfs = std::filesystem;
  for (const auto& item : stdfs::recursive_directory_iterator(root)) {
    const std::string path = item.path();
    const struct stat st = stat_of(path);
    std::string content;
    std::string note;
    if (S_ISREG(st.st_mode)) content = read_text(path);
    if (S_ISLNK(st.st_mode)) content = stdfs::read_symlink(path);
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) note = attribute(path, "user.note");
    found[path.substr(root.size() + 1)] = describe(st, content, note);
  }
  return found;
}

inline std::string note_of(MergedTree& tree, const MergedDir& dir, const MergedEntry& entry) {
  const auto fd =
      entry.is_dir() ? tree.open_dir(MergedTree::enter(dir, entry)) : tree.open_file(dir, entry);
  REQUIRE(fd.ok());
  const auto attributes = content_xattrs(fd.value().get());
  REQUIRE(attributes.ok());
  for (const Xattr& attribute : attributes.value()) {
    if (attribute.first == "user.note") return attribute.second;
  }
  return "none";
}

/// What a merged tree shows.
inline Snapshot snapshot_of_tree(MergedTree& tree) {
  Snapshot found;
  std::vector<MergedDir> pending{tree.root()};
  while (!pending.empty()) {
    const MergedDir dir = pending.back();
    pending.pop_back();
    const auto entries = tree.list(dir);
    REQUIRE(entries.ok());
    for (const MergedEntry& entry : entries.value()) {
      std::string content;
      std::string note;
      if (S_ISREG(entry.st.st_mode)) {
        const auto file = tree.open_file(dir, entry);
        REQUIRE(file.ok());
        content = sys::read_all(file.value().get(), Bytes{1U << 20U}).value();
      }
      if (S_ISLNK(entry.st.st_mode)) content = tree.read_link(dir, entry).value();
      if (S_ISREG(entry.st.st_mode) || entry.is_dir()) note = note_of(tree, dir, entry);
      found[join_path(dir.path, entry.name)] = describe(entry.st, content, note);
      if (entry.is_dir()) pending.push_back(MergedTree::enter(dir, entry));
    }
  }
  return found;
}

/// The first difference, or "".
inline std::string difference(const Snapshot& a, const Snapshot& b) {
  for (const auto& [path, text] : a) {
    const auto at = b.find(path);
    if (at == b.end()) return text::cat("only in the first: ", path, " ", text);
    if (at->second != text) return text::cat(path, ": ", text, " / ", at->second);
  }
  for (const auto& [path, text] : b) {
    if (!a.contains(path)) return text::cat("only in the second: ", path, " ", text);
  }
  return "";
}

/// Random changes of the tree at a path; what fails, fails.
class Changer {
 public:
  explicit Changer(std::uint32_t seed) : random_(seed) {}

  void change(const std::string& root, int count) {
    for (int i = 0; i < count; ++i) {
      one(root);
    }
  }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

 private:
  std::string path(const std::string& root) {
    constexpr std::array<const char*, 4> kNames{"a", "b", "c", "d \xfe"};
    std::string path = root;
    for (std::uint32_t depth = 1 + below(3); depth > 0; --depth) {
      path += "/";
      path += kNames.at(below(kNames.size()));
    }
    return path;
  }

  void write(const std::string& where, int flags) {
    const auto file = sys::open(where, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | flags, 0644);
    if (file.ok()) static_cast<void>(sys::write_all(file.value().get(), text::cat("x", ++made_)));
  }

  void one(const std::string& root) {
    const std::string at = path(root);
    const char* name = at.c_str();
    std::error_code ignored;
    int result = 0;
    switch (below(14)) {
      case 0:
      case 1:
        write(at, O_CREAT | O_TRUNC);
        break;
      case 2:
        write(at, O_APPEND);
        break;
      case 3:
      case 4:
      case 5:
        result = ::mkdir(name, 0755);
        break;
      case 6:
        result = ::unlink(name);
        break;
      case 7:
        std::filesystem::remove_all(at, ignored);
        if (below(2) == 0) result = ::mkdir(name, 0750);
        break;
      case 8:
      case 9:
        result = ::rename(name, path(root).c_str());
        break;
      case 10:
        result = ::fchmodat(AT_FDCWD, name, 0700 + below(64), AT_SYMLINK_NOFOLLOW);
        break;
      case 11:
        result = ::symlink("/etc/passwd", name);
        break;
      case 12:
        result = ::link(name, path(root).c_str());
        break;
      default:
        result = ::lsetxattr(name, "user.note", at.data(), at.size() % 9, 0);
        break;
    }
    failed_ += result == 0 ? 0 : 1;
  }

  std::mt19937 random_;
  int made_ = 0;
  int failed_ = 0;
};

/// The root parts of these layers, lowest first, as one tree.
inline MergedTree tree_of(const Place& place, const std::vector<std::string>& ids) {
  std::vector<UniqueFd> stack;
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    stack.push_back(open_layer(place.fd(), *id, "root").value());
  }
  return MergedTree::open(std::move(stack)).value();
}

/// An overlay of these layers at PLACE/mnt; with an upper it is writable. Unmounted by the
/// destructor.
class Overlay {
 public:
  Overlay(const Place& place, const std::vector<std::string>& lowers, const std::string& upper)
      : path_(place.path() + "/mnt") {
    ::mkdir(path_.c_str(), 0755);
    std::string options = "userxattr,lowerdir=";
    for (auto id = lowers.rbegin(); id != lowers.rend(); ++id) {
      options += place.root(*id) + (std::next(id) == lowers.rend() ? "" : ":");
    }
    if (!upper.empty()) {
      const std::string work = place.path() + "/" + upper + "/ovl";
      ::mkdir(work.c_str(), 0755);
      options += ",upperdir=" + place.root(upper) + ",workdir=" + work;
    }
    is_mounted_ = ::mount("overlay", path_.c_str(), "overlay", 0, options.c_str()) == 0;
  }
  ~Overlay() {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  bool is_mounted() const { return is_mounted_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_mounted_ = false;
};

/// Moves this process to a mount namespace where it may mount overlays; false where it may not.
inline bool enter_mount_namespace() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) return false;
  if (uid != 0) {
    const auto put = [](const char* path, const std::string& text) {
      const auto file = sys::open(path, O_WRONLY);
      return file.ok() && sys::write_all(file.value().get(), text).ok();
    };
    const bool is_mapped = put("/proc/self/uid_map", text::cat("0 ", uid, " 1")) &&
                           put("/proc/self/setgroups", "deny") &&
                           put("/proc/self/gid_map", text::cat("0 ", gid, " 1"));
    if (!is_mapped) return false;
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// Runs `body` in a child with a mount namespace; what it returns is a complaint or "". "SKIP" when
/// there are no overlays here.
inline std::string with_mounts(const std::function<std::string()>& body) {
  auto pipe = sys::pipe();
  REQUIRE(pipe.ok());
  const pid_t pid = ::fork();
  if (pid == 0) {
    pipe.value().r.reset();
    const std::string said = enter_mount_namespace() ? body() : "SKIP";
    static_cast<void>(sys::write_all(pipe.value().w.get(), text::cat("said ", said)));
    ::_exit(0);
  }
  pipe.value().w.reset();
  const auto said = sys::read_all(pipe.value().r.get(), Bytes{1U << 20U});
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!said.ok() || !said.value().starts_with("said ")) return "the child crashed";
  return said.value().substr(5);
}

}  // namespace sbx::workspace
