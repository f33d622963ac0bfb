// Kernel files: see kernel_files.h.
#include "tests/support/kernel_files.h"

#include <elf.h>

#include <cstdlib>
#include <cstring>

#include "tests/support/user.h"

namespace sbx::test {

namespace {

template <typename T>
void add(std::string& out, const T& value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  out += bytes;
}

template <typename T>
void put(std::string& out, std::size_t offset, T value) {
  std::memcpy(out.data() + offset, &value, sizeof(T));
}

Elf64_Ehdr elf_header(std::uint16_t type) {
  Elf64_Ehdr header{};
  std::memcpy(static_cast<unsigned char*>(header.e_ident), ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = type;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  return header;
}

std::uint32_t crc32(std::string_view bytes) {
  constexpr std::uint32_t kPolynomial = 0xedb88320;
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
    }
  }
  return ~crc;
}

std::string octal(std::uint64_t value, int width) {
  std::string out;
  for (int i = 0; i < width; ++i) {
    out.insert(out.begin(), static_cast<char>('0' + (value & 7U)));
    value >>= 3U;
  }
  return out;
}

void add_ar_member(std::string& out, std::string_view name, std::string_view content) {
  std::string header(60, ' ');
  header.replace(0, name.size(), name);
  header.replace(16, 1, "0");
  header.replace(28, 1, "0");
  header.replace(34, 1, "0");
  header.replace(40, 6, "100644");
  const std::string size = std::to_string(content.size());
  header.replace(48, size.size(), size);
  header.replace(58, 2, "`\n");
  out += header;
  out += content;
  if (content.size() % 2 != 0) out += '\n';
}

}  // namespace

std::string make_vmlinux(std::string_view release, bool has_pvh) {
  std::string note;
  add(note, Elf64_Nhdr{4, 8, 18});
  note += std::string("Xen\0", 4);
  add(note, std::uint64_t{0x1000000});
  Elf64_Ehdr header = elf_header(ET_EXEC);
  header.e_phoff = sizeof(Elf64_Ehdr);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = has_pvh ? PT_NOTE : PT_LOAD;
  segment.p_offset = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
  segment.p_filesz = note.size();
  std::string out;
  add(out, header);
  add(out, segment);
  out += note;
  out += "Linux version %s";  // as the kernel's printk formats have it
  out += std::string(1, '\0');
  out += "Linux version ";
  out += release;
  out += " (somebody@somewhere)\n";
  return out;
}

std::string make_module(const std::vector<std::string>& infos) {
  std::string info;
  for (const std::string& each : infos) {
    info += each;
    info += '\0';
  }
  const std::string names("\0.modinfo\0.shstrtab\0", 20);
  Elf64_Ehdr header = elf_header(ET_REL);
  const std::size_t names_at = sizeof(Elf64_Ehdr);
  const std::size_t info_at = names_at + names.size();
  header.e_shoff = info_at + info.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  std::string out;
  add(out, header);
  out += names;
  out += info;
  add(out, Elf64_Shdr{});
  Elf64_Shdr section{};
  section.sh_name = 1;
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = info_at;
  section.sh_size = info.size();
  add(out, section);
  section.sh_name = 10;
  section.sh_type = SHT_STRTAB;
  section.sh_offset = names_at;
  section.sh_size = names.size();
  add(out, section);
  return out;
}

std::string make_gzip(std::string_view plain) {
  constexpr std::size_t kMostStored = 65535;
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  std::string_view rest = plain;
  do {
    const std::string_view now = rest.substr(0, kMostStored);
    rest.remove_prefix(now.size());
    out += rest.empty() ? '\1' : '\0';
    const auto size = static_cast<std::uint16_t>(now.size());
    add(out, size);
    add(out, static_cast<std::uint16_t>(~size));
    out += now;
  } while (!rest.empty());
  add(out, crc32(plain));
  add(out, static_cast<std::uint32_t>(plain.size()));
  return out;
}

std::string make_old_lz4(std::string_view plain) {
  std::string block;
  block += '\xf0';
  std::size_t left = plain.size() - 15;
  for (; left >= 255; left -= 255) {
    block += '\xff';
  }
  block += static_cast<char>(left);
  block += plain;
  std::string out("\x02\x21\x4c\x18");
  add(out, static_cast<std::uint32_t>(block.size()));
  out += block;
  add(out, static_cast<std::uint32_t>(plain.size()));
  return out;
}

std::string make_bzimage(std::string_view payload, std::string_view release) {
  constexpr std::size_t kSetup = 2 * 512;
  std::string out(kSetup, '\0');
  out[0x1f1] = 1;
  put(out, 0x1fe, std::uint16_t{0xaa55});
  out.replace(0x202, 4, "HdrS");
  put(out, 0x206, std::uint16_t{0x020f});
  put(out, 0x20e, std::uint16_t{0x80});
  put(out, 0x248, std::uint32_t{16});
  put(out, 0x24c, static_cast<std::uint32_t>(payload.size()));
  out.replace(0x280, release.size(), release);
  out.replace(0x280 + release.size(), 5, " (x) ");
  out += std::string(16, 'c');  // code before the payload
  out += payload;
  return out + "behind";
}

