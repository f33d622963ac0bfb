// Layer path: see layer_path.h.
#include "core/image/layer_path.h"

#include <vector>

#include "core/base/text.h"

namespace sbx::image {

namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kIgnored = ".wh..wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::size_t kMaxName = 255;   // NAME_MAX
constexpr std::size_t kMaxShown = 300;  // bytes of a path in a message

Result<std::vector<std::string_view>> components(std::string_view path, std::size_t depth) {
  std::vector<std::string_view> parts;
  for (const std::string_view part : text::split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      return Error(Errc::kDenied, text::cat(shown(path), ": a path with \"..\" in it"));
    }
    if (part.size() > kMaxName) {
      return Error(Errc::kLimit,
                   text::cat(shown(path), ": a name has more than ", kMaxName, " bytes"));
    }
    if (parts.size() > depth) {
      return Error(Errc::kLimit,
                   text::cat(shown(path), ": more than ", depth, " directories deep"));
    }
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

std::string MemberPath::full() const {
  return joined(dir, name);
}

std::string joined(std::string_view dir, std::string_view name) {
  return dir.empty() ? std::string(name) : text::cat(dir, "/", name);
}

std::string shown(std::string_view path) {
  if (path.size() <= kMaxShown) return text::escape(path);
  return text::cat(text::escape(path.substr(0, kMaxShown)), "...");
}

Result<MemberPath> member_path(std::string_view path, std::size_t depth) {
  SBX_ASSIGN(const std::vector<std::string_view> parts, components(path, depth));
  MemberPath found;
  if (parts.empty()) return found;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (parts[i].starts_with(kIgnored)) {
      found.marker = Marker::kIgnored;
      return found;
    }
    if (parts[i].starts_with(kWhiteout)) {
      return Error(Errc::kDenied, text::cat(shown(path), ": a member below a whiteout"));
    }
    found.dir = joined(found.dir, parts[i]);
  }
  found.name = parts.back();
  if (found.name == kOpaque) {
    found.marker = Marker::kOpaque;
    found.name.clear();
  } else if (found.name.starts_with(kIgnored)) {
    found.marker = Marker::kIgnored;
  } else if (found.name.starts_with(kWhiteout)) {
    found.marker = Marker::kWhiteout;
    found.name.erase(0, kWhiteout.size());
    if (found.name.empty() || found.name == "." || found.name == "..") {
      return Error(Errc::kDenied, text::cat(shown(path), ": a whiteout of no name"));
    }
  }
  return found;
}

Result<std::string> link_target(std::string_view path, std::size_t depth) {
  SBX_ASSIGN(const std::vector<std::string_view> parts, components(path, depth));
  if (parts.empty()) return Error(Errc::kDenied, "a hard link to the root");
  std::string target;
  for (const std::string_view part : parts)
    target = joined(target, part);
  return target;
}

}  // namespace sbx::image
