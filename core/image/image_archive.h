// Image archive: the tar file of `docker save` or of an OCI layout, read member by member.
//
// Texts are kept, layers go to a consumer, the rest is passed over. A member is a layer when it
// begins like a tar file or like a compressed file, and a text when it begins like JSON: its name
// tells nothing in one of the two kinds of archive.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/archive/archive_reader.h"
#include "core/base/result.h"
#include "core/image/layout.h"
#include "core/image/source.h"

namespace sbx::image {

class ImageArchive {
 public:
  /// Unpacks the layer at `path`, whose first bytes are of `compression`.
  using OnLayer = std::function<Status(
      const std::string& path, archive::Compression compression, Peekable& content)>;

  /// Reads all members of the plain tar stream `input`. Layers are given to `on_layer`; without
  /// one they are passed over. `skip` makes that fast.
  Status read(const archive::NextBlock& input,
              const archive::SkipBytes& skip,
              const OnLayer& on_layer);

  /// The text at a path, links of the archive followed.
  FindText find_text() const;
  /// The path of a member that a path stands for.
  std::string resolve(std::string path) const;

 private:
  Status take(archive::ArchiveReader& reader,
              const archive::Member& member,
              const std::string& path,
              const OnLayer& on_layer);
  Status keep_text(const archive::Member& member, const std::string& path, Peekable& content);

  std::map<std::string, std::string> texts_;
  std::map<std::string, std::string> links_;
  std::set<std::string> layers_;
  std::size_t bytes_ = 0;
};

/// Whether a tar stream that begins with `head` is one: the name of its first member tells.
bool is_image_archive(std::string_view head);

}  // namespace sbx::image
