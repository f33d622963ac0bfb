// Package: see package.h.
#include "core/kernel/package.h"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "core/archive/archive_reader.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/kernel/bzimage.h"
#include "core/kernel/deb.h"
#include "core/kernel/elf.h"
#include "core/kernel/modules.h"

namespace sbx::kernel {

namespace {

constexpr Bytes kMostModule{std::uint64_t{32} << 20U};
constexpr Bytes kMostList{std::uint64_t{16} << 20U};
constexpr std::uint64_t kMostAllModules = std::uint64_t{128} << 20U;
constexpr int kMostPasses = 6;

/// The path of a member without what differs between packages: "./usr/lib/modules" is
/// "lib/modules".
std::string_view plain_path(std::string_view path) {
  while (path.starts_with("./") || path.starts_with('/')) {
    path.remove_prefix(path.find('/') + 1);
  }
  constexpr std::string_view kUsr = "usr/";
  if (path.starts_with(kUsr)) path.remove_prefix(kUsr.size());
  return path;
}

Result<std::string> read_content(DebReader& deb, const archive::Member& member, Bytes most) {
  const Error too_long(
      Errc::kLimit, text::cat(text::escape(member.path), ": it has more than ", to_string(most)));
  if (member.size > most.v) return too_long;
  std::string out;
  while (true) {
    SBX_ASSIGN(const archive::MemberData part, deb.data());
    if (part.bytes.empty()) break;
    if (part.offset < out.size() || part.offset > most.v ||
        part.bytes.size() > most.v - part.offset) {
      return too_long;
    }
    out.resize(part.offset);
    out.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
  }
  out.resize(member.size);  // a hole at the end
  return out;
}

Result<std::string> unpack_module(std::string packed) {
  const auto how = archive::compression_of(packed);
  if (how == archive::Compression::kNone) return packed;
  bool is_given = false;
  auto feed = [&]() -> Result<std::span<const std::byte>> {
    if (std::exchange(is_given, true)) return std::span<const std::byte>();
    return std::as_bytes(std::span(packed.data(), packed.size()));
  };
  SBX_ASSIGN(archive::Decompressor reader, archive::Decompressor::open(how, feed));
  std::string out;
  while (true) {
    SBX_ASSIGN(const auto block, reader.next());
    if (block.empty()) return out;
    if (block.size() > kMostModule.v - out.size()) {
      return Error(Errc::kLimit, text::cat("it has more than ", to_string(kMostModule)));
    }
    out.append(reinterpret_cast<const char*>(block.data()), block.size());
  }
}

/// Collects, pass by pass.
class Collector {
 public:
  explicit Collector(std::string path) : path_(std::move(path)) {
    for (const WantedModule& each : wanted_modules()) {
      want_.emplace(each.name);
    }
    for (const std::string_view each : likely_modules()) {
      want_.emplace(each);
    }
  }

  Result<Parts> run() {
    ModulePlan plan;
    for (int i = 0; i < kMostPasses && !want_.empty(); ++i) {
      SBX_TRY(pass());
      plan = plan_modules(known_);
      want_ = wanted_next(plan);
    }
    if (parts_.image.empty()) {
      return Error(Errc::kProtocol, "there is no kernel in the package: no boot/vmlinuz-*")
          .with_hint("a kernel's package is called like linux-image-6.1.0-57-amd64");
    }
    if (!plan.vital.empty()) return lacks_vital(plan);
    for (const std::string& name : plan.order) {
      parts_.modules.push_back(std::move(files_.at(name)));
    }
    parts_.features = plan.features;
    return std::move(parts_);
  }

 private:
  Error lacks_vital(const ModulePlan& plan) const {
    return Error(Errc::kUnsupported,
                 text::cat("no guest can be reached with this kernel: it lacks ",
                           text::join(plan.vital, ", ")))
        .with_hint(there_.empty() ? "its modules are in another package; take a kernel that has "
                                    "them in its own, as Debian's"
                                  : "take a full kernel of your distribution: linux-image-amd64");
  }

  Status pass() {
    SBX_ASSIGN(const UniqueFd file, sys::open(path_, O_RDONLY));
    SBX_ASSIGN(DebReader deb, DebReader::open(file.get()));
    archive::Member member;
    while (true) {
      SBX_ASSIGN(const bool is_there, deb.next(member));
      if (!is_there) break;
      if (member.type == archive::MemberType::kFile) SBX_TRY(take(deb, member));
    }
    is_first_ = false;
    return {};
  }

