// Image archive: see image_archive.h.
#include "core/image/image_archive.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/base/text.h"
#include "core/image/layer_path.h"

namespace sbx::image {

namespace {

using archive::Member;
using archive::MemberType;

constexpr std::size_t kHead = 512;
constexpr std::size_t kMaxTexts = std::size_t{64} << 20U;  // of all texts, their paths and links
constexpr std::size_t kMaxMembers = 100'000;
constexpr int kMaxLinks = 8;

bool is_json(std::string_view head) {
  const std::size_t at = head.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && (head[at] == '{' || head[at] == '[');
}

/// The content of a member as one stream, holes filled with zeros.
class Content {
 public:
  explicit Content(archive::ArchiveReader& reader) : reader_(reader) {}

  Result<std::span<const std::byte>> next() {
    static constexpr std::array<std::byte, 65536> kZeros{};
    if (pending_.bytes.empty()) {
      SBX_ASSIGN(pending_, reader_.data());
      if (pending_.bytes.empty()) return std::span<const std::byte>();
    }
    if (pending_.offset > at_) {
      const std::uint64_t gap = std::min<std::uint64_t>(pending_.offset - at_, kZeros.size());
      at_ += gap;
      return std::span(kZeros).first(static_cast<std::size_t>(gap));
    }
    const std::span<const std::byte> bytes = std::exchange(pending_.bytes, {});
    at_ += bytes.size();
    return bytes;
  }

 private:
  archive::ArchiveReader& reader_;
  archive::MemberData pending_;
  std::uint64_t at_ = 0;
};

}  // namespace

Status ImageArchive::read(const archive::NextBlock& input,
                          const archive::SkipBytes& skip,
                          const OnLayer& on_layer) {
  SBX_ASSIGN(archive::ArchiveReader reader, archive::ArchiveReader::open(input, skip));
  Member member;
  for (std::size_t count = 0;; ++count) {
    SBX_ASSIGN(const bool has_member, reader.next(member));
    if (!has_member) break;
    if (count >= kMaxMembers || bytes_ > kMaxTexts) {
      return Error(Errc::kLimit, "the archive of an image has too many members");
    }
    const auto path = archive_path(member.path);
    if (!path.has_value()) {
      return Error(Errc::kDenied, text::cat(shown(member.path), ": a path out of the archive"));
    }
    SBX_TRY(take(reader, member, *path, on_layer));
  }
  // So that whoever writes into a pipe is not cut off.
  while (true) {
    SBX_ASSIGN(const std::span<const std::byte> rest, input());
    if (rest.empty()) return {};
  }
}

Status ImageArchive::take(archive::ArchiveReader& reader,
                          const Member& member,
                          const std::string& path,
                          const OnLayer& on_layer) {
  if (member.type == MemberType::kSymlink || member.type == MemberType::kHardLink) {
    const std::size_t slash = path.rfind('/');
    const bool is_relative = member.type == MemberType::kSymlink && slash != std::string::npos;
    const auto target = archive_path(is_relative ? joined(path.substr(0, slash), member.link)
                                                 : std::string(member.link));
    bytes_ += path.size() + member.link.size();
    if (target.has_value()) links_[path] = *target;
    return {};
  }
  if (member.type != MemberType::kFile) return {};
  Content bytes(reader);
  Peekable content([&bytes] { return bytes.next(); });
  SBX_ASSIGN(const std::string_view head, content.peek(kHead));
  if (is_json(head)) return keep_text(member, path, content);
  const archive::Compression compression = archive::compression_of(head);
  if (compression == archive::Compression::kNone && !archive::is_tar_header(head)) return {};
  bytes_ += path.size();
  if (!layers_.insert(path).second) {
    return Error(Errc::kProtocol, text::cat(shown(path), ": it is there twice"));
  }
  if (!on_layer) return {};
  return on_layer(path, compression, content);
}

Status ImageArchive::keep_text(const Member& member, const std::string& path, Peekable& content) {
  // Long ones say something about an image (what is in it, who built it), not what it is.
  const bool is_needed = path == "index.json" || path == "manifest.json";
  if (member.size > kMaxText && !is_needed) return {};
  if (member.size > kMaxText || bytes_ + member.size > kMaxTexts) {
    return Error(Errc::kLimit, text::cat(shown(path), ": too long a text"));
  }
  std::string text;
  while (true) {
    SBX_ASSIGN(const std::span<const std::byte> bytes, content.next());
    if (bytes.empty()) break;
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  bytes_ += path.size() + text.size();
  if (!texts_.emplace(path, std::move(text)).second) {
    return Error(Errc::kProtocol, text::cat(shown(path), ": it is there twice"));
  }
  return {};
}

std::string ImageArchive::resolve(std::string path) const {
  for (int i = 0; i < kMaxLinks; ++i) {
    const auto at = links_.find(path);
    if (at == links_.end()) break;
    path = at->second;
  }
  return path;
}

FindText ImageArchive::find_text() const {
  return [this](const std::string& path) -> Result<std::optional<std::string>> {
    const auto at = texts_.find(resolve(path));
    if (at == texts_.end()) return std::optional<std::string>();
    return std::optional(at->second);
  };
}

bool is_image_archive(std::string_view head) {
  bool is_given = false;
  auto reader = archive::ArchiveReader::open([&]() -> Result<std::span<const std::byte>> {
    if (std::exchange(is_given, true)) return std::span<const std::byte>();
    return std::as_bytes(std::span(head.data(), head.size()));
  });
  if (!reader.ok()) return false;
  Member member;
  while (true) {
    const auto has_member = reader.value().next(member);
    if (!has_member.ok() || !has_member.value()) return false;
    const auto path = archive_path(member.path);
    if (!path.has_value()) return false;
    if (!path->empty()) return is_image_path(*path);
  }
}

}  // namespace sbx::image
