// Record: what is known of an installed kernel, as record.json beside it keeps it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::kernel {

/// What a guest can do with the kernel, built in or by its modules.
struct Features {
  bool is_known = true;  ///< false: a bare kernel, of which all is hoped for and nothing known
  bool has_blk = false;  ///< virtio_blk: images and disks
  bool has_9p = false;   ///< 9p over virtio: files of the host, live
  bool has_overlay = false;
  bool has_ext4 = false;
  bool has_erofs = false;
  bool has_rng = false;      ///< virtio-rng
  bool has_balloon = false;  ///< virtio_balloon: memory comes back to the host

  bool operator==(const Features&) const = default;
};
/// How many of them are there.
int count(const Features& features);

/// Their names ("blk", "9p" …), and whether each is there.
std::vector<std::pair<std::string_view, bool>> feature_list(const Features& features);

/// One sentence for each feature that is missing: what does not work without it.
std::vector<std::string> lacking(const Features& features);

struct Record {
  std::string name;
  std::string release;  ///< what uname(1) says in the guest
  std::string source;   ///< where it came from: "apt linux-image-… 6.1.192-3"
  std::int64_t created_ns = 0;
  std::uint64_t vmlinux_bytes = 0;
  std::uint64_t modules_bytes = 0;
  std::vector<std::string> modules;  ///< file names in the order in which they are loaded
  Features features;
  std::string id;  ///< 64 hex digits that tell its content
};

inline constexpr Bytes kLongestRecord{std::uint64_t{1} << 20U};
/// Modules that one kernel may have here.
inline constexpr std::size_t kMostModules = 500;

std::string to_json(const Record& record);
/// kProtocol for what is no record, kUnsupported for one of a newer sbx.
Result<Record> parse_record(std::string_view text);

/// Whether it may be the name of a module's file here: "virtio-rng.ko".
bool is_module_file(std::string_view name);

}  // namespace sbx::kernel
