// Kernel files: small files that look like kernels, modules and their package, made from nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sbx::test {

/// An ELF kernel for x86-64 that says its release and, with `has_pvh`, its PVH entry.
std::string make_vmlinux(std::string_view release, bool has_pvh = true);
/// A kernel module whose .modinfo has these "key=value" texts.
std::string make_module(const std::vector<std::string>& infos);

/// `plain` as a gzip member that does not compress.
std::string make_gzip(std::string_view plain);
/// `plain` in the lz4 frames that kernels have, not compressed, with its size behind.
std::string make_old_lz4(std::string_view plain);
/// A bzImage with that payload.
std::string make_bzimage(std::string_view payload, std::string_view release);

using Files = std::vector<std::pair<std::string, std::string>>;  // path, content
/// An ustar file of regular files.
std::string make_tar(const Files& files);
/// A Debian package whose data.tar is `data`, called "data.tar" and `ending`.
std::string make_deb(std::string_view data, std::string_view ending = "");
/// What the package of a kernel with a guest's modules has in it.
Files kernel_package(std::string_view release);

/// The package of a Debian kernel: SBX_TEST_KERNEL_DEB, or the one that the emulated suite fetched;
/// empty when there is none.
std::string kernel_package_file();

}  // namespace sbx::test
