// user: the identities tests run programs as; made when missing, never a real person's account.
#include "tests/support/user.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "tests/support/process.h"

namespace sbx::test {
namespace {

std::optional<Identity> look_up(const std::string& name) {
  const passwd* pw = ::getpwnam(name.c_str());
  if (pw == nullptr) {
    return std::nullopt;
  }
  return Identity{name, pw->pw_uid, pw->pw_gid, pw->pw_dir};
}

/// One maker at a time: useradd fails while another one holds its lock.
Identity make_user(const std::string& name) {
  const int lock = ::open("/tmp/sbx-test-users.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ::flock(lock, LOCK_EX);
  auto found = look_up(name);
  if (!found) {
    run({.argv = {"useradd",
                  "--create-home",
                  "--home-dir",
                  "/var/tmp/" + name,
                  "--shell",
                  "/bin/bash",
                  name}});
    found = look_up(name);
  }
  ::close(lock);
  if (!found) {
    throw std::runtime_error("cannot make the user " + name);
  }
  return *found;
}

int remove_entry(const char* path, const struct stat* /*st*/, int type, FTW* /*ftw*/) {
  if (type == FTW_DNR) {
    ::chmod(path, 0700);
  }
  ::remove(path);
  return 0;
}

}  // namespace

const Identity& self() {
  static const Identity found = [] {
    const passwd* pw = ::getpwuid(::geteuid());
    return pw != nullptr ? Identity{pw->pw_name, pw->pw_uid, pw->pw_gid, pw->pw_dir}
                         : Identity{"nobody", ::geteuid(), ::getegid(), "/"};
  }();
  return found;
}

const Identity& test_user() {
  static const Identity found = ::geteuid() == 0 ? make_user("sbx-test") : self();
  return found;
}

const Identity& other_user() {
  static const Identity found = make_user("sbx-test2");
  return found;
}

bool subject_is_root() {
  const char* as = std::getenv("SBX_TEST_AS");
  return ::geteuid() == 0 && (as == nullptr || std::strcmp(as, "user") != 0);
}

const Identity& subject() {
  return subject_is_root() ? self() : test_user();
}

std::vector<std::string> environment_of(const Identity& who) {
  std::vector<std::string> all{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                               "HOME=" + who.home,
                               "USER=" + who.name,
                               "LANG=C.UTF-8",
                               "TERM=xterm"};
  // The cases of jails, once more in virtual machines.
  const char* const isolation = std::getenv("SBX_TEST_ISOLATION");  // NOLINT(concurrency-mt-unsafe)
  if (isolation != nullptr && *isolation != '\0') {
    all.insert(all.end(), {std::string("SBX_ISOLATION=") + isolation, "SBX_ACCEL=tcg"});
    const char* const state = std::getenv("SBX_TEST_STATE");  // NOLINT(concurrency-mt-unsafe)
    if (state != nullptr) all.push_back(std::string("SBX_STATE_DIR=") + state);
  }
  return all;
}

WorkDir::WorkDir(const Identity& owner) : owner_(owner) {
  std::string name = "/tmp/sbx-e2e-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("mkdtemp");
  }
  path_ = name;
  ::chmod(path_.c_str(), 0755);
  if (::chown(path_.c_str(), owner_.uid, owner_.gid) != 0) {
    throw std::runtime_error("chown " + path_);
  }
}

WorkDir::~WorkDir() {
  for (int round = 0; round < 2; ++round) {  // the second one for directories that had no modes
    ::nftw(path_.c_str(), remove_entry, 32, FTW_DEPTH | FTW_PHYS);
  }
}

std::string WorkDir::write(const std::string& name, const std::string& content, mode_t mode) const {
  const std::string full = at(name);
  {
    std::ofstream file(full, std::ios::binary);
    file << content;
  }
  ::chmod(full.c_str(), mode);
  if (::chown(full.c_str(), owner_.uid, owner_.gid) != 0) {
    throw std::runtime_error("chown " + full);
  }
  return full;
}

std::string slurp(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

bool exists(const std::string& path) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0;
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) {
    return names;
  }
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names.push_back(name);
    }
  }
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sbx::test
