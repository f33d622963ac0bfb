// Layout: see layout.h.
#include "core/image/layout.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "core/base/sha256.h"
#include "core/base/text.h"

#include <nlohmann/json.hpp>

namespace sbx::image {

namespace {

using Json = nlohmann::json;

constexpr int kMaxIndexDepth = 4;
constexpr std::size_t kMaxManifests = 1000;
constexpr std::size_t kMaxListed = 20;
constexpr std::string_view kHint = "choose one with --tag";

Error malformed(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("malformed ", text::escape(what)));
}

const Json* member(const Json& object, const char* key) {
  const auto* members = object.get_ptr<const Json::object_t*>();
  if (members == nullptr) return nullptr;
  const auto at = members->find(key);
  return at == members->end() || at->second.is_null() ? nullptr : &at->second;
}

/// A text member; "" where there is none.
std::string text_of(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

const Json& list_of(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  const Json* value = member(object, key);
  return value != nullptr && value->is_array() ? *value : kNone;
}

Result<Json> parse(std::string_view text, std::string_view what) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return malformed(what);
  return json;
}

/// A name as people write it: without the registry and the folder that Docker leaves out.
std::string_view short_name(std::string_view name) {
  for (const std::string_view prefix : {"docker.io/", "library/"}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  return name;
}

bool is_called(std::string_view name, std::string_view tag) {
  if (short_name(name) == short_name(tag)) return true;
  const std::size_t colon = name.rfind(':');
  return colon != std::string_view::npos && name.substr(colon + 1) == tag;
}

std::string listed(std::vector<std::string> names) {
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const bool is_long = names.size() > kMaxListed;
  if (is_long) names.resize(kMaxListed);
  return text::escape(text::join(names, ", ")) + (is_long ? ", ..." : "");
}

/// A manifest that an index leads to.
struct Candidate {
  std::string digest;
  std::vector<std::string> names;
  bool has_platform = false;
  std::string os;
  std::string architecture;
  std::string variant;
  int rank = 0;
};

/// Reads an OCI layout.
class OciReader {
 public:
  OciReader(const FindText& find, const std::string& tag) : find_(find), tag_(tag) {}

  Result<ImagePlan> plan(const Json& index) {
    SBX_TRY(collect(index, {}, 0));
    if (found_.empty()) return Error(Errc::kNotFound, "index.json names no image");
    SBX_TRY(keep_tagged());
    for (Candidate& candidate : found_)
      SBX_TRY(rank(candidate));
    SBX_ASSIGN(const Candidate chosen, choose());
    return read(chosen.digest);
  }

 private:
  /// The text of a blob, its digest checked.
  Result<std::string> blob(const std::string& digest, std::string_view what) {
    SBX_TRY(check_digest(digest));
    SBX_ASSIGN(std::optional<std::string> text, find_(blob_path(digest)));
    if (!text.has_value()) {
      return Error(Errc::kNotFound, text::cat("blob ", digest, " is missing (", what, ")"));
    }
    Sha256 sum;
    sum.update(*text);
    if (const std::string is = "sha256:" + sum.hex(); is != digest) {
      return Error(Errc::kProtocol,
                   text::cat("blob ", digest, " (", what, ") has another digest: ", is));
    }
    return *std::move(text);
  }

  Status collect(const Json& index, const std::vector<std::string>& names, int depth) {
    if (depth > kMaxIndexDepth) return Error(Errc::kLimit, "indexes within indexes, too deep");
    for (const Json& entry : list_of(index, "manifests"))
      SBX_TRY(collect_entry(entry, names, depth));
    return {};
  }

  Status collect_entry(const Json& entry, std::vector<std::string> names, int depth) {
    if (++seen_ > kMaxManifests) {
      return Error(Errc::kLimit, text::cat("more than ", kMaxManifests, " manifests"));
    }
    const Json* notes = member(entry, "annotations");
    if (notes != nullptr) {
      if (member(*notes, "vnd.docker.reference.type") != nullptr) return {};  // about an image
      for (const char* key : {"io.containerd.image.name", "org.opencontainers.image.ref.name"}) {
        if (std::string name = text_of(*notes, key); !name.empty()) names.push_back(name);
      }
    }
    Candidate candidate;
    candidate.digest = text_of(entry, "digest");
    candidate.names = std::move(names);
    const Json* platform = member(entry, "platform");
    if (platform != nullptr) {
      candidate.has_platform = true;
      candidate.os = text_of(*platform, "os");
      candidate.architecture = text_of(*platform, "architecture");
      candidate.variant = text_of(*platform, "variant");
    }
    const std::string type = text_of(entry, "mediaType");
    const bool is_index = type.ends_with(".index.v1+json") || type.ends_with(".list.v2+json");
    if (!is_index) {
      found_.push_back(std::move(candidate));
      return {};
    }
    SBX_ASSIGN(const std::string text, blob(candidate.digest, "an index"));
    SBX_ASSIGN(const Json index, parse(text, "index"));
    return collect(index, candidate.names, depth + 1);
  }

  Status keep_tagged() {
    if (tag_.empty()) return {};
    std::vector<std::string> all = all_names();
    std::erase_if(found_, [this](const Candidate& candidate) {
      return std::ranges::none_of(candidate.names,
                                  [this](const auto& name) { return is_called(name, tag_); });
    });
    if (!found_.empty()) return {};
    return Error(Errc::kNotFound, text::cat("no image in it is called ", text::escape(tag_)))
        .with_hint(all.empty() ? "the one in it has no name: leave the tag out"
                               : text::cat("there are: ", listed(std::move(all))));
  }

  std::vector<std::string> all_names() const {
    std::vector<std::string> names;
    for (const Candidate& candidate : found_) {
      names.insert(names.end(), candidate.names.begin(), candidate.names.end());
    }
    return names;
  }

  Status rank(Candidate& candidate) {
    if (!candidate.has_platform && found_.size() > 1) {
      // Its configuration says.
      SBX_ASSIGN(const ImagePlan plan, read(candidate.digest));
      candidate.os = plan.image.os;
      candidate.architecture = plan.image.architecture;
      candidate.variant = plan.image.variant;
    }
    candidate.rank = platform_rank(candidate.os, candidate.architecture, candidate.variant);
    return {};
  }

  Result<Candidate> choose() {
    const auto best = std::ranges::max_element(
        found_, [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
    if (best->rank == 0) {
      std::vector<std::string> platforms;
      for (const Candidate& candidate : found_) {
        platforms.push_back(platform_name(candidate.os, candidate.architecture, candidate.variant));
      }
      return Error(Errc::kNotFound,
                   text::cat("it has no image for ",
                             platform_name("linux", host_architecture(), ""),
                             ", only for ",
                             listed(std::move(platforms))));
    }
    for (const Candidate& other : found_) {
      if (&other == &*best || other.rank != best->rank || other.digest == best->digest) continue;
      return Error(Errc::kUsage, "it has several images: " + listed(all_names()))
          .with_hint(std::string(kHint));
    }
    return *best;
  }

  Result<ImagePlan> read(const std::string& digest) {
    SBX_ASSIGN(const std::string text, blob(digest, "a manifest"));
    SBX_ASSIGN(const Json manifest, parse(text, "manifest"));
    const Json* config = member(manifest, "config");
    if (config == nullptr) {
      return Error(Errc::kUnsupported, "the manifest is of a kind that is not known (no config)");
    }
    const std::string type = text_of(*config, "mediaType");
    const bool is_image = type.empty() || type == "application/vnd.oci.image.config.v1+json" ||
                          type == "application/vnd.docker.container.image.v1+json";
    if (!is_image) {
      return Error(Errc::kUnsupported, text::cat("it is no image but ", text::escape(type)));
    }
    ImagePlan plan;
    SBX_ASSIGN(const std::string settings, blob(text_of(*config, "digest"), "a configuration"));
    SBX_ASSIGN(plan.image, parse_image_config(settings));
    const Json& layers = list_of(manifest, "layers");
    if (layers.size() != plan.image.diff_ids.size()) {
      return Error(Errc::kProtocol, "manifest and configuration name different numbers of layers");
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string layer = text_of(layers[i], "digest");
      SBX_TRY(check_digest(layer));
      SBX_TRY(check_type(layer, text_of(layers[i], "mediaType")));
      plan.layers.push_back({blob_path(layer), plan.image.diff_ids[i]});
    }
    return plan;
  }

  static Status check_type(const std::string& digest, const std::string& type) {
    const bool is_known =
        type.empty() || ((type.starts_with("application/vnd.oci.image.layer.") ||
                          type.starts_with("application/vnd.docker.image.rootfs.")) &&
                         type.find("encrypted") == std::string::npos);
    if (is_known) return {};
    return Error(Errc::kUnsupported,
                 text::cat("layer ", digest, " is of the unknown kind ", text::escape(type)));
  }

  const FindText& find_;
  const std::string& tag_;
  std::vector<Candidate> found_;
  std::size_t seen_ = 0;
};

/// The digest that the name of a file of `docker save` holds, "" where it holds none.
std::string digest_in_name(std::string_view path) {
  path.remove_prefix(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
  if (path.starts_with("sha256:")) path.remove_prefix(7);
  if (path.ends_with(".json")) path.remove_suffix(5);
  const std::string digest = text::cat("sha256:", path);
  return check_digest(digest).ok() ? digest : std::string();
}

Result<Json> choose_saved(const Json& manifests, const std::string& tag) {
  if (!manifests.is_array() || manifests.empty()) return malformed("manifest.json");
  std::vector<std::string> names;
  std::vector<const Json*> found;
  for (const Json& entry : manifests) {
    bool is_wanted = tag.empty();
    for (const Json& name : list_of(entry, "RepoTags")) {
      if (!name.is_string()) return malformed("manifest.json");
      names.push_back(name.get<std::string>());
      is_wanted = is_wanted || is_called(names.back(), tag);
    }
    if (is_wanted) found.push_back(&entry);
  }
  if (found.size() == 1) return *found.front();
  if (found.empty()) {
    return Error(Errc::kNotFound, text::cat("no image in it is called ", text::escape(tag)))
        .with_hint(names.empty() ? "the one in it has no name: leave the tag out"
                                 : text::cat("there are: ", listed(std::move(names))));
  }
  return Error(Errc::kUsage, "it has several images: " + listed(std::move(names)))
      .with_hint(std::string(kHint));
}

Result<ImagePlan> plan_saved(const FindText& find,
                             const std::string& text,
                             const std::string& tag) {
  SBX_ASSIGN(const Json manifests, parse(text, "manifest.json"));
  SBX_ASSIGN(const Json entry, choose_saved(manifests, tag));
  const std::string config = text_of(entry, "Config");
  const auto path = archive_path(config);
  if (!path.has_value() || path->empty()) return malformed("manifest.json");
  SBX_ASSIGN(const std::optional<std::string> settings, find(*path));
  if (!settings.has_value()) {
    return Error(Errc::kNotFound,
                 text::cat("the configuration ", text::escape(config), " is missing"));
  }
  if (const std::string digest = digest_in_name(*path); !digest.empty()) {
    Sha256 sum;
    sum.update(*settings);
    if (const std::string is = "sha256:" + sum.hex(); is != digest) {
      return Error(
          Errc::kProtocol,
          text::cat("the configuration ", text::escape(config), " has another digest: ", is));
    }
  }
  ImagePlan plan;
  SBX_ASSIGN(plan.image, parse_image_config(*settings));
  const Json& layers = list_of(entry, "Layers");
  if (layers.size() != plan.image.diff_ids.size()) {
    return Error(Errc::kProtocol,
                 "manifest.json and configuration name different numbers of layers");
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto layer = archive_path(layers[i].is_string() ? layers[i].get<std::string>() : "..");
    if (!layer.has_value()) return malformed("manifest.json");
    plan.layers.push_back({*layer, plan.image.diff_ids[i]});
  }
  return plan;
}

Status check_platform(const ImagePlan& plan) {
  const ImageConfig& image = plan.image;
  if (platform_rank(image.os, image.architecture, image.variant) > 0) return {};
  return Error(Errc::kUnsupported,
               text::cat("the image is for ",
                         platform_name(image.os, image.architecture, image.variant),
                         ", this machine is ",
                         platform_name("linux", host_architecture(), "")));
}

}  // namespace

std::string blob_path(std::string_view digest) {
  const std::size_t colon = digest.find(':');
  if (colon == std::string_view::npos) return {};
  return text::cat("blobs/", digest.substr(0, colon), "/", digest.substr(colon + 1));
}

Result<ImagePlan> plan_image(const FindText& find, const std::string& tag) {
  Result<ImagePlan> plan = Error(Errc::kNotFound, "it has neither index.json nor manifest.json");
  SBX_ASSIGN(const std::optional<std::string> index, find("index.json"));
  if (index.has_value()) {
    SBX_ASSIGN(const Json json, parse(*index, "index.json"));
    plan = OciReader(find, tag).plan(json);
  } else {
    SBX_ASSIGN(const std::optional<std::string> saved, find("manifest.json"));
    if (saved.has_value()) plan = plan_saved(find, *saved, tag);
  }
  if (!plan.ok()) return plan;
  SBX_TRY(check_platform(plan.value()));
  return plan;
}

bool is_image_path(std::string_view path) {
  constexpr std::array<std::string_view, 5> kNames{
      "oci-layout", "index.json", "manifest.json", "repositories", "blobs"};
  constexpr std::size_t kHexDigits = 64;
  std::string_view top = path.substr(0, path.find('/'));
  if (std::ranges::find(kNames, top) != kNames.end()) return true;
  if (top.starts_with("sha256:")) top.remove_prefix(7);
  for (const std::string_view ending : {".json", ".tar", ".tar.gz"}) {
    if (top.size() == kHexDigits + ending.size() && top.ends_with(ending)) {
      top.remove_suffix(ending.size());
    }
  }
  return check_digest(text::cat("sha256:", top)).ok();
}

std::optional<std::string> archive_path(std::string_view path) {
  std::vector<std::string> parts;
  for (const std::string_view part : text::split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.emplace_back(part);
    } else if (parts.empty()) {
      return std::nullopt;
    } else {
      parts.pop_back();
    }
  }
  return text::join(parts, "/");
}

}  // namespace sbx::image
