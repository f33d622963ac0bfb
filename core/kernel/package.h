// Package: what a guest needs of a kernel's Debian package: the kernel, its config and the modules
// that wanted_modules() and their dependencies are.
//
// One pass over the package is enough when likely_modules() names all dependencies; what is found
// to be missing is read in further passes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/kernel/record.h"

namespace sbx::kernel {

struct ModuleFile {
  std::string name;     ///< "virtio-rng.ko"
  std::string content;  ///< unpacked
};

/// A kernel on its way into the store.
struct Parts {
  std::string release;
  std::string image;                ///< a bzImage or an ELF file
  std::string config;               ///< empty: not known
  std::vector<ModuleFile> modules;  ///< in the order in which they are loaded
  Features features;
};

/// Reads the package at `path`. kProtocol when it is none or holds no kernel, kUnsupported when a
/// guest could not work with what it holds, kLimit for sizes no kernel has. Blocks, for seconds.
Result<Parts> read_package(const std::string& path);

}  // namespace sbx::kernel
