// Inputs: turns -i HOST[=INSIDE] and the script into what the job sees read-only in /work.
//
// It only looks: nothing is copied or mounted here, but for single files of /proc, which are read.
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
  Inputs() = default;
  /// `private_dirs`: directories of sbx itself, which no input may be, hold or lie in.
  explicit Inputs(std::vector<std::string> private_dirs) : private_dirs_(std::move(private_dirs)) {}

  /// `spec` is HOST or HOST=INSIDE. A spec that exists as a whole is HOST, else it is cut at the
  /// last `=` that leaves something that exists, so names with `=` work. INSIDE is one name (also
  /// written /work/NAME). Errors, each with a hint: kNotFound, kDenied (not readable), kUsage (bad
  /// or taken name, neither file nor directory). A file of /proc is read now and goes in as text.
  Status add(const std::string& spec);
  /// A regular file whose host name is the whole of `path`, under `name` or (empty) its base name;
  /// for the script.
  Status add_script(const std::string& path, std::string name = {});
  /// A small file of sbx's own: `name` in /work, or an absolute inside path.
  Status add_text(const std::string& name, std::string content);

  const std::vector<backend::InputMount>& mounts() const { return mounts_; }
  const std::vector<backend::InputFile>& files() const { return files_; }
  /// Names in /work that are inputs, thus no artifacts.
  std::vector<std::string> names() const;

 private:
  enum class Wanted : bool { kAny, kRegularFile };
  Status add_path(const std::string& host, std::string name, Wanted wanted);
  Status claim(const std::string& name, const std::string& what);
  Status check_private(const std::string& real, bool is_dir) const;

  struct Claim {
    std::string name;
    std::string what;  // for the message about the second one
  };
  std::vector<std::string> private_dirs_;
  std::vector<backend::InputMount> mounts_;
  std::vector<backend::InputFile> files_;
  std::vector<Claim> claims_;
};

}  // namespace sbx::run
