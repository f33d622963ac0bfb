// Install: see install.h.
//
// Theory of operation
//  1. apt is asked which package it is; one that is here already is not fetched again, and one that
//     does not fit is not fetched at all. It comes into a hidden directory that goes at the end.
//  2. The file is read into memory, every part with a bound, and judged.
//  3. The kernel is written into another hidden directory, which gets its name under the lock.
#include "core/kernel/install.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/image/budget.h"
#include "core/image/record.h"
#include "core/kernel/apt.h"
#include "core/kernel/bzimage.h"
#include "core/kernel/deb.h"
#include "core/kernel/elf.h"
#include "core/kernel/garbage.h"
#include "core/kernel/package.h"
#include "core/kernel/place.h"

namespace sbx::kernel {

namespace {

constexpr mode_t kFileMode = 0444;
constexpr std::uint64_t kMega = std::uint64_t{1} << 20U;

constexpr std::size_t kHeadSize = 1024;

Result<std::size_t> read_head(int fd, std::span<char> out) {
  std::size_t size = 0;
  while (size < out.size()) {
    SBX_ASSIGN(const std::size_t got, sys::read(fd, out.data() + size, out.size() - size));
    if (got == 0) break;
    size += got;
  }
  return size;
}

/// A kernel without its modules, of which nothing is known.
Result<Parts> read_bare(int fd) {
  Parts parts;
  SBX_ASSIGN(parts.image, sys::read_all(fd, kMostKernel));
  parts.features = Features{.is_known = false,
                            .has_blk = true,
                            .has_9p = true,
                            .has_overlay = true,
                            .has_ext4 = true,
                            .has_erofs = true,
                            .has_rng = true,
                            .has_balloon = true};
  return parts;
}

enum class FileKind : std::uint8_t { kOther, kPackage, kKernel };

FileKind kind_of(std::string_view head) {
  constexpr std::string_view kElf("\x7f\x45LF", 4);
  if (head.starts_with(kArMagic)) return FileKind::kPackage;
  return head.starts_with(kElf) || is_bzimage(head) ? FileKind::kKernel : FileKind::kOther;
}

Result<Parts> read_file(const std::string& path) {
  // Not waiting for the writer of a FIFO.
  SBX_ASSIGN(const UniqueFd file, sys::open(path, O_RDONLY | O_NONBLOCK));
  SBX_ASSIGN(const struct stat st, sys::fstat(file.get()));
  if (!S_ISREG(st.st_mode)) return Error(Errc::kUsage, "it is no regular file");
  std::array<char, kHeadSize> head{};
  SBX_ASSIGN(const std::size_t size, read_head(file.get(), head));
  switch (kind_of(std::string_view(head.data(), size))) {
    case FileKind::kPackage:
      return read_package(path);
    case FileKind::kKernel:
      if (::lseek(file.get(), 0, SEEK_SET) == -1) return sys_error(text::cat("seek in ", path));
      return read_bare(file.get());
    case FileKind::kOther:
      break;
  }
  return Error(Errc::kProtocol, "it is neither a Debian package nor a kernel for x86-64")
      .with_hint("a file like linux-image-*.deb, vmlinuz-* or vmlinux");
}

/// Puts the ELF file in the place of the image that it is packed in.
Status unpack_image(Parts& parts) {
  std::string release;
  if (is_bzimage(parts.image)) {
    SBX_ASSIGN(const BzImage image, read_bzimage(parts.image));
    release = image.release;
    SBX_ASSIGN(std::string plain, unpack_payload(image.payload));
    parts.image = std::move(plain);
  }
  SBX_TRY(check_vmlinux(parts.image));
  if (release.empty() && parts.release.empty()) release = release_of_vmlinux(parts.image);
  if (parts.release.empty()) parts.release = release;
  return {};
}

std::string id_of(const Parts& parts) {
  Sha256 digest;
  const auto add = [&digest](std::string_view name, std::string_view content) {
    digest.update(text::cat(name, "\n", content.size(), "\n"));
    digest.update(content);
  };
  add("vmlinux", parts.image);
  for (const ModuleFile& module : parts.modules) {
    add(module.name, module.content);
  }
  return digest.hex();
}

Status write_file(int dir, const std::string& name, std::string_view content) {
  SBX_ASSIGN(const UniqueFd file,
             sys::openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  SBX_TRY(sys::write_all(file.get(), content));
  SBX_TRY(sys::fchmod(file.get(), kFileMode));
  return sys::fsync(file.get());
}

Status write_parts(int dir, const Parts& parts, const Record& record) {
  SBX_TRY(write_file(dir, "vmlinux", parts.image));
  {
    const fs::OwnerUmask mask;
    SBX_TRY(sys::mkdirat(dir, "modules", 0755));
  }
  SBX_ASSIGN(const UniqueFd modules,
             sys::openat(dir, "modules", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_TRY(sys::fchmod(modules.get(), 0755));
  std::string order;
  for (const ModuleFile& module : parts.modules) {
    SBX_TRY(write_file(modules.get(), module.name, module.content));
    order += module.name + "\n";
  }
  SBX_TRY(sys::fsync(modules.get()));
  SBX_TRY(write_file(dir, "order", order));
  if (!parts.config.empty()) SBX_TRY(write_file(dir, "config", parts.config));
  return write_file(dir, "record.json", to_json(record));
}

std::vector<std::string> warnings_of(const Kernel& kernel) {
  std::vector<std::string> out = lacking(kernel.features());
  if (kernel.features().is_known) return out;
  out.push_back(text::cat(kernel.name(),
                          " has no modules here: it works only if virtio_mmio, virtio_console, "
                          "virtio_blk, overlay, ext4, erofs and 9p are built into it"));
  return out;
}

class Installer {
 public:
  Installer(const std::string& state_dir, const InstallRequest& request)
      : state_(state_dir), request_(request) {}

  Result<Installed> run() {
    if (!request_.name.empty()) SBX_TRY(check_name(request_.name));
    SBX_ASSIGN(kernels_, open_kernels_dir(state_));
    sweep_abandoned(state_);
    if (!request_.from.empty()) {
      return put(request_.from, text::cat("file ", request_.from));
    }
    return run_apt();
  }

 private:
  void tell(const std::string& what) const {
    if (request_.tell) request_.tell(what);
  }

  Result<Installed> run_apt() {
    if (image::host_architecture() != "amd64") {
      return Error(Errc::kUnsupported, "virtual machines need a host with an x86-64 processor");
    }
    std::string name = request_.package;
    if (name.empty()) name = request_.is_cloud ? "linux-image-cloud-amd64" : "linux-image-amd64";
    SBX_ASSIGN(const AptPackage package, ask_apt(name));
    const std::string source = text::cat("apt ", package.name, " ", package.version);
    if (auto there = find_source(source)) return *std::move(there);
    // What comes out of it has to fit as well.
    constexpr std::uint64_t kUnpacked = 80 * kMega;
    SBX_TRY(image::check_budget(state_, Bytes{package.bytes + kUnpacked}));
    SBX_ASSIGN(const Draft draft, Draft::make(kernels_.get(), kernels_dir(state_)));
    const std::string size = package.bytes == 0
                                 ? std::string()
                                 : text::cat(" (", (package.bytes + kMega - 1) / kMega, "M)");
    tell(text::cat("downloading ", package.name, " ", package.version, size));
    SBX_ASSIGN(const std::string file, download(package, draft.path()));
    return put(file, source);
  }

  /// The kernel that came from there, when it has the name that is wanted.
  std::optional<Installed> find_source(const std::string& source) const {
    std::vector<std::string> problems;
    for (Kernel& kernel : list(state_, {}, problems)) {
      const bool is_it =
          kernel.record.source == source &&
          kernel.name() == (request_.name.empty() ? kernel.record.release : request_.name);
      if (!is_it) continue;
      Installed out{.kernel = std::move(kernel), .is_new = false, .warnings = {}};
      out.warnings = warnings_of(out.kernel);
      return out;
    }
    return std::nullopt;
  }

  Result<Installed> put(const std::string& path, const std::string& source) {
    auto parts = read_parts(path);
    if (!parts.ok()) return std::move(parts).error().prefixed(text::escape(path));
    SBX_ASSIGN(Record record, record_of(parts.value(), source));
    if (auto same = find_same(record)) return *std::move(same);
    const std::uint64_t bytes = record.vmlinux_bytes + record.modules_bytes + kMega;
    SBX_TRY(image::check_budget(state_, Bytes{bytes}));
    SBX_ASSIGN(Draft draft, Draft::make(kernels_.get(), kernels_dir(state_)));
    SBX_TRY(write_parts(draft.fd(), parts.value(), record));
    {
      SBX_ASSIGN(const UniqueFd lock, take_lock(kernels_.get()));
      SBX_TRY(draft.commit(record.name));
    }
    SBX_ASSIGN(Kernel kernel, find(state_, record.name));
    Installed out{.kernel = std::move(kernel), .is_new = true, .warnings = {}};
    out.warnings = warnings_of(out.kernel);
    return out;
  }

  Result<Parts> read_parts(const std::string& path) const {
    tell("unpacking the kernel");
    SBX_ASSIGN(Parts parts, read_file(path));
    SBX_TRY(unpack_image(parts));
    return parts;
  }

  Result<Record> record_of(const Parts& parts, const std::string& source) const {
    Record record;
    record.release = parts.release;
    record.name = request_.name.empty() ? parts.release : request_.name;
    if (record.name.empty()) {
      return Error(Errc::kUsage, "the kernel does not say its release").with_hint("--name NAME");
    }
    if (Status name = check_name(record.name); !name.ok()) {
      return std::move(name).error().with_hint("give it another one: --name NAME");
    }
    record.source = source;
    record.created_ns = realtime_ns();
    record.vmlinux_bytes = parts.image.size();
    for (const ModuleFile& module : parts.modules) {
      record.modules.push_back(module.name);
      record.modules_bytes += module.content.size();
    }
    record.features = parts.features;
    record.id = id_of(parts);
    return record;
  }

  /// The kernel of that name, when it has the same content from the same place.
  std::optional<Installed> find_same(const Record& record) const {
    std::vector<std::string> problems;
    for (Kernel& kernel : list(state_, {}, problems)) {
      const Record& other = kernel.record;
      const bool is_same =
          other.name == record.name && other.id == record.id && other.source == record.source;
      if (!is_same) continue;
      Installed out{.kernel = std::move(kernel), .is_new = false, .warnings = {}};
      out.warnings = warnings_of(out.kernel);
      return out;
    }
    return std::nullopt;
  }

  std::string state_;
  const InstallRequest& request_;
  UniqueFd kernels_;
};

}  // namespace

Result<Installed> install(const std::string& state_dir, const InstallRequest& request) {
  auto installed = Installer(state_dir, request).run();
  if (!installed.ok()) return std::move(installed).error().prefixed("install a kernel");
  return installed;
}

}  // namespace sbx::kernel
