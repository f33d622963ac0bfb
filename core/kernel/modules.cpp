// Modules: see modules.h.
#include "core/kernel/modules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/base/text.h"

namespace sbx::kernel {

namespace {

constexpr std::size_t kMostTexts = 1000;
constexpr std::size_t kLongestName = 100;

constexpr std::array kWanted{
    WantedModule{"virtio_mmio", "CONFIG_VIRTIO_MMIO", nullptr},
    WantedModule{"virtio_console", "CONFIG_VIRTIO_CONSOLE", nullptr},
    WantedModule{"virtio_rng", "CONFIG_HW_RANDOM_VIRTIO", &Features::has_rng},
    WantedModule{"overlay", "CONFIG_OVERLAY_FS", &Features::has_overlay},
    WantedModule{"virtio_blk", "CONFIG_VIRTIO_BLK", &Features::has_blk},
    WantedModule{"erofs", "CONFIG_EROFS_FS", &Features::has_erofs},
    WantedModule{"ext4", "CONFIG_EXT4_FS", &Features::has_ext4},
    WantedModule{"9pnet_virtio", "CONFIG_NET_9P_VIRTIO", &Features::has_9p},
    WantedModule{"9p", "CONFIG_9P_FS", &Features::has_9p},
    WantedModule{"virtio_balloon", "CONFIG_VIRTIO_BALLOON", &Features::has_balloon},
};

constexpr std::array<std::string_view, 14> kLikely{"virtio_ring",
                                                   "virtio",
                                                   "rng_core",
                                                   "libcrc32c",
                                                   "crc32c_generic",
                                                   "crc16",
                                                   "mbcache",
                                                   "jbd2",
                                                   "lz4_decompress",
                                                   "netfs",
                                                   "fscache",
                                                   "9pnet",
                                                   "xxhash_generic",
                                                   "failover"};

bool is_plain_word(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName &&
         text.find_first_of(":*?[") == std::string_view::npos;
}

void add(std::vector<std::string>& into, std::string_view name) {
  if (!name.empty() && name.size() <= kLongestName && into.size() < kMostTexts) {
    into.push_back(module_name(name));
  }
}

/// "pre: a b post: c"
void add_before(std::vector<std::string>& into, std::string_view text) {
  bool is_before = false;
  for (const std::string_view word : text::split(text, ' ')) {
    if (word == "pre:") {
      is_before = true;
    } else if (word == "post:") {
      is_before = false;
    } else if (is_before) {
      add(into, word);
    }
  }
}

/// Puts modules in order, one wanted one after the other.
class Planner {
 public:
  explicit Planner(const KnownModules& known) : known_(known) {}

  /// Whether it is in the kernel, or it and all that it cannot do without are in the order now.
  bool want(const WantedModule& wanted) {
    const bool is_in = known_.builtin.contains(std::string(wanted.name)) ||
                       (!known_.modules.contains(std::string(wanted.name)) &&
                        known_.config.contains(wanted.config));
    if (is_in) return true;
    const std::vector<std::string> order = order_;
    const std::set<std::string> seen = seen_;
    if (need(std::string(wanted.name))) return true;
    order_ = order;
    seen_ = seen;
    return false;
  }

  std::vector<std::string> take_order() { return std::move(order_); }
  std::vector<std::string> take_missing() { return {missing_.begin(), missing_.end()}; }

 private:
  bool need(const std::string& name) {
    if (known_.builtin.contains(name)) return true;
    const auto at = known_.modules.find(name);
    if (at == known_.modules.end()) {
      missing_.insert(name);
      return false;
    }
    // Marked before its dependencies, so that a circle ends.
    if (!seen_.insert(name).second) return true;
    for (const std::string& other : at->second.before) {
      like(other);
    }
    // All are looked at, so that all that are missing are known at once.
    bool is_whole = true;
    for (const std::string& other : at->second.depends) {
      is_whole = need(other) && is_whole;
    }
    if (!is_whole || order_.size() >= kMostModules) return false;
    order_.push_back(name);
    return true;
  }

