// List: all profiles that can be named, trusting project profiles, and choosing one by file.
#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include "core/base/text.h"
#include "core/profile/builtin.h"
#include "core/profile/chain.h"
#include "core/profile/diagnostics.h"
#include "core/profile/merge.h"
#include "core/profile/profile.h"
#include "core/profile/resolve.h"
#include "core/profile/rules.h"
#include "core/profile/search.h"
#include "core/profile/trust.h"

namespace sbx::profile {
namespace {

/// The request with nothing but files in it, so that flags and SBX_* cannot spoil a listing.
LoadRequest files_only(const LoadRequest& request) {
  LoadRequest only;
  only.env = [env = request.env](const std::string& variable) {
    return variable.starts_with("SBX_") ? std::nullopt : env(variable);
  };
  only.dirs = request.dirs;
  only.state_dir = request.state_dir;
  only.allow_outside = request.allow_outside;
  return only;
}

Listing listing_of(const Search& search, Found found, const LoadRequest& request) {
  Listing row;
  row.name = found.name;
  row.layer = found.layer;
  if (found.builtin == nullptr) row.file = found.file;
  row.is_trusted_project = found.is_project;
  Resolved resolved = resolve(search, read_chain(search, std::move(found)), request);
  row.description = std::move(resolved.profile.description);
  if (!resolved.mistakes.empty()) row.problem = resolved.mistakes.front().to_string();
  return row;
}

Listing problem_row(std::string name, Layer layer, std::string file, const Error& error) {
  Listing row;
  row.name = std::move(name);
  row.layer = layer;
  row.file = std::move(file);
  row.problem = error.to_string();
  return row;
}

void list_dir(const Search& search,
              Layer layer,
              const LoadRequest& request,
              std::vector<Listing>& rows) {
  for (const std::string& name : search.names_in(layer)) {
    Result<Found> found = search.find_in(layer, name);
    if (found.ok()) {
      rows.push_back(listing_of(search, std::move(found).value(), request));
    } else {
      rows.push_back(problem_row(name, layer, {}, found.error()));
    }
  }
}

Result<Listing> trusted_row(const Search& search,
                            const TrustRecord& record,
                            const LoadRequest& request) {
  SBX_ASSIGN(Found found, search.find_path(record.path));
  SBX_TRY(check_trust(record, found.text));
  found.name = record.name;
  return listing_of(search, std::move(found), request);
}

void list_trusted(const Search& search, const LoadRequest& request, std::vector<Listing>& rows) {
  for (const TrustRecord& record : all_trust(request.state_dir)) {
    Result<Listing> row = trusted_row(search, record, request);
    rows.push_back(row.ok() ? std::move(row).value()
                            : problem_row(record.name, Layer::kFile, record.path, row.error()));
    rows.back().is_trusted_project = true;
  }
}

/// The items of a list below "language", without reading anything else.
std::vector<std::string> language_list(const YamlNode& root, std::string_view key) {
  std::vector<std::string> items;
  const YamlNode* language = find_value(root, "language");
  const YamlNode* list = language == nullptr ? nullptr : find_value(*language, key);
  if (list == nullptr) return items;
  for (const YamlNode& item : list->items) {
    items.push_back(item.text);
  }
  return items;
}

/// The first profile with an item in its language list that `matches`.
template <typename Matches>
std::optional<std::string> first_with(std::string_view key,
                                      const LoadRequest& request,
                                      const Matches& matches) {
  const auto has = [&](const YamlNode& root) {
    const std::vector<std::string> items = language_list(root, key);
    return std::any_of(items.begin(), items.end(), matches);
  };
  for (const Builtin& builtin : builtins()) {
    const std::vector<std::string_view> items = list_items(builtin, "language", key);
    if (std::any_of(items.begin(), items.end(), matches)) return std::string(builtin.name);
  }
  const Search search(request);
  for (const Layer layer : {Layer::kUser, Layer::kSystem}) {
    for (const std::string& name : search.names_in(layer)) {
      const Result<Found> found = search.find_in(layer, name);
      if (!found.ok()) continue;
      Diagnostics ignored(found.value().file);  // loading it will tell
      if (has(parse_yaml(found.value().text, ignored))) return name;
    }
  }
  return std::nullopt;
}

/// "python3" in "#!/usr/bin/env -S python3 -u"; empty when there is none.
std::string_view interpreter_of(std::string_view line) {
  constexpr std::size_t kMostLine = 256;  // as the kernel reads it
  line = line.substr(0, std::min(line.find('\n'), kMostLine));
  if (!line.starts_with("#!")) return {};
  std::vector<std::string_view> words;
  line.remove_prefix(2);
  while (true) {
    line = text::trim(line);
    if (line.empty()) break;
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view base = words[i].substr(words[i].rfind('/') + 1);
    if (i == 0 && base != "env") return base;
    if (i == 0 || base.starts_with('-') || base.find('=') != std::string_view::npos) continue;
    return base;
  }
  return {};
}

/// "python" stands for "python", "python3" and "python3.11".
bool is_version_of(std::string_view interpreter, std::string_view name) {
  return interpreter.starts_with(name) &&
         interpreter.find_first_not_of("0123456789.", name.size()) == std::string_view::npos;
}

}  // namespace

std::vector<Listing> list(const LoadRequest& request) {
  const LoadRequest only = files_only(request);
  const Search search(only);
  std::vector<Listing> rows;
  list_dir(search, Layer::kUser, only, rows);
  list_dir(search, Layer::kSystem, only, rows);
  for (const Builtin& builtin : builtins()) {
    Found found;
    found.name = std::string(builtin.name);
    found.layer = Layer::kBuiltin;
    found.file = text::cat(builtin.name, ".yaml");
    found.builtin = &builtin;
    rows.push_back(listing_of(search, std::move(found), only));
  }
  list_trusted(search, only, rows);
  std::stable_sort(
      rows.begin(), rows.end(), [](const Listing& a, const Listing& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < rows.size(); ++i) {
    rows[i].is_shadowed = rows[i].name == rows[i - 1].name;
  }
  return rows;
}

Result<std::string> trust(const LoadRequest& request, const std::string& path) {
  if (request.state_dir.empty()) {
    return Error(Errc::kUsage, "profile trust needs a state directory");
  }
  const LoadRequest only = files_only(request);
  const Search search(only);
  SBX_ASSIGN(Found found, search.find_path(path));
  const std::string name = found.name;
  const std::string complaint = name_complaint(name);
  if (!complaint.empty()) {
    return Error(Errc::kUsage, text::cat("profile \"", text::escape(name), "\" ", complaint));
  }
  if (!found.is_project) {
    return Error(Errc::kUsage, text::cat(path, " is found by its name already: ", name));
  }
  if (const Result<Found> other = search.find_name(name, std::nullopt); other.ok()) {
    return Error(Errc::kExists,
                 text::cat("there is a profile ",
                           name,
                           " already (",
                           profile::name(other.value().layer),
                           ")"))
        .with_hint("rename the file, or give it as a path with -p");
  }
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return Error(Errc::kSystem, text::cat("resolve ", path, ": ", error.message()));
  TrustRecord record{name, real.string(), content_hash(found.text)};
  if (!text::is_utf8(record.path)) {
    return Error(Errc::kUsage, text::cat(text::escape(path), " is no UTF-8 path"));
  }
  const Resolved resolved = resolve(search, read_chain(search, std::move(found)), only);
  if (!resolved.mistakes.empty()) return to_error(resolved.mistakes, path);
  SBX_TRY(write_trust(request.state_dir, record));
  return name;
}

Status untrust(const LoadRequest& request, const std::string& name) {
  return remove_trust(request.state_dir, name);
}

std::optional<std::string> name_for_extension(std::string_view extension,
                                              const LoadRequest& request) {
  if (extension.size() < 2) return std::nullopt;
  return first_with(
      "extensions", request, [&](std::string_view item) { return item == extension; });
}

std::optional<std::string> name_for_shebang(std::string_view first_line,
                                            const LoadRequest& request) {
  const std::string_view interpreter = interpreter_of(first_line);
  if (interpreter.empty()) return std::nullopt;
  return first_with(
      "shebangs", request, [&](std::string_view item) { return is_version_of(interpreter, item); });
}

}  // namespace sbx::profile
