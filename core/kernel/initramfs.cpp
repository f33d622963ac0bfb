// Initramfs: see initramfs.h.
//
// Theory of operation
//  1. The name is made of the program's build id (its content, where it has none) and the kernel's
//     id, so that finding a file that is there costs no reading of either.
//  2. A new one is written under a hidden name, locked, flushed, and renamed. Two who make the same
//     one do so side by side; the later one replaces equal content.
#include "core/kernel/initramfs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "core/base/fs.h"
#include "core/base/scope_exit.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/budget.h"
#include "core/kernel/cpio.h"
#include "core/kernel/elf.h"
#include "core/kernel/place.h"

namespace sbx::kernel {

namespace {

constexpr const char* kSelf = "/proc/self/exe";
constexpr std::string_view kSuffix = ".cpio";
/// Changes when the same program and kernel are to give another file.
constexpr std::string_view kLayout = "sbx initramfs 1\n";
constexpr std::size_t kBlock = std::size_t{256} << 10U;
constexpr std::size_t kHead = std::size_t{64} << 10U;
constexpr std::uint64_t kMostProgram = std::uint64_t{256} << 20U;
constexpr mode_t kFileMode = 0444;
constexpr std::uint32_t kProgramMode = S_IFREG | 0755;
constexpr std::uint32_t kPlainMode = S_IFREG | 0444;
constexpr std::uint32_t kDirMode = S_IFDIR | 0755;

Result<std::string> read_head(int fd) {
  std::string head(kHead, '\0');
  std::size_t size = 0;
  while (size < head.size()) {
    SBX_ASSIGN(const std::size_t got, sys::read(fd, head.data() + size, head.size() - size));
    if (got == 0) break;
    size += got;
  }
  head.resize(size);
  return head;
}

enum class MustRun : bool { kNo, kYes };

/// What tells this program from others.
Result<std::string> program_id(const std::string& program, MustRun must_run) {
  SBX_ASSIGN(const UniqueFd file, sys::open(program, O_RDONLY));
  SBX_ASSIGN(const std::string head, read_head(file.get()));
  if (must_run == MustRun::kYes && has_interpreter(head)) {
    return Error(Errc::kUnsupported, "this sbx needs a dynamic linker, so that no guest can run it")
        .with_hint("take one that was built with SBX_STATIC=ON");
  }
  if (auto id = build_id(head)) return text::cat("build ", *id);
  Sha256 digest;
  digest.update(head);
  std::string block(kBlock, '\0');
  while (true) {
    SBX_ASSIGN(const std::size_t got, sys::read(file.get(), block.data(), block.size()));
    if (got == 0) break;
    digest.update(std::string_view(block).substr(0, got));
  }
  return text::cat("sha256 ", digest.hex());
}

std::string file_name(const std::string& program, const Kernel& kernel) {
  Sha256 digest;
  digest.update(text::cat(kLayout, program, "\n", kernel.record.id, "\n"));
  return digest.hex().append(kSuffix);
}

/// Writes members one after the other.
class Writer {
 public:
  explicit Writer(int out) : out_(out) {}

  Status dir(std::string_view name) { return put({.name = name, .mode = kDirMode}, {}); }
  Status device(std::string_view name, std::uint32_t mode, unsigned major, unsigned minor) {
    return put({.name = name, .mode = S_IFCHR | mode, .device_major = major, .device_minor = minor},
               {});
  }
  Status text(std::string_view name, std::string_view content) {
    return put(
        {.name = name, .mode = kPlainMode, .size = static_cast<std::uint32_t>(content.size())},
        content);
  }
  Status file(std::string_view name, std::uint32_t mode, int in) {
    SBX_ASSIGN(const struct stat st, sys::fstat(in));
    const auto size = static_cast<std::uint64_t>(st.st_size);
    if (!S_ISREG(st.st_mode) || size > kMostProgram) {
      return Error(Errc::kLimit, text::cat(name, ": no file of at most 256M"));
    }
    SBX_TRY(put({.name = name, .mode = mode, .size = static_cast<std::uint32_t>(size)}, {}));
    std::string block(kBlock, '\0');
    for (std::uint64_t left = size; left > 0;) {
      const std::size_t most = std::min<std::uint64_t>(left, block.size());
      SBX_ASSIGN(const std::size_t got, sys::read(in, block.data(), most));
      if (got == 0) return Error(Errc::kProtocol, text::cat(name, ": it became shorter"));
      SBX_TRY(sys::write_all(out_, std::string_view(block).substr(0, got)));
      left -= got;
    }
    return sys::write_all(out_, cpio_padding(size));
  }
  Status end() { return sys::write_all(out_, cpio_end()); }

