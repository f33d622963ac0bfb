// Trust: records on disk, and comparing a file with its record.
#include "core/profile/trust.h"

#include <dirent.h>

#include <algorithm>
#include <memory>

#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/profile/rules.h"

#include <nlohmann/json.hpp>

namespace sbx::profile {
namespace {

constexpr int kFormat = 1;
constexpr std::string_view kSuffix = ".json";
constexpr Bytes kCap{64UL * 1024};

std::string dir_of(const std::string& state_dir) {
  return text::cat(state_dir, "/trust");
}

std::string string_at(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

Result<TrustRecord> read_trust(const std::string& state_dir, const std::string& name) {
  const std::string path = text::cat(dir_of(state_dir), '/', name, kSuffix);
  SBX_ASSIGN(const std::string text, fs::read_file(path, kCap));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const Error damaged = Error(Errc::kProtocol, text::cat("trust record ", path, " is damaged"))
                            .with_hint(text::cat("remove it, then trust the profile again"));
  if (!json.is_object()) return damaged;
  const auto format = json.find("format");
  if (format == json.end() || !format->is_number_integer()) return damaged;
  if (format->get<int>() > kFormat) {
    return Error(Errc::kProtocol, text::cat("trust record ", path, " is of a newer sbx"));
  }
  TrustRecord record{name, string_at(json, "path"), string_at(json, "sha256")};
  if (!record.path.starts_with('/') || record.sha256.size() != 64) return damaged;
  return record;
}

Status write_trust(const std::string& state_dir, const TrustRecord& record) {
  const std::string path = dir_of(state_dir);
  SBX_TRY(fs::mkdirs(path, 0700));
  SBX_ASSIGN(const UniqueFd dir, fs::open_dir(path));
  const nlohmann::ordered_json json{
      {"format", kFormat}, {"name", record.name}, {"path", record.path}, {"sha256", record.sha256}};
  // A path that is no UTF-8 would not survive JSON; it is replaced, and then not found: refused.
  const std::string text =
      json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return fs::write_atomic(dir.get(), text::cat(record.name, kSuffix), text::cat(text, '\n'), 0600);
}

Status remove_trust(const std::string& state_dir, const std::string& name) {
  const Error none(Errc::kNotFound,
                   text::cat("profile \"", text::escape(name), "\" is not trusted"));
  if (!name_complaint(name).empty()) return none;
  const Result<UniqueFd> dir = fs::open_dir(dir_of(state_dir));
  if (!dir.ok()) return none;
  Status removed = sys::unlinkat(dir.value().get(), text::cat(name, kSuffix), 0);
  if (!removed.ok() && removed.error().code() == Errc::kNotFound) return none;
  return removed;
}

std::vector<TrustRecord> all_trust(const std::string& state_dir) {
  std::vector<TrustRecord> records;
  if (state_dir.empty()) return records;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(dir_of(state_dir).c_str()),
                                                   ::closedir);
  if (stream == nullptr) return records;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view file = entry->d_name;
    if (!file.ends_with(kSuffix)) continue;
    const std::string name(file.substr(0, file.size() - kSuffix.size()));
    if (!name_complaint(name).empty()) continue;
    if (Result<TrustRecord> record = read_trust(state_dir, name); record.ok()) {
      records.push_back(std::move(record).value());
    }
  }
  std::sort(records.begin(), records.end(), [](const TrustRecord& a, const TrustRecord& b) {
    return a.name < b.name;
  });
  return records;
}

std::string content_hash(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

Status check_trust(const TrustRecord& record, std::string_view text) {
  if (content_hash(text) == record.sha256) return {};
  return Error(Errc::kDenied,
               text::cat(record.path, " has changed since profile ", record.name, " was trusted"))
      .with_hint(text::cat("read it, then: sbx profile trust ", record.path));
}

}  // namespace sbx::profile
