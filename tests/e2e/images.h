// images: a state directory of its own with the images of one test case, and small archives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/e2e/sbx.h"
#include "tests/e2e/sessions.h"
#include "tests/support/user.h"

namespace sbx::test {

class Images {
 public:
  /// A call of `sbx image ARGS…` with this state directory, and what comes of it.
  Spec spec(const Args& args, const std::vector<std::string>& env = {}) const;
  Outcome call(const Args& args, const std::vector<std::string>& env = {}) const {
    return run(spec(args, env));
  }
  /// Any verb.
  Outcome sbx(Args args) const { return sessions_.sbx(std::move(args)); }
  /// Runs a shell script as the subject in the case's directory; a failure fails the case.
  void shell(const std::string& script) const;
  /// `tree.tar`-like file of a tree that `script` makes in its working directory; its path. All in
  /// it belongs to `owner`.
  std::string tar(const std::string& name,
                  const std::string& script,
                  const std::string& owner = "0:0") const;
  /// Imports it; a failure fails the case.
  void import(const std::string& file, const std::string& name) const;

  /// Names in layers/ but the lock.
  std::vector<std::string> layers() const;
  /// What `sbx image show NAME --json` says at a JSON pointer; "" when there is none.
  std::string show(const std::string& name, std::string_view pointer) const;
  /// Whether `sbx gc --dry-run` finds nothing in the state directory; waits for processes that are
  /// ending.
  bool is_clean() const;

  const std::string& state_dir() const { return sessions_.state_dir(); }
  const WorkDir& dir() const { return sessions_.dir(); }
  const Sessions& sessions() const { return sessions_; }

 private:
  Sessions sessions_;
};

}  // namespace sbx::test
