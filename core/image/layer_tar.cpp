// Layer tar: a walk in the order of names; nothing is recursive, no link is followed.
#include "core/image/layer_tar.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/archive/file_attributes.h"
#include "core/archive/pack_file.h"
#include "core/archive/tar_writer.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/image/storage_job.h"
#include "core/image/zero_map.h"
#include "core/workspace/beneath.h"
#include "core/workspace/layer_store.h"

namespace sbx::image {

namespace {

using workspace::join_path;

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::size_t kMaxLinked = std::size_t{4} << 20U;

/// The attributes that a layer tar has, sorted by name.
Result<std::vector<archive::TarXattr>> xattrs_of(int fd) {
  SBX_ASSIGN(const std::vector<workspace::Xattr> all, workspace::all_xattrs(fd));
  std::vector<archive::TarXattr> kept;
  for (const auto& [name, value] : all) {
    if (!archive::is_kept_xattr(name) && name != "security.capability") continue;
    if (name.find('=') != std::string::npos) {
      return Error(Errc::kUnsupported,
                   text::cat("a tar file cannot have an attribute named ", text::escape(name)));
    }
    kept.push_back({name, value});
  }
  return kept;
}

class Walk {
 public:
  Walk(int root, TarOf of, archive::TarWriter& writer) : cursor_(root), of_(of), writer_(writer) {}

  Status run() {
    SBX_TRY(enter(""));
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (frame.next == frame.names.size()) {
        held_ -= frame.names.size();
        frames_.pop_back();
        continue;
      }
      const std::string name = std::move(frame.names[frame.next++]);
      const std::string dir = frame.path;  // the frame may move
      Status added = add(dir, name);
      if (!added.ok()) {
        return std::move(added).error().prefixed(
            text::cat("/", text::escape(join_path(dir, name))));
      }
    }
    return {};
  }

 private:
  struct Frame {
    std::string path;
    std::vector<std::string> names;
    std::size_t next = 0;
  };

  static archive::TarEntry entry_of(const struct stat& st, std::string path) {
    archive::TarEntry entry;
    entry.path = std::move(path);
    entry.mode = st.st_mode & 07777U;
    entry.mtime_ns = archive::mtime_ns(st);
    entry.uid = st.st_uid;
    entry.gid = st.st_gid;
    return entry;
  }

  static archive::TarEntry whiteout(std::string path) {
    archive::TarEntry entry;
    entry.path = std::move(path);
    entry.mode = 0;
    return entry;
  }

  Status enter(const std::string& path) {
    SBX_ASSIGN(const int dir, cursor_.open(path));
    SBX_ASSIGN(const struct stat st, sys::fstat(dir));
    archive::TarEntry entry = entry_of(st, path.empty() ? "./" : path);
    entry.type = archive::TarType::kDirectory;
    SBX_ASSIGN(entry.xattrs, xattrs_of(dir));
    SBX_TRY(writer_.add(entry));
    if (of_ == TarOf::kLayer) {
      SBX_ASSIGN(const bool is_opaque, workspace::is_opaque(dir));
      if (is_opaque) SBX_TRY(writer_.add(whiteout(join_path(path, kOpaque))));
    }
    SBX_ASSIGN(std::vector<std::string> names, workspace::read_names(dir));
    std::ranges::sort(names);
    held_ += names.size();
    if (held_ > workspace::kMaxNames) return Error(Errc::kLimit, "the tree has too many names");
    frames_.push_back({path, std::move(names), 0});
    return {};
  }

  Status add(const std::string& path, const std::string& name) {
    SBX_ASSIGN(const int dir, cursor_.open(path));
    SBX_ASSIGN(const struct stat st, sys::fstatat(dir, name, AT_SYMLINK_NOFOLLOW));
    const std::string full = join_path(path, name);
    if (workspace::is_whiteout(st)) {
      if (of_ == TarOf::kTree) return {};
      return writer_.add(whiteout(join_path(path, text::cat(kWhiteout, name))));
    }
    if (S_ISSOCK(st.st_mode)) return {};
    if (of_ == TarOf::kLayer && name.starts_with(kWhiteout)) {
      return Error(Errc::kUnsupported, "a layer cannot have a name that begins with .wh.")
          .with_hint("remove or rename it");
    }
    if (S_ISDIR(st.st_mode)) return enter(full);
    if (st.st_nlink > 1) {
      const auto [first, is_new] = linked_.emplace(st.st_ino, full);
      if (!is_new) {
        archive::TarEntry entry = entry_of(st, full);
        entry.type = archive::TarType::kHardLink;
        entry.link = first->second;
        return writer_.add(entry);
      }
      if (linked_.size() > kMaxLinked) return Error(Errc::kLimit, "too many hard links");
    }
    return add_object(dir, name, st, entry_of(st, full));
  }

