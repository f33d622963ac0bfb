// Inputs: turns -i HOST[=INSIDE] and the script file into what the job sees read-only in /work.
//
// It only looks: nothing is copied or mounted here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/result.h"

namespace sbx::run {

/// A set of inputs with distinct names.
class Inputs {
 public:
  /// `spec` is HOST or HOST=INSIDE. The host's path is everything before the last `=` when that
  /// exists, so names with `=` work. INSIDE is one name in /work (also written /work/NAME).
  /// kNotFound, kDenied (unreadable) or kUsage (bad or taken name), each with a hint.
  Status add(std::string_view spec);
  /// The script itself; like add(), but the whole of `path` is the host's name.
  Status add_file(const std::string& path, std::string_view name);
  /// A small file of sbx's own at /work/<name>, or at an absolute `name`.
  Status add_text(std::string name, std::string content);

  std::span<const backend::InputMount> mounts() const { return mounts_; }
  std::span<const backend::InputFile> files() const { return files_; }
  /// Names in /work that are inputs, thus no artifacts.
  std::span<const std::string> names() const { return names_; }

 private:
  Status claim(std::string_view name, std::string_view host);

  std::vector<backend::InputMount> mounts_;
  std::vector<backend::InputFile> files_;
  std::vector<std::string> names_;
};

}  // namespace sbx::run
