// Record: see record.h.
#include "core/image/record.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/base/sha256.h"
#include "core/base/text.h"

#include <nlohmann/json.hpp>

namespace sbx::image {

namespace {

// What is written keeps its order. What is read does not: a member is found there in logarithmic
// time, whatever the number of members is.
using Out = nlohmann::ordered_json;
using In = nlohmann::json;

constexpr std::size_t kLongestName = 200;
constexpr std::size_t kDigits = 24;

template <typename Json>
std::string dump_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

Out config_json(const Config& config) {
  Out labels = Out::array();
  for (const auto& [key, value] : config.labels) {
    labels.push_back({key, value});
  }
  return {{"entrypoint", config.entrypoint},
          {"cmd", config.cmd},
          {"env", config.env},
          {"user", config.user},
          {"workdir", config.workdir},
          {"volumes", config.volumes},
          {"exposed_ports", config.exposed_ports},
          {"labels", labels},
          {"stop_signal", config.stop_signal}};
}

/// Reads members of an object; one that is missing or of another kind spoils the whole.
class Reader {
 public:
  explicit Reader(const In& object) : object_(object), ok_(object.is_object()) {}

  void text(const char* key, std::string& into) {
    const In* const value = find(key);
    if (value != nullptr && value->is_string()) {
      into = value->get<std::string>();
    } else {
      ok_ = false;
    }
  }
  void texts(const char* key, std::vector<std::string>& into) {
    for (const In& item : list(key)) {
      if (!item.is_string()) {
        ok_ = false;
        return;
      }
      into.push_back(item.get<std::string>());
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
  /// The items of a list; none where there is no list.
  const In& list(const char* key) {
    static const In kNone = In::array();
    const In* const value = find(key);
    if (value != nullptr && value->is_array()) return *value;
    ok_ = false;
    return kNone;
  }
  const In* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto at = object_.find(key);
    return at == object_.end() ? nullptr : &*at;
  }
  bool ok() const { return ok_; }
  void spoil() { ok_ = false; }

 private:
  const In& object_;
  bool ok_;
};

bool read_config(const In& json, Config& into) {
  Reader reader(json);
  reader.texts("entrypoint", into.entrypoint);
  reader.texts("cmd", into.cmd);
  reader.texts("env", into.env);
  reader.text("user", into.user);
  reader.text("workdir", into.workdir);
  reader.texts("volumes", into.volumes);
  reader.texts("exposed_ports", into.exposed_ports);
  reader.text("stop_signal", into.stop_signal);
  for (const In& pair : reader.list("labels")) {
    const bool is_pair =
        pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string();
    if (!is_pair) return false;
    into.labels.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  }
  return reader.ok();
}

bool read_layers(Reader& reader, std::vector<LayerRef>& into) {
  const In& list = reader.list("layers");
  if (list.size() > kMostLayers) return false;
  for (const In& item : list) {
    Reader layer(item);
    LayerRef& ref = into.emplace_back();
    layer.text("id", ref.id);
    layer.text("diff_id", ref.diff_id);
    layer.number("bytes", ref.bytes);
    if (!layer.ok()) return false;
  }
  return reader.ok();
}

}  // namespace

std::string to_json(const Record& record) {
  Out layers = Out::array();
  for (const LayerRef& layer : record.layers) {
    layers.push_back({{"id", layer.id}, {"diff_id", layer.diff_id}, {"bytes", layer.bytes}});
  }
  const Out json{{"format", kRecordFormat},
                 {"name", record.name},
                 {"id", record.id},
                 {"created_ns", record.created_ns},
                 {"source", record.source},
                 {"os", record.os},
                 {"architecture", record.architecture},
                 {"variant", record.variant},
                 {"config", config_json(record.config)},
                 {"layers", layers}};
  return dump_line(json) + "\n";
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
  if (*format > kRecordFormat) {
    return Error(Errc::kUnsupported, "it was written by a newer sbx")
        .with_hint("use that sbx for this image; this one changes nothing of it");
  }
  Record record;
  Reader reader(json);
  reader.text("name", record.name);
  reader.text("id", record.id);
  reader.number("created_ns", record.created_ns);
  reader.text("source", record.source);
  reader.text("os", record.os);
  reader.text("architecture", record.architecture);
  reader.text("variant", record.variant);
  const In* config = reader.find("config");
  const bool is_whole = config != nullptr && read_config(*config, record.config) &&
                        read_layers(reader, record.layers) && reader.ok();
  if (!is_whole) return Error(Errc::kProtocol, "the record lacks a part");
  return record;
}

std::string image_layer_id(std::string_view key) {
  Sha256 digest;
  digest.update(key);
  return "img-" + digest.hex().substr(0, kDigits);
}

std::string identity(const Record& record) {
  Out layers = Out::array();
  for (const LayerRef& layer : record.layers) {
    layers.push_back({layer.id, layer.diff_id});
  }
  const Out all{record.os,
                record.architecture,
                record.variant,
                config_json(record.config),
                std::move(layers)};
  Sha256 digest;
  digest.update(dump_line(all));
  return "sha256:" + digest.hex();
}

std::string_view host_architecture() {
  struct Row {
    std::string_view machine;  // utsname's
    std::string_view oci;
  };
  constexpr std::array<Row, 8> kRows{{{"x86_64", "amd64"},
                                      {"aarch64", "arm64"},
                                      {"i686", "386"},
                                      {"armv7l", "arm"},
                                      {"riscv64", "riscv64"},
                                      {"ppc64le", "ppc64le"},
                                      {"s390x", "s390x"},
                                      {"loongarch64", "loong64"}}};
  utsname host{};
  if (::uname(&host) != 0) return "unknown";
  const std::string_view machine = static_cast<const char*>(host.machine);
  for (const Row& row : kRows) {
    if (row.machine == machine) return row.oci;
  }
  return "unknown";
}

Status check_name(std::string_view name) {
  constexpr std::string_view kAlso = "._/:@+-";
  const auto slashes = static_cast<std::size_t>(std::count(name.begin(), name.end(), '/'));
  const bool is_name = !name.empty() && is_alnum(name.front()) &&
                       name.size() + 2 * slashes <= kLongestName &&
                       std::all_of(name.begin(), name.end(), [kAlso](char c) {
                         return is_alnum(c) || kAlso.find(c) != std::string_view::npos;
                       });
  if (is_name) return {};
  return Error(Errc::kUsage, text::cat("\"", text::escape(name), "\" is no name for an image"))
      .with_hint(text::cat("a letter or digit, then letters, digits and . _ / : @ + -, at most ",
                           kLongestName,
                           " in all, e.g. debian or team/tools:2"));
}

}  // namespace sbx::image