  Status add_object(int dir,
                    const std::string& name,
                    const struct stat& st,
                    archive::TarEntry entry) {
    if (S_ISREG(st.st_mode)) return add_file(dir, name, std::move(entry));
    if (S_ISLNK(st.st_mode)) {
      entry.type = archive::TarType::kSymlink;
      SBX_ASSIGN(entry.link, sys::readlinkat(dir, name));
      return writer_.add(entry);
    }
    if (S_ISFIFO(st.st_mode)) {
      entry.type = archive::TarType::kSpecial;
      return writer_.add(entry);
    }
    return Error(Errc::kUnsupported, "a layer cannot have a device");
  }

  Status add_file(int dir, const std::string& name, archive::TarEntry entry) {
    SBX_ASSIGN(const UniqueFd file, workspace::open_regular(dir, name));
    SBX_ASSIGN(const struct stat st, sys::fstat(file.get()));
    entry.size = static_cast<std::uint64_t>(st.st_size);
    SBX_ASSIGN(entry.xattrs, xattrs_of(file.get()));
    SBX_ASSIGN(std::vector<archive::Extent> data, nonzero_extents(file.get(), entry.size));
    const bool is_dense = entry.size == 0 ||
                          (data.size() == 1 && data[0].offset == 0 && data[0].length == entry.size);
    if (!is_dense) {
      entry.is_sparse = true;
      entry.data = data;
    }
    archive::ExtentReader reader(file.get(), std::move(data));
    return writer_.add(entry, [&](std::span<std::byte> buffer) { return reader.read(buffer); });
  }

  workspace::DirCursor cursor_;
  TarOf of_;
  archive::TarWriter& writer_;
  std::vector<Frame> frames_;
  std::size_t held_ = 0;  // names in all frames
  std::map<ino_t, std::string> linked_;
};

}  // namespace

Result<LayerTar> write_tree_tar(int root, TarOf of, int out) {
  LayerTar made;
  Sha256 digest;
  archive::TarWriter writer([&](std::string_view bytes) -> Status {
    digest.update(bytes);
    made.bytes += bytes.size();
    if (out < 0) return {};
    return sys::write_all(out, bytes);
  });
  SBX_TRY(Walk(root, of, writer).run());
  SBX_TRY(writer.finish());
  made.diff_id = text::cat("sha256:", digest.hex());
  return made;
}

Result<LayerForJob> layer_for_job(const confine::StorageIds& ids,
                                  int layers,
                                  const std::string& id) {
  LayerForJob layer{layers, id, UniqueFd()};
  if (ids.kind == confine::StorageIds::Kind::kRange) {
    SBX_ASSIGN(layer.root, workspace::open_layer(layers, id, "root"));
  }
  return layer;
}

Result<LayerTar> write_layer_tar(const LayerForJob& layer, int out) {
  UniqueFd opened;
  if (!layer.root.valid()) {
    SBX_ASSIGN(opened, workspace::open_layer(layer.layers, layer.id, "root"));
  }
  const int root = opened.valid() ? opened.get() : layer.root.get();
  auto made = write_tree_tar(root, TarOf::kLayer, out);
  if (!made.ok()) return std::move(made).error().prefixed(text::cat("read layer ", layer.id));
  return made;
}

Result<LayerTar> digest_layer(const confine::StorageIds& ids, int layers, const std::string& id) {
  SBX_ASSIGN(const LayerForJob layer, layer_for_job(ids, layers, id));
  SBX_ASSIGN(const std::string answer,
             run_storage_job(ids, "read the layer", [&]() -> Result<std::string> {
               SBX_ASSIGN(const LayerTar tar, write_layer_tar(layer, -1));
               return to_text(tar);
             }));
  return parse_layer_tar(answer);
}

std::string to_text(const LayerTar& tar) {
  return text::cat(tar.diff_id, " ", tar.bytes);
}

Result<LayerTar> parse_layer_tar(std::string_view text) {
  constexpr std::size_t kIdSize = 7 + 64;  // "sha256:" and the digits
  LayerTar tar;
  const std::size_t space = text.find(' ');
  if (space == kIdSize && text.starts_with("sha256:")) {
    tar.diff_id = text.substr(0, space);
    const auto bytes = parse_count(text.substr(space + 1));
    if (bytes.ok()) {
      tar.bytes = bytes.value();
      return tar;
    }
  }
  return Error(Errc::kProtocol, "no digest and length of a layer");
}

}  // namespace sbx::image
