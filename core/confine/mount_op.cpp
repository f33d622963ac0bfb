// Mount steps: see mount_op.h.
#include "core/confine/mount_op.h"

#include <array>
#include <cstdio>

#include "core/base/text.h"

namespace sbx::confine {

namespace {

std::string octal(uint32_t mode) {
  std::array<char, 16> buffer{};
  (void)std::snprintf(buffer.data(), buffer.size(), "%04o", mode);
  return buffer.data();
}

std::string owner_text(int32_t owner) {
  return owner == kKeepOwner ? std::string() : " owner " + std::to_string(owner);
}

std::string_view kind_text(BindKind kind) {
  switch (kind) {
    case BindKind::kDir:
      return "tree";
    case BindKind::kFile:
      return "file";
    case BindKind::kDevice:
      return "device";
  }
  return "?";
}

struct ToText {
  std::string operator()(const NewRoot& s) const {
    return text::cat("new-root tmpfs size ", to_string(s.size));
  }
  std::string operator()(const KeptRoot& s) const {
    return text::cat("new-root kept directory ", text::escape(s.source), " ro");
  }
  std::string operator()(const MakeDir& s) const {
    return text::cat("mkdir ", text::escape(s.path), " mode ", octal(s.mode), owner_text(s.owner));
  }
  std::string operator()(const MakeFile& s) const {
    return text::cat("file ",
                     text::escape(s.path),
                     " mode ",
                     octal(s.mode),
                     " bytes ",
                     std::to_string(s.content.size()));
  }
  std::string operator()(const MakeLink& s) const {
    return text::cat("link ", text::escape(s.path), " -> ", text::escape(s.target));
  }
  std::string operator()(const Bind& s) const {
    return text::cat("bind ",
                     s.mode == BindMode::kReadOnly ? "ro " : "rw ",
                     kind_text(s.kind),
                     " ",
                     text::escape(s.source),
                     " on ",
                     text::escape(s.path));
  }
  std::string operator()(const Scratch& s) const {
    std::string out = text::cat("scratch ",
                                s.source_fd < 0 ? "tmpfs" : "image",
                                " size ",
                                to_string(s.size),
                                " inodes ",
                                std::to_string(s.inodes),
                                " on");
    for (const ScratchDir& dir : s.dirs) {
      out +=
          text::cat(" ", text::escape(dir.path), "(", octal(dir.mode), owner_text(dir.owner), ")");
    }
    return out;
  }
  std::string operator()(const Proc& s) const { return text::cat("proc on ", s.path); }
  std::string operator()(const DevPts& s) const { return text::cat("devpts on ", s.path); }
  std::string operator()(const Mask& s) const { return text::cat("mask ", s.path); }
  std::string operator()(const Freeze& s) const { return text::cat("read-only ", s.path); }
  std::string operator()(const ForbidUserNamespaces& /*s*/) const {
    return "forbid user namespaces";
  }
  std::string operator()(const Hostname& s) const {
    return text::cat("hostname ", text::escape(s.name));
  }
  std::string operator()(const Loopback& /*s*/) const { return "loopback up"; }
  std::string operator()(const ShowCgroup& s) const { return text::cat("cgroup2 on ", s.path); }
  std::string operator()(const EnterRoot& s) const {
    return s.is_writable ? "enter root, writable" : "enter root";
  }
  std::string operator()(const Stage& s) const {
    std::string out = "stage";
    for (size_t i = 0; i < s.dirs.size(); ++i) {
      out += text::cat(" ", std::to_string(i), "=", text::escape(s.dirs[i].source));
    }
    return out;
  }
  std::string operator()(const Overlay& s) const {
    std::string out = text::cat("overlay on ", text::escape(s.path), " of");
    for (const OverlayLayer& lower : s.lowers) {
      out += text::cat(" ", std::to_string(lower.dir), lower.sub.empty() ? "" : "/", lower.sub);
    }
    if (s.upper < 0) return out + " changes in scratch";
    return text::cat(out, " changes in ", std::to_string(s.upper), "/fs/", s.part);
  }
  std::string operator()(const Place& s) const {
    const std::string path = text::escape(s.path);
    switch (s.kind) {
      case PlaceKind::kDir:
        return text::cat("place dir ", path, " mode ", octal(s.mode), owner_text(s.owner));
      case PlaceKind::kFile:
        return text::cat("place file ", path, " mode ", octal(s.mode));
      case PlaceKind::kLink:
        return text::cat("place link ", path, " -> ", text::escape(s.target));
    }
    return "?";
  }
  std::string operator()(const Tmpfs& s) const {
    return text::cat("tmpfs on ", s.path, " size ", to_string(s.size));
  }
  std::string operator()(const Seal& s) const { return text::cat("seal ", s.path); }
  std::string operator()(const ScratchSpace& s) const {
    return text::cat("scratch space ",
                     s.source_fd < 0 ? "tmpfs" : "image",
                     " size ",
                     to_string(s.size),
                     " inodes ",
                     std::to_string(s.inodes));
  }
  std::string operator()(const Lead& s) const {
    return text::cat("find ",
                     s.kind == PlaceKind::kDir ? "dir " : "file ",
                     text::escape(s.path),
                     s.is_optional ? ", or go without" : "");
  }
};

}  // namespace

std::string to_text(const Step& step) {
  return std::visit(ToText{}, step);
}

}  // namespace sbx::confine