 private:
  Status put(CpioMember member, std::string_view content) {
    member.number = ++number_;
    SBX_TRY(sys::write_all(out_, cpio_header(member)));
    SBX_TRY(sys::write_all(out_, content));
    return sys::write_all(out_, cpio_padding(content.size()));
  }

  int out_;
  std::uint32_t number_ = 0;
};

Status write_all_of_it(int out, const Kernel& kernel, const std::string& program) {
  Writer writer(out);
  for (const std::string_view dir : {"dev", "proc", "sys", "new", "modules"}) {
    SBX_TRY(writer.dir(dir));
  }
  // What the kernel opens as standard input and output of /init.
  SBX_TRY(writer.device("dev/console", 0600, 5, 1));
  SBX_TRY(writer.device("dev/null", 0666, 1, 3));
  SBX_ASSIGN(const UniqueFd init, sys::open(program, O_RDONLY));
  SBX_TRY(writer.file("init", kProgramMode, init.get()));
  std::string order;
  if (!kernel.record.modules.empty()) {
    SBX_ASSIGN(const UniqueFd dir, fs::open_dir(kernel.modules_dir));
    for (const std::string& name : kernel.record.modules) {
      SBX_ASSIGN(const UniqueFd file, sys::openat(dir.get(), name, O_RDONLY | O_NOFOLLOW));
      SBX_TRY(writer.file("modules/" + name, kPlainMode, file.get()));
      order += name + "\n";
    }
  }
  SBX_TRY(writer.text("modules/order", order));
  return writer.end();
}

Result<UniqueFd> open_dir(const std::string& state_dir) {
  SBX_ASSIGN(const UniqueFd kernels, open_kernels_dir(state_dir));
  const fs::OwnerUmask mask;
  if (Status made = sys::mkdirat(kernels.get(), kInitramfsDir, 0755);
      !made.ok() && made.error().code() != Errc::kExists) {
    return std::move(made).error();
  }
  return sys::openat(kernels.get(), kInitramfsDir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Status make(const std::string& state_dir,
            const Kernel& kernel,
            const std::string& program,
            const std::string& name) {
  SBX_ASSIGN(const UniqueFd dir, open_dir(state_dir));
  SBX_ASSIGN(const struct stat st, sys::fstatat(AT_FDCWD, program, 0));
  const auto size = static_cast<std::uint64_t>(st.st_size) + kernel.record.modules_bytes + kBlock;
  SBX_TRY(image::check_budget(state_dir, Bytes{size}));
  const std::string temp = text::cat(kTempPrefix, fs::random_name(12));
  SBX_ASSIGN(const UniqueFd out,
             sys::openat(dir.get(), temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  ScopeExit undo([&] { static_cast<void>(sys::unlinkat(dir.get(), temp)); });
  if (::flock(out.get(), LOCK_EX | LOCK_NB) != 0) return sys_error("lock the initramfs");
  SBX_TRY(write_all_of_it(out.get(), kernel, program));
  SBX_TRY(sys::fchmod(out.get(), kFileMode));
  SBX_TRY(sys::fsync(out.get()));
  SBX_TRY(sys::renameat(dir.get(), temp, dir.get(), name));
  undo.cancel();
  return sys::fsync(dir.get());
}

}  // namespace

Result<std::string> initramfs(const std::string& state_dir, const Kernel& kernel) {
  return initramfs(state_dir, kernel, kSelf);
}

Result<std::string> initramfs(const std::string& state_dir,
                              const Kernel& kernel,
                              const std::string& program) {
  auto id = program_id(program, MustRun::kYes);
  if (!id.ok()) return std::move(id).error();
  const std::string name = file_name(id.value(), kernel);
  std::string path = text::cat(kernels_dir(state_dir), "/", kInitramfsDir, "/", name);
  // Touched: gc leaves alone what was asked for lately.
  if (::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) return path;
  if (errno != ENOENT) return sys_error(path);
  if (Status made = make(state_dir, kernel, program, name); !made.ok()) {
    return std::move(made).error().prefixed("make the initramfs of a guest");
  }
  return path;
}

Result<std::vector<std::string>> current_initramfs(const std::vector<Kernel>& kernels) {
  std::vector<std::string> out;
  SBX_ASSIGN(const std::string id, program_id(kSelf, MustRun::kNo));
  for (const Kernel& kernel : kernels) {
    out.push_back(file_name(id, kernel));
  }
  return out;
}

}  // namespace sbx::kernel
