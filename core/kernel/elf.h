// ELF: what we need to know of 64-bit ELF files for x86-64: whether a kernel can be booted by its
// PVH entry, what a module says of itself, which build a program is. Pure; every offset in the file
// may be a lie.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace sbx::kernel {

/// Whether `file` (all of it, or what its program headers and notes lie in) is a kernel that QEMU
/// can start without a boot loader: an executable with the note XEN_ELFNOTE_PHYS32_ENTRY.
/// kProtocol when it is no such ELF file, kUnsupported without that entry.
Status check_vmlinux(std::string_view file);

/// The content of the section .modinfo of a kernel module: "key=value" texts, each ended by NUL.
/// A view into `file`. kProtocol when there is none.
Result<std::string_view> modinfo(std::string_view file);

/// The GNU build id of a program in hex; nullopt when it has none. Its first 64 KiB are enough.
std::optional<std::string> build_id(std::string_view file);

/// Whether the program needs a dynamic linker (PT_INTERP). False for what is no ELF file.
bool has_interpreter(std::string_view file);

}  // namespace sbx::kernel
