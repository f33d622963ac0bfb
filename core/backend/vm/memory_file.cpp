// Memory file: see memory_file.h.
#include "core/backend/vm/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/sys.h"

namespace sbx::vm {

namespace {

/// The bytes from `offset` on; both files have their own position.
Status copy_part(int from, int to, off_t offset, off_t end) {
  if (::lseek(to, offset, SEEK_SET) < 0) return sys_error("find a place in the copy of the memory");
  off_t at = offset;
  while (at < end) {
    const ssize_t copied = ::sendfile(to, from, &at, static_cast<size_t>(end - at));
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0) return sys_error("copy the memory of a virtual machine");
    if (copied == 0) return Error(Errc::kProtocol, "the memory of a virtual machine is cut short");
  }
  return {};
}

}  // namespace

Result<UniqueFd> make_memory_file(Bytes size) {
  SBX_ASSIGN(UniqueFd file, sys::memfd_create("vm-memory", MFD_ALLOW_SEALING));
  SBX_TRY(sys::ftruncate(file.get(), size));
  // QEMU cannot make a write beyond its end kill us, or fill the host's memory.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return sys_error("seal the size of the memory of a virtual machine");
  }
  return file;
}

Status copy_sparse(int from, int to, Bytes most) {
  SBX_ASSIGN(const struct stat info, sys::fstat(from));
  if (static_cast<uint64_t>(info.st_size) > most.v) {
    return Error(Errc::kProtocol, "the memory of a virtual machine has another size");
  }
  off_t at = 0;
  while (at < info.st_size) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return {};  // nothing but a hole is left
    if (data < 0) return sys_error("look for the memory of a virtual machine");
    const off_t hole = ::lseek(from, data, SEEK_HOLE);
    if (hole < 0) return sys_error("look for the memory of a virtual machine");
    SBX_TRY(copy_part(from, to, data, std::min(hole, info.st_size)));
    at = hole;
  }
  return {};
}

}  // namespace sbx::vm