std::string make_tar(const Files& files) {
  constexpr std::size_t kBlock = 512;
  std::string out;
  for (const auto& [path, content] : files) {
    std::string header(kBlock, '\0');
    header.replace(0, path.size(), path);
    header.replace(100, 7, "0000644");
    header.replace(108, 7, "0000000");
    header.replace(116, 7, "0000000");
    header.replace(124, 11, octal(content.size(), 11));
    header.replace(136, 11, octal(0, 11));
    header.replace(148, 8, "        ");
    header[156] = '0';
    header.replace(257, 8, std::string("ustar\00000", 8));
    std::uint64_t sum = 0;
    for (const char c : header) {
      sum += static_cast<unsigned char>(c);
    }
    header.replace(148, 7, octal(sum, 6) + '\0');
    out += header + content;
    out.append((kBlock - content.size() % kBlock) % kBlock, '\0');
  }
  return out + std::string(2 * kBlock, '\0');
}

std::string make_deb(std::string_view data, std::string_view ending) {
  std::string out = "!<arch>\n";
  add_ar_member(out, "debian-binary", "2.0\n");
  add_ar_member(out, "control.tar", make_tar({{"./control", "Package: linux-image-test\n"}}));
  add_ar_member(out, "data.tar" + std::string(ending), data);
  return out;
}

Files kernel_package(std::string_view release) {
  const std::string rel(release);
  const std::string dir = "./lib/modules/" + rel + "/kernel/";
  const auto module =
      [](std::string_view name, std::string_view depends, std::string_view softdep) {
        std::vector<std::string> infos{
            "license=GPL", "depends=" + std::string(depends), "name=" + std::string(name)};
        if (!softdep.empty()) infos.push_back("softdep=pre: " + std::string(softdep));
        return make_module(infos);
      };
  return {
      {"./boot/config-" + rel, "CONFIG_SMP=y\n# CONFIG_X is not set\nCONFIG_VIRTIO_MMIO=m\n"},
      {"./boot/vmlinuz-" + rel, make_bzimage(make_gzip(make_vmlinux(release)), release)},
      {dir + "crypto/crc32c_generic.ko",
       make_module({"alias=crc32c", "alias=crypto-crc32c", "depends=", "name=crc32c_generic"})},
      {dir + "drivers/block/virtio_blk.ko", module("virtio_blk", "virtio,virtio_ring", "")},
      {dir + "drivers/char/hw_random/virtio-rng.ko.gz",
       make_gzip(module("virtio_rng", "virtio", ""))},
      {dir + "drivers/char/virtio_console.ko", module("virtio_console", "virtio,virtio_ring", "")},
      {dir + "drivers/gpu/big.ko", "this is no module, and nobody looks at it"},
      {dir + "drivers/virtio/virtio.ko", module("virtio", "virtio_ring", "")},
      {dir + "drivers/virtio/virtio_balloon.ko", module("virtio_balloon", "virtio", "")},
      {dir + "drivers/virtio/virtio_mmio.ko", module("virtio_mmio", "virtio,virtio_ring", "")},
      {dir + "drivers/virtio/virtio_ring.ko", module("virtio_ring", "", "")},
      {dir + "fs/9p/9p.ko", module("9p", "9pnet,rare-one", "")},
      {dir + "fs/erofs/erofs.ko", module("erofs", "libcrc32c", "")},
      {dir + "fs/ext4/ext4.ko", module("ext4", "jbd2", "crypto-crc32c")},
      {dir + "fs/jbd2/jbd2.ko", module("jbd2", "", "crypto-crc32c")},
      {dir + "fs/rare-one.ko", module("rare_one", "", "")},
      {dir + "lib/libcrc32c.ko", module("libcrc32c", "", "crc32c")},
      {dir + "net/9p/9pnet.ko", module("9pnet", "", "")},
      {dir + "net/9p/9pnet_virtio.ko", module("9pnet_virtio", "9pnet,virtio", "")},
      {"./lib/modules/" + rel + "/modules.builtin", "kernel/fs/overlayfs/overlay.ko\n"},
  };
}

std::string kernel_package_file() {
  if (const char* file = std::getenv("SBX_TEST_KERNEL_DEB")) return file;
  const std::string dir = SBX_BUILD_DIR "/vm61";
  if (!exists(dir)) return {};
  for (const std::string& name : names_in(dir)) {
    if (name.starts_with("linux-image-") && name.ends_with(".deb")) return dir + "/" + name;
  }
  return {};
}

}  // namespace sbx::test