  /// A module, or whoever has that alias; the module that wants it works without, perhaps.
  void like(const std::string& name) {
    if (known_.builtin.contains(name) || known_.builtin_aliases.contains(name)) return;
    if (const auto provider = find_provider(name)) {
      (void)need(*provider);
    } else {
      missing_.insert(name);
    }
  }

  std::optional<std::string> find_provider(const std::string& name) const {
    if (known_.modules.contains(name)) return name;
    std::optional<std::string> found;
    for (const auto& [module, info] : known_.modules) {
      if (std::ranges::find(info.aliases, name) == info.aliases.end()) continue;
      // Others may want a processor that the guest has not got.
      if (module.ends_with("_generic")) return module;
      if (!found) found = module;
    }
    return found;
  }

  const KnownModules& known_;
  std::vector<std::string> order_;
  std::set<std::string> seen_;
  std::set<std::string> missing_;
};

}  // namespace

std::span<const WantedModule> wanted_modules() {
  return kWanted;
}

std::span<const std::string_view> likely_modules() {
  return kLikely;
}

std::string module_name(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '-', '_');
  return out;
}

std::string module_of_path(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  for (const std::string_view packed : {".xz", ".zst", ".gz"}) {
    if (path.ends_with(packed)) path.remove_suffix(packed.size());
  }
  if (!is_module_file(path)) return {};
  return module_name(path.substr(0, path.rfind('.')));
}

ModuleInfo parse_modinfo(std::string_view section) {
  ModuleInfo out;
  for (const std::string_view line : text::split(section, '\0')) {
    const std::size_t at = line.find('=');
    if (at == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, at);
    const std::string_view value = line.substr(at + 1);
    if (key == "depends") {
      for (const std::string_view name : text::split(value, ',')) {
        add(out.depends, name);
      }
    } else if (key == "softdep") {
      add_before(out.before, value);
    } else if (key == "alias" && is_plain_word(value)) {
      add(out.aliases, value);
    }
  }
  return out;
}

std::set<std::string> parse_builtin(std::string_view text) {
  std::set<std::string> out;
  for (const std::string_view line : text::split(text, '\n')) {
    if (std::string name = module_of_path(text::trim(line)); !name.empty()) {
      out.insert(std::move(name));
    }
  }
  return out;
}

std::set<std::string> parse_builtin_aliases(std::string_view text) {
  constexpr std::string_view kKey = "alias=";
  std::set<std::string> out;
  for (const std::string_view line : text::split(text, '\0')) {  // "module.key=value"
    const std::size_t dot = line.find('.');
    if (dot == std::string_view::npos) continue;
    const std::string_view rest = line.substr(dot + 1);
    if (!rest.starts_with(kKey)) continue;
    const std::string_view alias = rest.substr(kKey.size());
    if (is_plain_word(alias)) out.insert(module_name(alias));
  }
  return out;
}

std::set<std::string, std::less<>> parse_config(std::string_view text) {
  constexpr std::string_view kYes = "=y";
  std::set<std::string, std::less<>> out;
  for (std::string_view line : text::split(text, '\n')) {
    line = text::trim(line);
    if (!line.starts_with("CONFIG_") || !line.ends_with(kYes)) continue;
    line.remove_suffix(kYes.size());
    if (line.size() <= kLongestName) out.emplace(line);
  }
  return out;
}

ModulePlan plan_modules(const KnownModules& known) {
  ModulePlan plan;
  for (const WantedModule& wanted : kWanted) {
    if (wanted.feature != nullptr) plan.features.*wanted.feature = true;
  }
  Planner planner(known);
  for (const WantedModule& wanted : kWanted) {
    if (planner.want(wanted)) continue;
    if (wanted.feature == nullptr) {
      plan.vital.emplace_back(wanted.name);
    } else {
      plan.features.*wanted.feature = false;  // also when only one of two is there
    }
  }
  plan.order = planner.take_order();
  plan.missing = planner.take_missing();
  return plan;
}

}  // namespace sbx::kernel
