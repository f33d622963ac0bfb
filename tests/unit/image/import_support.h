// import_support: a state directory of the test's own beside things that no import may touch, and
// images read into it.
#pragma once

#include <sys/stat.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fs.h"
#include "core/image/import.h"
#include "core/image/store.h"

namespace sbx::image::test {

/// What the tests want to know of a stored file.
struct Stored {
  mode_t mode = 0;  ///< with its type
  uid_t uid = 0;    ///< inside
  gid_t gid = 0;
  std::int64_t mtime = 0;
  std::uint64_t size = 0;
  std::uint64_t inode = 0;
  std::uint64_t links = 0;
  dev_t device = 0;
  std::string text;  ///< of a file or link
  std::map<std::string, std::string> xattrs;
};

class ImportRoom {
 public:
  ImportRoom();
  ~ImportRoom();
  ImportRoom(const ImportRoom&) = delete;
  ImportRoom& operator=(const ImportRoom&) = delete;

  const Store& store() const { return *store_; }
  std::string path(std::string_view name = {}) const;
  std::string write(const std::string& name, std::string_view content) const;
  /// Imports these bytes as the image "test".
  Result<Record> import(std::string_view bytes, const Budget& budget = {}) const;
  Result<Record> import_path(const std::string& path,
                             const std::string& tag = {},
                             const Budget& budget = {}) const;
  /// The same through a pipe that another process fills.
  Result<Record> import_piped(std::string_view bytes, const std::string& tag = {}) const;

  /// Everything in a layer by path, "" is its root.
  std::map<std::string, Stored> content(const std::string& layer) const;
  /// What all layers of a record show together is not asked here: of the only layer.
  std::map<std::string, Stored> content(const Record& record) const;
  /// Names in the directory of layers but its lock.
  std::vector<std::string> layers() const;
  /// What lies beside the state directory and must not change, as a text.
  std::string outside() const;

 private:
  fs::TempDir dir_;
  std::optional<Store> store_;
};

/// Whether this process can store images here.
bool can_import();

}  // namespace sbx::image::test
