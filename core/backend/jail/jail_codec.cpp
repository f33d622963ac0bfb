// Jail codec: see jail_codec.h.
#include "core/backend/jail/jail_codec.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/ipc/codec.h"

namespace sbx::jail {

namespace {

using confine::BindKind;
using confine::BindMode;
using ipc::Reader;
using ipc::Writer;

constexpr uint32_t kMaxSteps = 100'000;
constexpr size_t kTypicalSize = size_t{48} << 10;

struct StepWriter {
  Writer& w;
  void operator()(const confine::NewRoot& s) const { w.u64(s.size.v); }
  void operator()(const confine::MakeDir& s) const {
    w.str(s.path);
    w.u32(s.mode);
    w.i32(s.owner);
  }
  void operator()(const confine::MakeFile& s) const {
    w.str(s.path);
    w.str(s.content);
    w.u32(s.mode);
  }
  void operator()(const confine::MakeLink& s) const {
    w.str(s.path);
    w.str(s.target);
  }
  void operator()(const confine::Bind& s) const {
    w.str(s.source);
    w.str(s.beneath);
    w.i32(s.source_fd);
    w.str(s.path);
    w.u8(static_cast<uint8_t>(s.kind));
    w.u8(static_cast<uint8_t>(s.mode));
  }
  void operator()(const confine::Scratch& s) const {
    w.u64(s.size.v);
    w.u64(s.inodes);
    w.u32(static_cast<uint32_t>(s.dirs.size()));
    for (const confine::ScratchDir& dir : s.dirs) {
      w.str(dir.path);
      w.u32(dir.mode);
      w.i32(dir.owner);
    }
    w.i32(s.source_fd);
  }
  void operator()(const confine::Proc& s) const { w.str(s.path); }
  void operator()(const confine::DevPts& s) const { w.str(s.path); }
  void operator()(const confine::Mask& s) const { w.str(s.path); }
  void operator()(const confine::Freeze& s) const { w.str(s.path); }
  void operator()(const confine::ForbidUserNamespaces& /*s*/) const {}
  void operator()(const confine::Hostname& s) const { w.str(s.name); }
  void operator()(const confine::Loopback& /*s*/) const {}
  void operator()(const confine::ShowCgroup& s) const { w.str(s.path); }
  void operator()(const confine::EnterRoot& s) const {
    w.u8(s.is_writable ? 1 : 0);
    w.str(s.work_dir);
  }
  void operator()(const confine::KeptRoot& s) const {
    w.str(s.source);
    w.i32(s.source_fd);
    w.list(s.dirs);
  }
  void operator()(const confine::Stage& s) const {
    w.u32(static_cast<uint32_t>(s.dirs.size()));
    for (const confine::StagedDir& dir : s.dirs) {
      w.str(dir.source);
      w.str(dir.beneath);
      w.i32(dir.source_fd);
    }
  }
  void operator()(const confine::Overlay& s) const {
    w.str(s.path);
    w.u32(static_cast<uint32_t>(s.lowers.size()));
    for (const confine::OverlayLayer& lower : s.lowers) {
      w.u32(lower.dir);
      w.str(lower.sub);
    }
    w.i32(s.upper);
    w.str(s.part);
  }
  void operator()(const confine::Place& s) const {
    w.str(s.path);
    w.u8(static_cast<uint8_t>(s.kind));
    w.u32(s.mode);
    w.u32(s.least);
    w.i32(s.owner);
    w.str(s.target);
  }
  void operator()(const confine::Tmpfs& s) const {
    w.str(s.path);
    w.u64(s.size.v);
  }
  void operator()(const confine::Seal& s) const { w.str(s.path); }
  void operator()(const confine::ScratchSpace& s) const {
    w.u64(s.size.v);
    w.u64(s.inodes);
    w.i32(s.source_fd);
  }
  void operator()(const confine::Lead& s) const {
    w.str(s.path);
    w.u8(static_cast<uint8_t>(s.kind));
    w.u8(s.is_optional ? 1 : 0);
  }
};

void read_into(Reader& r, confine::NewRoot& s) {
  s.size.v = r.u64();
}
void read_into(Reader& r, confine::MakeDir& s) {
  s.path = r.str();
  s.mode = r.u32();
  s.owner = r.i32();
}
void read_into(Reader& r, confine::MakeFile& s) {
  s.path = r.str();
  s.content = r.str();
  s.mode = r.u32();
}
void read_into(Reader& r, confine::MakeLink& s) {
  s.path = r.str();
  s.target = r.str();
}
void read_into(Reader& r, confine::Bind& s) {
  s.source = r.str();
  s.beneath = r.str();
  s.source_fd = r.i32();
  s.path = r.str();
  s.kind =
      static_cast<BindKind>(std::min<uint8_t>(r.u8(), static_cast<uint8_t>(BindKind::kDevice)));
  s.mode = r.u8() == 0 ? BindMode::kReadOnly : BindMode::kReadWrite;
}
void read_into(Reader& r, confine::Scratch& s) {
  s.size.v = r.u64();
  s.inodes = r.u64();
  const uint32_t count = r.u32();
  for (uint32_t i = 0; i < count && r.ok(); ++i) {
    confine::ScratchDir dir;
    dir.path = r.str();
    dir.mode = r.u32();
    dir.owner = r.i32();
    s.dirs.push_back(std::move(dir));
  }
  s.source_fd = r.i32();
}
void read_into(Reader& r, confine::Proc& s) {
  s.path = r.str();
}
void read_into(Reader& r, confine::DevPts& s) {
  s.path = r.str();
}
void read_into(Reader& r, confine::Mask& s) {
  s.path = r.str();
}
void read_into(Reader& r, confine::Freeze& s) {
  s.path = r.str();
}
void read_into(Reader& /*r*/, confine::ForbidUserNamespaces& /*s*/) {}
void read_into(Reader& r, confine::Hostname& s) {
  s.name = r.str();
}
void read_into(Reader& /*r*/, confine::Loopback& /*s*/) {}
void read_into(Reader& r, confine::EnterRoot& s) {
  s.is_writable = r.u8() != 0;
  s.work_dir = r.str();
}
void read_into(Reader& r, confine::Stage& s) {
  const uint32_t count = r.u32();
  for (uint32_t i = 0; i < count && r.ok(); ++i) {
    confine::StagedDir dir;
    dir.source = r.str();
    dir.beneath = r.str();
    dir.source_fd = r.i32();
    s.dirs.push_back(std::move(dir));
  }
}
void read_into(Reader& r, confine::Overlay& s) {
  s.path = r.str();
  const uint32_t count = r.u32();
  for (uint32_t i = 0; i < count && r.ok(); ++i) {
    confine::OverlayLayer lower;
    lower.dir = r.u32();
    lower.sub = r.str();
    s.lowers.push_back(std::move(lower));
  }
  s.upper = r.i32();
  s.part = r.str();
}
void read_into(Reader& r, confine::Place& s) {
  s.path = r.str();
  s.kind = static_cast<confine::PlaceKind>(
      std::min<uint8_t>(r.u8(), static_cast<uint8_t>(confine::PlaceKind::kLink)));
  s.mode = r.u32();
  s.least = r.u32();
  s.owner = r.i32();
  s.target = r.str();
}
void read_into(Reader& r, confine::Tmpfs& s) {
  s.path = r.str();
  s.size.v = r.u64();
}
void read_into(Reader& r, confine::Seal& s) {
  s.path = r.str();
}
void read_into(Reader& r, confine::ScratchSpace& s) {
  s.size.v = r.u64();
  s.inodes = r.u64();
  s.source_fd = r.i32();
}
void read_into(Reader& r, confine::Lead& s) {
  s.path = r.str();
  s.kind = r.u8() == 0 ? confine::PlaceKind::kDir : confine::PlaceKind::kFile;
  s.is_optional = r.u8() != 0;
}
void read_into(Reader& r, confine::KeptRoot& s) {
  s.source = r.str();
  s.source_fd = r.i32();
  s.dirs = r.list();
}
void read_into(Reader& r, confine::ShowCgroup& s) {
  s.path = r.str();
}

template <size_t I = 0>
bool read_step(uint8_t index, Reader& reader, std::vector<confine::Step>& out) {
  if constexpr (I < std::variant_size_v<confine::Step>) {
    if (index != I) return read_step<I + 1>(index, reader, out);
    std::variant_alternative_t<I, confine::Step> step;
    read_into(reader, step);
    out.emplace_back(std::move(step));
    return true;
  } else {
    return false;
  }
}

void write_steps(Writer& w, std::span<const confine::Step> steps) {
  w.u32(static_cast<uint32_t>(steps.size()));
  for (const confine::Step& step : steps) {
    w.u8(static_cast<uint8_t>(step.index()));
    std::visit(StepWriter{w}, step);
  }
}

bool read_steps(Reader& r, std::vector<confine::Step>& steps) {
  const uint32_t count = r.u32();
  bool is_good = r.ok() && count <= kMaxSteps;
  for (uint32_t i = 0; i < count && is_good; ++i) {
    is_good = read_step(r.u8(), r, steps) && r.ok();
  }
  return is_good;
}

void write_rules(Writer& w, const agent::PayloadRules& rules) {
  w.u32(rules.uid);
  w.u32(rules.gid);
  w.u8(rules.is_changing_ids ? 1 : 0);
  w.u32(static_cast<uint32_t>(rules.groups.size()));
  for (const gid_t group : rules.groups) {
    w.u32(group);
  }
  w.u64(rules.capabilities);
  w.u64(rules.root_capabilities);
  w.u8(rules.may_set_id_bits ? 1 : 0);
  w.u8(rules.is_nesting ? 1 : 0);
  w.u8(rules.is_using_landlock ? 1 : 0);
  w.u8(static_cast<uint8_t>(rules.rlimits.count));
  for (size_t i = 0; i < rules.rlimits.count; ++i) {
    const confine::RlimitSet::Entry& entry = rules.rlimits.entries[i];
    w.i32(entry.resource);
    w.u64(entry.value.rlim_cur);
    w.u64(entry.value.rlim_max);
  }
}

bool read_rules(Reader& r, agent::PayloadRules& rules) {
  rules.uid = r.u32();
  rules.gid = r.u32();
  rules.is_changing_ids = r.u8() != 0;
  const uint32_t groups = r.u32();
  for (uint32_t i = 0; i < groups && r.ok(); ++i) {
    rules.groups.push_back(r.u32());
  }
  rules.capabilities = r.u64();
  rules.root_capabilities = r.u64();
  rules.may_set_id_bits = r.u8() != 0;
  rules.is_nesting = r.u8() != 0;
  rules.is_using_landlock = r.u8() != 0;
  const size_t count = r.u8();
  if (count > rules.rlimits.entries.size()) return false;
  rules.rlimits.count = count;
  for (size_t i = 0; i < count; ++i) {
    confine::RlimitSet::Entry& entry = rules.rlimits.entries[i];
    entry.resource = r.i32();
    entry.value.rlim_cur = r.u64();
    entry.value.rlim_max = r.u64();
  }
  return r.ok();
}

}  // namespace

std::string encode_steps(std::span<const confine::Step> steps) {
  Writer w;
  w.reserve(kTypicalSize);
  write_steps(w, steps);
  return w.take();
}

Result<std::vector<confine::Step>> decode_steps(std::string_view bytes) {
  Reader r(bytes);
  std::vector<confine::Step> steps;
  if (!read_steps(r, steps) || !r.done()) {
    return Error(Errc::kProtocol, "the steps of a plan are malformed");
  }
  return steps;
}

std::string encode_init_plan(const InitPlan& plan, std::span<const confine::Step> steps) {
  Writer w;
  w.reserve(kTypicalSize);
  write_rules(w, plan.rules);
  w.u8(plan.is_lasting ? 1 : 0);
  w.u32(plan.join_fds);
  w.u32(plan.group_fds);
  w.u32(plan.held_fds);
  w.u32(plan.source_fds);
  write_steps(w, steps);
  return w.take();
}

Result<InitPlan> decode_init_plan(std::string_view bytes) {
  InitPlan plan;
  Reader r(bytes);
  const bool has_rules = read_rules(r, plan.rules);
  plan.is_lasting = r.u8() != 0;
  plan.join_fds = r.u32();
  plan.group_fds = r.u32();
  plan.held_fds = r.u32();
  plan.source_fds = r.u32();
  if (!has_rules || !read_steps(r, plan.steps) || !r.done()) {
    return Error(Errc::kProtocol, "the set-up plan is malformed");
  }
  return plan;
}

}  // namespace sbx::jail
