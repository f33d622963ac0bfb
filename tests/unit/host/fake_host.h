// fake host: a directory with the files that causes are read from.
#pragma once

#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/host/surroundings.h"

namespace sbx::host {

class FakeHost {
 public:
  FakeHost() : dir_(fs::TempDir::create("/tmp", "sbx-unit-host-")) {
    REQUIRE(dir_.ok());
    files_.root = dir_.value().path();
    files_.is_root = false;
    file("/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
    file("/proc/self/status", "Name:\tsbx\nSeccomp:\t0\n");
  }
  void file(const std::string& path, const std::string& content, mode_t mode = 0644) const {
    const std::size_t slash = path.rfind('/');
    REQUIRE(fs::mkdirs(files_.root + path.substr(0, slash), 0755).ok());
    const auto at = fs::open_dir(files_.root + path.substr(0, slash));
    REQUIRE(at.ok());
    REQUIRE(fs::write_atomic(at.value().get(), path.substr(slash + 1), content, mode).ok());
  }
  HostFiles& files() { return files_; }
  const HostFiles& files() const { return files_; }
  const std::string& root() const { return files_.root; }

 private:
  Result<fs::TempDir> dir_;
  HostFiles files_;
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace sbx::host
