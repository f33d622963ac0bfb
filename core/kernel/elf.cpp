// ELF: see elf.h.
#include "core/kernel/elf.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "core/base/text.h"

namespace sbx::kernel {

namespace {

constexpr std::uint32_t kPvhEntry = 18;  // XEN_ELFNOTE_PHYS32_ENTRY
constexpr std::uint64_t kNoteAlign = 4;

/// The bytes [offset, offset + size) of `file`; nullopt when they are not all there.
std::optional<std::string_view> part(std::string_view file,
                                     std::uint64_t offset,
                                     std::uint64_t size) {
  if (offset > file.size() || size > file.size() - offset) return std::nullopt;
  return file.substr(offset, size);
}

template <typename T>
std::optional<T> load(std::string_view file, std::uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto bytes = part(file, offset, sizeof(T));
  if (!bytes) return std::nullopt;
  T value;
  std::memcpy(&value, bytes->data(), sizeof(T));
  return value;
}

std::optional<Elf64_Ehdr> header_of(std::string_view file) {
  const auto header = load<Elf64_Ehdr>(file, 0);
  if (!header) return std::nullopt;
  const bool is_ours =
      std::memcmp(static_cast<const unsigned char*>(header->e_ident), ELFMAG, SELFMAG) == 0 &&
      header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
      header->e_machine == EM_X86_64;
  if (!is_ours) return std::nullopt;
  return header;
}

/// Those of its program headers that are there.
std::vector<Elf64_Phdr> segments_of(std::string_view file) {
  std::vector<Elf64_Phdr> out;
  const auto header = header_of(file);
  if (!header || header->e_phentsize != sizeof(Elf64_Phdr)) return out;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    if (header->e_phoff > file.size()) break;
    const auto segment = load<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) break;
    out.push_back(*segment);
  }
  return out;
}

constexpr std::uint64_t aligned(std::uint64_t size) {
  return (size + kNoteAlign - 1) / kNoteAlign * kNoteAlign;
}

/// The content of the first note of that owner and type.
std::optional<std::string_view> note_in(std::string_view notes,
                                        std::string_view owner,
                                        std::uint32_t type) {
  while (true) {
    const auto header = load<Elf64_Nhdr>(notes, 0);
    if (!header) return std::nullopt;
    // The sizes have 32 bits: nothing here can overflow.
    const std::uint64_t name_at = sizeof(Elf64_Nhdr);
    const std::uint64_t content_at = name_at + aligned(header->n_namesz);
    const auto name = part(notes, name_at, header->n_namesz);
    const auto content = part(notes, content_at, header->n_descsz);
    if (!name || !content) return std::nullopt;
    const bool is_owner = name->size() == owner.size() + 1 && name->starts_with(owner);
    if (is_owner && header->n_type == type) return content;
    const std::uint64_t next = content_at + aligned(header->n_descsz);
    if (next >= notes.size()) return std::nullopt;
    notes.remove_prefix(next);
  }
}

std::optional<std::string_view> find_note(std::string_view file,
                                          std::string_view owner,
                                          std::uint32_t type) {
  for (const Elf64_Phdr& segment : segments_of(file)) {
    if (segment.p_type != PT_NOTE) continue;
    const auto notes = part(file, segment.p_offset, segment.p_filesz);
    if (!notes) continue;
    if (const auto found = note_in(*notes, owner, type)) return found;
  }
  return std::nullopt;
}

}  // namespace

Status check_vmlinux(std::string_view file) {
  const auto header = header_of(file);
  if (!header || header->e_type != ET_EXEC) {
    return Error(Errc::kProtocol, "it is no 64-bit ELF kernel for x86-64");
  }
  const auto entry = find_note(file, "Xen", kPvhEntry);
  if (entry && (entry->size() == sizeof(std::uint32_t) || entry->size() == sizeof(std::uint64_t))) {
    return {};
  }
  return Error(Errc::kUnsupported, "the kernel has no PVH entry, by which QEMU would start it")
      .with_hint("take a kernel that was built with CONFIG_PVH=y, as Debian's are");
}

Result<std::string_view> modinfo(std::string_view file) {
  constexpr std::string_view kName(".modinfo\0", 9);
  const Error broken(Errc::kProtocol, "it is no kernel module for x86-64");
  const auto header = header_of(file);
  if (!header || header->e_type != ET_REL || header->e_shentsize != sizeof(Elf64_Shdr) ||
      header->e_shoff > file.size()) {
    return broken;
  }
  const auto section = [&](std::uint64_t index) {
    return load<Elf64_Shdr>(file, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  const auto names_section = section(header->e_shstrndx);
  if (!names_section) return broken;
  const auto names = part(file, names_section->sh_offset, names_section->sh_size);
  if (!names) return broken;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto each = section(i);
    if (!each) return broken;
    const auto name = part(*names, each->sh_name, kName.size());
    if (!name || *name != kName || each->sh_type != SHT_PROGBITS) continue;
    const auto content = part(file, each->sh_offset, each->sh_size);
    if (!content) return broken;
    return *content;
  }
  return Error(Errc::kProtocol, "the module says nothing of itself");
}

std::optional<std::string> build_id(std::string_view file) {
  const auto id = find_note(file, "GNU", NT_GNU_BUILD_ID);
  if (!id || id->empty()) return std::nullopt;
  return text::hex(std::as_bytes(std::span(id->data(), id->size())));
}

bool has_interpreter(std::string_view file) {
  for (const Elf64_Phdr& segment : segments_of(file)) {
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

}  // namespace sbx::kernel
