// Budget: see budget.h.
#include "core/image/budget.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "core/base/fs.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/storage_ids.h"
#include "core/workspace/layer_store.h"

namespace sbx::image {

namespace {

constexpr const char* kVariable = "SBX_STATE_BUDGET";
constexpr const char* kFile = "budget";
constexpr Bytes kLongestFile{4096};
constexpr mode_t kOwnFile = 0600;
/// What is never given away of the disk: records and logs have to be written too.
constexpr Bytes kReserve{std::uint64_t{16} << 20U};

/// A size as people read it: "1.5G".
std::string rough(Bytes bytes) {
  constexpr std::string_view kUnits = "KMGT";
  constexpr std::uint64_t kStep = 1024;
  if (bytes.v < kStep) return text::cat(bytes.v, " bytes");
  std::uint64_t size = bytes.v;
  std::size_t unit = 0;
  while (size >= kStep * kStep && unit + 1 < kUnits.size()) {
    size /= kStep;
    ++unit;
  }
  return text::cat(size / kStep, ".", size % kStep * 10 / kStep, kUnits[unit]);
}

Result<Bytes> use_of(const std::string& state_dir) {
  SBX_ASSIGN(const UniqueFd dir, fs::open_dir(state_dir));
  SBX_ASSIGN(const workspace::DiskUse use, workspace::disk_use_below(dir.get()));
  return use.bytes;
}

/// Files of a sandbox's ids may be in directories that only these may read.
Result<Bytes> use_as_storage_root(const confine::StorageIds& ids, const std::string& state_dir) {
  SBX_ASSIGN(sys::Pipe answer, sys::pipe());
  SBX_TRY(confine::run_as_storage_root(ids, "measure the state directory", [&] {
    const Result<Bytes> use = use_of(state_dir);
    if (!use.ok()) return 1;
    return sys::write_all(answer.w.get(), std::to_string(use.value().v)).ok() ? 0 : 1;
  }));
  answer.w.reset();
  SBX_ASSIGN(const std::string text, sys::read_all(answer.r.get(), kLongestFile));
  SBX_ASSIGN(const std::uint64_t bytes, parse_count(text));
  return Bytes{bytes};
}

Result<Bytes> free_space(const std::string& state_dir) {
  struct statvfs info {};
  if (::statvfs(state_dir.c_str(), &info) != 0) {
    return sys_error(text::cat("look at the disk of ", state_dir));
  }
  const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
  return Bytes{free > kReserve.v ? free - kReserve.v : 0};
}

}  // namespace

Result<std::optional<Bytes>> parse_budget(std::string_view text) {
  if (text == "none") return std::optional<Bytes>();
  auto bytes = parse_bytes(text);
  if (!bytes.ok()) {
    return std::move(bytes).error().with_hint("a size like 20G, or none");
  }
  return std::optional(bytes.value());
}

Result<StateBudget> state_budget(const std::string& state_dir) {
  StateBudget budget;
  std::string text;
  if (const char* const value = std::getenv(kVariable); value != nullptr && *value != '\0') {
    budget.source = kVariable;
    text = value;
  } else {
    budget.source = text::cat(state_dir, "/", kFile);
    auto file = fs::read_file(budget.source, kLongestFile);
    if (!file.ok()) {
      if (file.error().sys_errno() == ENOENT) return StateBudget();
      return std::move(file).error();
    }
    text = text::trim(file.value());
  }
  auto bytes = parse_budget(text);
  if (!bytes.ok()) return std::move(bytes).error().prefixed(budget.source);
  budget.bytes = bytes.value();
  return budget;
}

Status set_state_budget(const std::string& state_dir, std::optional<Bytes> budget) {
  SBX_ASSIGN(const UniqueFd dir, fs::open_dir(state_dir));
  const std::string text = budget.has_value() ? to_string(*budget) : std::string("none");
  return fs::write_atomic(dir.get(), kFile, text + "\n", kOwnFile);
}

Result<Bytes> state_use(const std::string& state_dir) {
  const auto ids = confine::storage_ids();
  if (ids.ok() && ids.value().kind == confine::StorageIds::Kind::kSubids) {
    if (auto use = use_as_storage_root(ids.value(), state_dir); use.ok()) return use;
  }
  return use_of(state_dir);
}

Result<Room> state_room(const std::string& state_dir) {
  SBX_ASSIGN(const StateBudget budget, state_budget(state_dir));
  SBX_ASSIGN(const Bytes free, free_space(state_dir));
  if (!budget.bytes.has_value()) return Room{free, false};
  SBX_ASSIGN(const Bytes used, state_use(state_dir));
  const Bytes left{budget.bytes->v > used.v ? budget.bytes->v - used.v : 0};
  if (left < free) return Room{left, true};
  return Room{free, false};
}

Error no_room(const std::string& state_dir, const Room& room, std::optional<Bytes> needed) {
  const std::string what = needed.has_value() ? text::cat("this needs ", rough(*needed))
                                              : std::string("this needs more");
  if (!room.is_of_budget) {
    return Error(Errc::kLimit,
                 text::cat(what,
                           ", and the disk of ",
                           state_dir,
                           " has ",
                           rough(room.left),
                           " left for it"))
        .with_hint(
            "sbx image gc removes what nobody uses, sbx image rm NAME an image; or "
            "SBX_STATE_DIR=DIR on a bigger disk");
  }
  const auto budget = state_budget(state_dir);
  const std::string bound =
      budget.ok()
          ? text::cat(
                to_string(budget.value().bytes.value_or(Bytes{})), " (", budget.value().source, ")")
          : std::string("another size now");
  return Error(Errc::kLimit,
               text::cat(what,
                         ", and ",
                         state_dir,
                         " may take ",
                         rough(room.left),
                         " more of its budget of ",
                         bound))
      .with_hint(
          "sbx image gc removes what nobody uses, sbx image rm NAME an image; sbx image gc "
          "--budget SIZE allows more");
}

Status check_budget(const std::string& state_dir, Bytes needed) {
  SBX_ASSIGN(const Room room, state_room(state_dir));
  if (needed <= room.left) return {};
  return no_room(state_dir, room, needed);
}

}  // namespace sbx::image
