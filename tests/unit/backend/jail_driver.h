// Jail driver: starts one jail through the backend's interface, runs a shell script in it and ends
// it. Everything happens in a forked child, so that a test can do it as another user.
#pragma once

#include <string>
#include <vector>

#include "core/backend/backend.h"

#include "tests/support/user.h"

namespace sbx::test {

/// One workspace on disk, with a base layer to be made and an upper.
class Workspace {
 public:
  explicit Workspace(const Identity& who);
  const Identity& who() const { return who_; }
  const std::string& state() const { return state_; }
  std::string layers() const { return state_ + "/layers"; }
  std::string layer(const std::string& name) const { return layers() + "/" + name; }
  /// In the root of a layer.
  std::string in_root(const std::string& name, const std::string& path) const {
    return layer(name) + "/fs/root" + path;
  }
  /// Makes the directory of a layer; nothing in it.
  void make_layer(const std::string& name) const;
  /// As root: gives what is in the layer to the job, as an id of the range of storage.
  void give_to_job(const std::string& name) const;
  /// Runs a script on the host as the workspace's owner of content (root: as root).
  void on_host(const std::string& script) const;

 private:
  const Identity& who_;
  WorkDir dir_;
  std::string state_;
};

struct JailRun {
  std::string error;  ///< of the sandbox; empty when it ran
  int status = -1;    ///< exit status of the script
  std::string out;    ///< what it wrote
  std::string base;   ///< name of the base layer
};

struct JailRequest {
  profile::Profile profile;
  std::vector<std::string> lowers;  ///< names of layers above the base
  std::string upper;                ///< name; empty: a root that is thrown away
  std::string script;
};

JailRun run_jail(const Workspace& workspace, JailRequest request);

/// root and the unprivileged user when the test runs as root, else who runs it.
std::vector<const Identity*> identities();

}  // namespace sbx::test
