// Record: see record.h.
#include "core/kernel/record.h"

#include <algorithm>
#include <array>

#include "core/base/text.h"

#include <nlohmann/json.hpp>

namespace sbx::kernel {

namespace {

using Out = nlohmann::ordered_json;
using In = nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kDigits = 64;

struct FeatureRow {
  const char* key;
  bool Features::*member;
  std::string_view lack;
};
constexpr std::array<FeatureRow, 7> kFeatures{{
    {"blk",
     &Features::has_blk,
     "no virtio_blk: a guest has no disks, so neither images nor sessions"},
    {"9p", &Features::has_9p, "no 9p: the host's files cannot be the root of a guest; images can"},
    {"overlay",
     &Features::has_overlay,
     "no overlay: nothing can be written to the root of a guest"},
    {"ext4", &Features::has_ext4, "no ext4: a guest's files are kept in memory only"},
    {"erofs", &Features::has_erofs, "no erofs: images are passed as ext4, which is bigger"},
    {"rng", &Features::has_rng, "no virtio-rng: a guest takes longer to have good random numbers"},
    {"balloon",
     &Features::has_balloon,
     "no virtio_balloon: memory that a guest frees does not come back to the host"},
}};

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// Reads members of an object; one that is missing or of another kind spoils the whole.
class Reader {
 public:
  explicit Reader(const In& object) : object_(object) {}

  void text(const char* key, std::string& into) {
    const In* const value = find(key);
    if (value != nullptr && value->is_string()) {
      into = value->get<std::string>();
    } else {
      ok_ = false;
    }
  }
  template <typename T>
  void number(const char* key, T& into) {
    const In* const value = find(key);
    if (value != nullptr && value->is_number_integer()) {
      into = value->get<T>();
    } else {
      ok_ = false;
    }
  }
  void flag(const char* key, bool& into) {
    const In* const value = find(key);
    if (value != nullptr && value->is_boolean()) {
      into = value->get<bool>();
    } else {
      ok_ = false;
    }
  }
  const In* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto at = object_.find(key);
    return at == object_.end() ? nullptr : &*at;
  }
  bool ok() const { return ok_; }

 private:
  const In& object_;
  bool ok_ = true;
};

bool read_features(const In& json, Features& into) {
  Reader reader(json);
  reader.flag("known", into.is_known);
  for (const FeatureRow& row : kFeatures) {
    reader.flag(row.key, into.*row.member);
  }
  return reader.ok();
}

bool read_modules(const In& json, std::vector<std::string>& into) {
  if (!json.is_array() || json.size() > kMostModules) return false;
  for (const In& item : json) {
    if (!item.is_string()) return false;
    into.push_back(item.get<std::string>());
    if (!is_module_file(into.back())) return false;
  }
  return true;
}

}  // namespace

int count(const Features& features) {
  return static_cast<int>(std::ranges::count_if(
      kFeatures, [&](const FeatureRow& row) { return features.*row.member; }));
}

std::vector<std::pair<std::string_view, bool>> feature_list(const Features& features) {
  std::vector<std::pair<std::string_view, bool>> out;
  for (const FeatureRow& row : kFeatures) {
    out.emplace_back(row.key, features.*row.member);
  }
  return out;
}

std::vector<std::string> lacking(const Features& features) {
  std::vector<std::string> out;
  for (const FeatureRow& row : kFeatures) {
    if (!(features.*row.member)) out.emplace_back(row.lack);
  }
  return out;
}

bool is_module_file(std::string_view name) {
  constexpr std::string_view kSuffix = ".ko";
  constexpr std::size_t kLongest = 100;
  if (!name.ends_with(kSuffix) || name.size() > kLongest) return false;
  name.remove_suffix(kSuffix.size());
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::string to_json(const Record& record) {
  Out features{{"known", record.features.is_known}};
  for (const FeatureRow& row : kFeatures) {
    features[row.key] = record.features.*row.member;
  }
  const Out json{{"format", kFormat},
                 {"name", record.name},
                 {"release", record.release},
                 {"source", record.source},
                 {"created_ns", record.created_ns},
                 {"vmlinux_bytes", record.vmlinux_bytes},
                 {"modules_bytes", record.modules_bytes},
                 {"modules", record.modules},
                 {"features", features},
                 {"id", record.id}};
  return json.dump(-1, ' ', false, Out::error_handler_t::replace) + "\n";
}

Result<Record> parse_record(std::string_view text) {
  if (text.size() > kLongestRecord.v) {
    return Error(Errc::kLimit,
                 text::cat("the record has more than ", sbx::to_string(kLongestRecord)));
  }
  const In json = In::parse(text, nullptr, false);
  if (!json.is_object()) return Error(Errc::kProtocol, "the record is no JSON object");
  const auto format = json.find("format");
  if (format == json.end() || !format->is_number_integer()) {
    return Error(Errc::kProtocol, "the record has no format number");
  }
  if (*format > kFormat) {
    return Error(Errc::kUnsupported, "it was written by a newer sbx")
        .with_hint("use that sbx for this kernel; this one changes nothing of it");
  }
  Record record;
  Reader reader(json);
  reader.text("name", record.name);
  reader.text("release", record.release);
  reader.text("source", record.source);
  reader.number("created_ns", record.created_ns);
  reader.number("vmlinux_bytes", record.vmlinux_bytes);
  reader.number("modules_bytes", record.modules_bytes);
  reader.text("id", record.id);
  const In* const modules = reader.find("modules");
  const In* const features = reader.find("features");
  const bool is_whole = reader.ok() && modules != nullptr &&
                        read_modules(*modules, record.modules) && features != nullptr &&
                        read_features(*features, record.features) && record.id.size() == kDigits &&
                        is_hex(record.id);
  if (!is_whole) return Error(Errc::kProtocol, "the record lacks a part");
  return record;
}

}  // namespace sbx::kernel
