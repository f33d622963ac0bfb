// Modules: which modules of a kernel a guest needs, and in which order they are loaded. Pure.
//
// Dependencies are read from the modules themselves (the section .modinfo), because packages have
// no modules.dep: depmod(8) makes that where they are installed. Names are compared with '_' for
// '-', as the kernel does.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/kernel/record.h"

namespace sbx::kernel {

/// What a guest has a use for.
struct WantedModule {
  std::string_view name;
  std::string_view config;  ///< "CONFIG_VIRTIO_BLK"
  /// What is there with it; null: a guest does not work at all without it.
  bool Features::*feature = nullptr;
};
std::span<const WantedModule> wanted_modules();
/// What these are known to need, so that a package is mostly read once.
std::span<const std::string_view> likely_modules();

/// With '_' for '-'.
std::string module_name(std::string_view name);
/// The module that the file "…/virtio-rng.ko.xz" holds; empty when it is no module's.
std::string module_of_path(std::string_view path);

struct ModuleInfo {
  std::vector<std::string> depends;
  std::vector<std::string> before;   ///< what should be loaded before: modules or aliases
  std::vector<std::string> aliases;  ///< those that are plain words
};
/// Of the content of .modinfo. At most 1,000 of each are kept.
ModuleInfo parse_modinfo(std::string_view section);

/// Names in modules.builtin.
std::set<std::string> parse_builtin(std::string_view text);
/// Plain aliases in modules.builtin.modinfo.
std::set<std::string> parse_builtin_aliases(std::string_view text);
/// Options of a kernel's config that are "y".
std::set<std::string, std::less<>> parse_config(std::string_view text);

/// What is known of a kernel's modules.
struct KnownModules {
  std::map<std::string, ModuleInfo> modules;
  std::set<std::string> builtin;
  std::set<std::string> builtin_aliases;
  std::set<std::string, std::less<>> config;
};

struct ModulePlan {
  std::vector<std::string> order;    ///< names; what a module needs stands before it
  std::vector<std::string> missing;  ///< modules or aliases that were asked for and are not known
  std::vector<std::string> vital;    ///< of them, or because of them: without these no guest
  Features features;
};
ModulePlan plan_modules(const KnownModules& known);

}  // namespace sbx::kernel
