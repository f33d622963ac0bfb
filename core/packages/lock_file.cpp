// Lock file: see lock_file.h.
#include "core/packages/lock_file.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"
#include "core/profile/package_rules.h"

#include <nlohmann/json.hpp>

namespace sbx::packages {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::size_t kMostPackages = 20'000;
constexpr std::size_t kMostFileName = 255;

Error rubbish(std::string_view what) {
  return {Errc::kProtocol, text::cat("is no lock file of packages: ", what)};
}

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_base64(std::string_view text) {
  const std::size_t end =
      text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
  return end == std::string_view::npos || text.substr(end) == "=" || text.substr(end) == "==";
}

bool is_digest(Kind kind, std::string_view digest) {
  constexpr std::string_view kSha256 = "sha256:";
  constexpr std::string_view kSha512 = "sha512-";
  if (kind == Kind::kPip) {
    return digest.size() == kSha256.size() + 64 && digest.starts_with(kSha256) &&
           is_hex(digest.substr(kSha256.size()));
  }
  return digest.size() == kSha512.size() + 88 && digest.starts_with(kSha512) &&
         is_base64(digest.substr(kSha512.size()));
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostFileName && name.front() != '.' &&
         name.front() != '-' && std::all_of(name.begin(), name.end(), [](char c) {
           return c > ' ' && c < 127 && c != '/' && c != '\\';
         });
}

/// "node_modules/@a/b/node_modules/c".
bool is_npm_place(std::string_view place) {
  constexpr std::string_view kPart = "node_modules/";
  constexpr std::size_t kMost = 4000;
  if (place.size() > kMost) return false;
  while (place.starts_with(kPart)) {
    place.remove_prefix(kPart.size());
    const std::size_t next = place.find("/node_modules/");
    if (!profile::is_npm_name(place.substr(0, next))) return false;
    if (next == std::string_view::npos) return true;
    place.remove_prefix(next + 1);
  }
  return false;
}

/// "lib/python3.11/site-packages".
bool is_site(std::string_view site) {
  const std::vector<std::string_view> parts = text::split(site, '/');
  return parts.size() == 3 && parts[0].starts_with("lib") && parts[2] == "site-packages" &&
         profile::is_pip_name(parts[0]) && profile::is_pip_name(parts[1]);
}

bool take_text(const Json& json, const char* key, std::string& into) {
  const auto at = json.find(key);
  if (at == json.end() || !at->is_string()) return false;
  into = at->get<std::string>();
  return true;
}

Status take_packages(const Json& list, Locked& locked) {
  if (!list.is_array() || list.size() > kMostPackages) return rubbish("its packages");
  for (const Json& item : list) {
    Package package;
    const bool is_whole = item.is_object() && take_text(item, "name", package.name) &&
                          take_text(item, "version", package.version) &&
                          take_text(item, "digest", package.digest);
    if (!is_whole) return rubbish("a package lacks a part");
    (void)take_text(item, "file", package.file);
    (void)take_text(item, "place", package.place);
    locked.packages.push_back(std::move(package));
  }
  return {};
}

Status take(const Json& json, Kind kind, Locked& locked) {
  if (!json.is_object()) return rubbish("a part of it");
  const auto wants = json.find("wants");
  const auto packages = json.find("packages");
  if (wants == json.end() || !wants->is_array() || packages == json.end()) {
    return rubbish("a part of it");
  }
  for (const Json& want : *wants) {
    if (!want.is_string()) return rubbish("what it was made for");
    locked.wants.push_back(want.get<std::string>());
  }
  SBX_TRY(take_packages(*packages, locked));
  (void)take_text(json, "site", locked.site);
  if (const auto tree = json.find("tree"); tree != json.end()) locked.tree = tree->dump();
  return check(kind, locked);
}

Json to_json_part(const Locked& locked) {
  Json packages = Json::array();
  for (const Package& each : locked.packages) {
    Json item{{"name", each.name}, {"version", each.version}};
    if (!each.place.empty()) item["place"] = each.place;
    if (!each.file.empty()) item["file"] = each.file;
    item["digest"] = each.digest;
    packages.push_back(std::move(item));
  }
  Json part{{"wants", locked.wants}, {"packages", std::move(packages)}};
  if (!locked.site.empty()) part["site"] = locked.site;
  if (!locked.tree.empty()) {
    Json tree = Json::parse(locked.tree, nullptr, false);
    if (!tree.is_discarded()) part["tree"] = std::move(tree);
  }
  return part;
}

}  // namespace

std::string to_json(const LockFile& lock) {
  Json json{{"format", kFormat}};
  for (const Kind kind : {Kind::kPip, Kind::kNpm}) {
    if (lock.of(kind).packages.empty()) continue;
    json[std::string(name(kind))] = to_json_part(lock.of(kind));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<LockFile> parse_lock_file(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return rubbish("no JSON object");
  const auto format = json.find("format");
  if (format == json.end() || !format->is_number_unsigned()) return rubbish("it has no format");
  if (format->get<std::uint64_t>() > kFormat) {
    return Error(Errc::kUnsupported, "was written by a newer sbx")
        .with_hint("use that one, or remove the file to have it written anew");
  }
  LockFile lock;
  for (const Kind kind : {Kind::kPip, Kind::kNpm}) {
    const auto part = json.find(std::string(name(kind)));
    if (part != json.end()) SBX_TRY(take(*part, kind, lock.of(kind)));
  }
  return lock;
}

Status check(Kind kind, const Locked& locked) {
  for (const Package& each : locked.packages) {
    const bool is_pip = kind == Kind::kPip;
    const bool is_name = is_pip ? profile::is_pip_name(each.name) : profile::is_npm_name(each.name);
    if (!is_name || !profile::is_package_version(each.version)) {
      return rubbish(text::cat("\"",
                               text::escape(each.name.substr(0, 100)),
                               "\" \"",
                               text::escape(each.version.substr(0, 100)),
                               "\" is no package"));
    }
    if (!is_digest(kind, each.digest)) return rubbish(text::cat("the digest of ", each.name));
    if (is_pip ? !is_file_name(each.file) : !is_npm_place(each.place)) {
      return rubbish(text::cat("where ", each.name, " is"));
    }
  }
  if (!locked.site.empty() && !is_site(locked.site)) return rubbish("its directory of modules");
  return {};
}

std::vector<std::string> exact_specs(Kind kind, const Locked& locked) {
  std::vector<std::string> specs;
  specs.reserve(locked.packages.size());
  for (const Package& each : locked.packages) {
    specs.push_back(text::cat(each.name, kind == Kind::kPip ? "==" : "@", each.version));
  }
  std::sort(specs.begin(), specs.end());
  specs.erase(std::unique(specs.begin(), specs.end()), specs.end());
  return specs;
}

}  // namespace sbx::packages
