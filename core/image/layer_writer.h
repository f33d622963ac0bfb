// Layer writer: the members of a hostile layer as files below one directory, as overlayfs keeps a
// layer: a whiteout is a character device 0:0, an opaque directory has an attribute.
//
// To be called as root of the storage ids, with umask 0, in a process that owns nothing else. All
// paths go through LayerDirs; what stands at a name is never followed, only replaced. Members may
// come in any order and more than once: the last one counts. The first failure ends it; what is
// there then is to be thrown away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "core/archive/archive_reader.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/image/import.h"
#include "core/image/layer_dirs.h"
#include "core/image/layer_path.h"

namespace sbx::image {

struct LayerLimits {
  std::uint64_t bytes = UINT64_MAX;  ///< content, holes included
  std::uint64_t entries = UINT64_MAX;
  std::size_t depth = 200;
};

class LayerWriter {
 public:
  using Content = std::function<Result<archive::MemberData>()>;

  LayerWriter(UniqueFd root, const LayerLimits& limits);

  /// Writes a member; `content` is asked for a regular file only. kLimit, kDenied and others name
  /// it.
  Status add(const archive::Member& member, const Content& content);
  /// After the last member: links to what came later are made, times of directories put right.
  Status finish();

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t entries() const { return entries_; }
  const LeftOut& left_out() const { return left_out_; }
  /// What lower layers have to say: directories without a member, and hard links (path, target) to
  /// what this layer does not have.
  const std::set<std::string>& implied() const { return dirs_.implied(); }
  const std::map<std::string, std::string>& links() const { return links_; }

 private:
  struct Place {
    int dirfd = -1;
    std::string dir;
    std::string name;
    std::string path() const { return joined(dir, name); }
  };

  Status add_checked(const archive::Member& member, const Content& content);
  Status root(const archive::Member& member);
  Status whiteout(const Place& place);
  Status directory(const archive::Member& member, const Place& place);
  Status file(const archive::Member& member, const Place& place, const Content& content);
  Status symlink(const archive::Member& member, const Place& place);
  Status fifo(const archive::Member& member, const Place& place);
  Status hard_link(const std::string& target, const Place& place);
  Result<bool> try_link(std::string target, const Place& place);
  Status replace(const Place& place);
  Status note_link(const std::string& path, const std::string& target);
  Status attributes(const archive::Member& member, int fd);
  Status named_attributes(const archive::Member& member, const Place& place);
  Status xattrs(const archive::Member& member, int fd);
  Status copy(const archive::Member& member, int fd, const Content& content);

  LayerLimits limits_;
  LayerDirs dirs_;
  std::uint64_t bytes_ = 0;
  std::uint64_t entries_ = 0;
  LeftOut left_out_;
  std::map<std::string, std::string> links_;
  std::size_t link_bytes_ = 0;
  bool has_root_time_ = false;
};

}  // namespace sbx::image