  Status take(DebReader& deb, const archive::Member& member) {
    constexpr std::string_view kModules = "lib/modules/";
    std::string_view path = plain_path(member.path);
    if (path.starts_with("boot/")) return is_first_ ? take_boot(deb, member, path) : Status();
    if (!path.starts_with(kModules)) return {};
    path.remove_prefix(kModules.size());
    const std::size_t slash = path.find('/');
    if (slash == std::string_view::npos) return {};
    SBX_TRY(check_release(path.substr(0, slash)));
    path.remove_prefix(slash + 1);
    if (path.starts_with("kernel/") || path.starts_with("updates/")) {
      return take_module(deb, member, path);
    }
    if (!is_first_) return {};
    if (path == "modules.builtin") {
      SBX_ASSIGN(const std::string text, read_content(deb, member, kMostList));
      known_.builtin = parse_builtin(text);
    } else if (path == "modules.builtin.modinfo") {
      SBX_ASSIGN(const std::string text, read_content(deb, member, kMostList));
      known_.builtin_aliases = parse_builtin_aliases(text);
    } else if (path == "vmlinuz" && parts_.image.empty()) {
      SBX_ASSIGN(parts_.image, read_content(deb, member, kMostKernel));
    } else if (path == "config" && parts_.config.empty()) {
      SBX_TRY(take_config(deb, member));
    }
    return {};
  }

  Status take_boot(DebReader& deb, const archive::Member& member, std::string_view path) {
    for (const std::string_view image : {"boot/vmlinuz-", "boot/vmlinux-"}) {
      if (!path.starts_with(image)) continue;
      SBX_TRY(check_release(path.substr(image.size())));
      SBX_ASSIGN(parts_.image, read_content(deb, member, kMostKernel));
      return {};
    }
    return path.starts_with("boot/config-") ? take_config(deb, member) : Status();
  }

  Status take_config(DebReader& deb, const archive::Member& member) {
    SBX_ASSIGN(parts_.config, read_content(deb, member, kMostList));
    known_.config = parse_config(parts_.config);
    return {};
  }

  /// All that is in it belongs to one kernel.
  Status check_release(std::string_view release) {
    if (parts_.release.empty()) parts_.release = release;
    if (parts_.release == release) return {};
    return Error(Errc::kProtocol,
                 text::cat("the package has several kernels: ",
                           text::escape(parts_.release),
                           " and ",
                           text::escape(release)));
  }

  Status take_module(DebReader& deb, const archive::Member& member, std::string_view path) {
    const std::string name = module_of_path(path);
    if (name.empty()) return {};
    there_.insert(name);
    if (!want_.contains(name) || files_.contains(name) || files_.size() >= kMostModules) return {};
    SBX_ASSIGN(std::string packed, read_content(deb, member, kMostModule));
    auto content = unpack_module(std::move(packed));
    if (!content.ok()) return std::move(content).error().prefixed(text::escape(member.path));
    const auto info = modinfo(content.value());
    if (!info.ok()) return Error(info.error()).prefixed(text::escape(member.path));
    all_bytes_ += content.value().size();
    if (all_bytes_ > kMostAllModules) {
      return Error(Errc::kLimit, "the modules of the kernel have more than 128M");
    }
    known_.modules.emplace(name, parse_modinfo(info.value()));
    path.remove_prefix(path.rfind('/') + 1);
    const std::string_view file = path.substr(0, path.find(".ko") + 3);
    files_.emplace(name, ModuleFile{std::string(file), std::move(content).value()});
    return {};
  }

  /// Of what is missing, what the package has.
  std::set<std::string> wanted_next(const ModulePlan& plan) const {
    constexpr std::string_view kCrypto = "crypto_";
    std::set<std::string> out;
    for (const std::string& missing : plan.missing) {
      std::string_view word = missing;
      if (word.starts_with(kCrypto)) word.remove_prefix(kCrypto.size());
      // The names by which those are called that have such an alias.
      for (const std::string& each : {missing, std::string(word), text::cat(word, "_generic")}) {
        if (there_.contains(each) && !files_.contains(each)) out.insert(each);
      }
    }
    return out;
  }

  std::string path_;
  bool is_first_ = true;
  std::set<std::string> want_;
  std::set<std::string> there_;
  std::map<std::string, ModuleFile> files_;
  std::uint64_t all_bytes_ = 0;
  KnownModules known_;
  Parts parts_;
};

}  // namespace

Result<Parts> read_package(const std::string& path) {
  return Collector(path).run();
}

}  // namespace sbx::kernel
