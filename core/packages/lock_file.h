// Lock file: the exact packages of a set, with their digests. What is read from one may have been
// written by anybody: nothing in it is trusted before it has the form of a name, a version, a
// digest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/packages/spec.h"

namespace sbx::packages {

struct Package {
  std::string name;
  std::string version;
  std::string file;    ///< in the source directory; one component
  std::string digest;  ///< "sha256:<64 hex>" of it, for npm "sha512-<base64>"
  std::string place;   ///< npm: "node_modules/a/node_modules/b"; pip: empty
  bool operator==(const Package&) const = default;
};

/// The packages of one kind.
struct Locked {
  std::vector<std::string> wants;  ///< specs that it was made for, sorted
  std::vector<Package> packages;   ///< sorted
  std::string tree;                ///< npm: its package-lock.json; else empty
  std::string site;  ///< pip: directory of the modules below the set's tree, "lib/…/site-packages"
};

struct LockFile {
  Locked pip;
  Locked npm;

  Locked& of(Kind kind) { return kind == Kind::kPip ? pip : npm; }
  const Locked& of(Kind kind) const { return kind == Kind::kPip ? pip : npm; }
};

std::string to_json(const LockFile& lock);
/// kProtocol for rubbish, kUnsupported for a newer format.
Result<LockFile> parse_lock_file(std::string_view text);

/// What is wrong with packages that somebody else names; success when nothing is.
Status check(Kind kind, const Locked& locked);

/// "numpy==1.26.4", "left-pad@1.3.0": for people.
std::vector<std::string> exact_specs(Kind kind, const Locked& locked);

}  // namespace sbx::packages
