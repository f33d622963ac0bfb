// user: the identities tests run programs as; made when missing, never a real person's account.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace sbx::test {

struct Identity {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home;
};

/// Who the test process is.
const Identity& self();
/// The unprivileged test user: sbx-test when the test runs as root (made when missing), else
/// whoever runs the test.
const Identity& test_user();
/// Another unprivileged user (sbx-test2); only when the test runs as root.
const Identity& other_user();
/// Whom the suites run sbx as: SBX_TEST_AS is "root" or "user" (the default without root rights).
const Identity& subject();
bool subject_is_root();

/// A login's small environment: PATH, HOME, USER, LANG.
std::vector<std::string> environment_of(const Identity& who);

/// A directory that `owner` may write and all may enter; removed with all in it at the end.
class WorkDir {
 public:
  explicit WorkDir(const Identity& owner = subject());
  WorkDir(const WorkDir&) = delete;
  WorkDir& operator=(const WorkDir&) = delete;
  ~WorkDir();
  const std::string& path() const { return path_; }
  /// Writes a file below it (owned by `owner`), returns its full path.
  std::string write(const std::string& name, const std::string& content, mode_t mode = 0644) const;
  /// A path below it.
  std::string at(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  Identity owner_;
};

/// The file's bytes; empty when it cannot be read.
std::string slurp(const std::string& path);
bool exists(const std::string& path);
/// Names in a directory, sorted, without . and ..
std::vector<std::string> names_in(const std::string& path);

}  // namespace sbx::test
