// Verbs image ls and image show: the images that there are, and one of them in full.
#include <array>
#include <string>
#include <vector>

#include "cli/image.h"
#include "cli/output.h"
#include "cli/runs.h"
#include "cli/session.h"
#include "cli/session_numbers.h"
#include "cli/verbs.h"
#include "core/base/text.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx image ls [-a] [-q | --json]"};
constexpr std::string_view kDetails =
    "Lists all images. The size is that of all files in it, whether other images share them or "
    "not; on the disk a layer lies once.";
constexpr std::array kFlags = {
    Flag{'a', "all", "", "Also the states that builds keep"},
    Flag{'q', "quiet", "", "Print names only"},
    kJsonLinesFlag,
};
constexpr std::array kExamples = {
    Example{"sbx image ls", "what there is, how big, where it came from"},
    Example{"sbx image ls --json | jq -r 'select(.size_bytes > 1e9) | .name'", "the big ones"},
};

bool is_shown(const std::string& name, const Invocation& given) {
  return given.has("all") || !name.starts_with(image::kCachePrefix);
}

int list(const Invocation& given) {
  Result<image::Store> store = open_images();
  if (!store.ok()) return failed(store.error());
  if (given.has("quiet")) {
    std::string lines;
    for (const std::string& name : store.value().names()) {
      if (is_shown(name, given)) lines += name + "\n";
    }
    return printed(print(lines));
  }
  std::vector<std::string> problems;
  Result<std::vector<image::Record>> all = store.value().list(problems);
  if (!all.ok()) return failed(all.error());
  std::string lines;
  std::vector<std::array<std::string, 6>> rows{{"NAME", "ID", "SIZE", "LAYERS", "MADE", "FROM"}};
  for (std::size_t i = 0; i < all.value().size(); ++i) {
    const image::Record& record = all.value()[i];
    if (!is_shown(record.name, given)) continue;
    if (given.has("json")) {
      lines += image::listing_json(record, problems[i]) + "\n";
    } else if (problems[i].empty()) {
      rows.push_back({record.name,
                      short_id(record),
                      bytes_text(image::size_of(record)),
                      std::to_string(record.layers.size()),
                      short_time(record.created_ns),
                      text::escape(record.source)});
    } else {
      rows.push_back({record.name, "-", "-", "-", "-", "unreadable: " + text::escape(problems[i])});
    }
  }
  return printed(print(given.has("json") ? lines : table_text<6>(rows)));
}

constexpr std::array<std::string_view, 1> kShowUsage = {"sbx image show NAME [--json]"};
constexpr std::string_view kShowDetails =
    "Shows one image: where it came from, the settings that programs started from it get, its "
    "layers, and which sessions use them.";
constexpr std::array kShowFlags = {kJsonFlag};
constexpr std::array kShowExamples = {
    Example{"sbx image show debian", "what it is"},
    Example{"sbx image show debian --json | jq .config.env", "for a script"},
};

class Lines {
 public:
  void add(std::string_view key, std::string_view value) {
    constexpr std::size_t kWidth = 14;
    if (value.empty()) return;
    text_ += key;
    text_.append(kWidth - key.size(), ' ');
    text_ += text::escape(value) + '\n';
  }
  void add(std::string_view key, const std::vector<std::string>& values) {
    for (const std::string& value : values) {
      add(key, value);
      key = "";
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string as_text(const image::Record& record, const image::Uses& uses) {
  const image::Config& config = record.config;
  Lines lines;
  lines.add("name", record.name);
  lines.add("id", record.id);
  lines.add("from", record.source);
  lines.add("made", short_time(record.created_ns));
  lines.add(
      "platform",
      text::cat(
          record.os, "/", record.architecture, record.variant.empty() ? "" : "/", record.variant));
  lines.add("size", bytes_text(image::size_of(record)));
  lines.add("entrypoint", text::join(config.entrypoint, " "));
  lines.add("command", text::join(config.cmd, " "));
  lines.add("user", config.user);
  lines.add("directory", config.workdir);
  lines.add("stop signal", config.stop_signal);
  lines.add("environment", config.env);
  lines.add("volumes", config.volumes);
  lines.add("ports", config.exposed_ports);
  std::vector<std::string> texts;
  for (const auto& [key, value] : config.labels) {
    texts.push_back(text::cat(key, "=", value));
  }
  lines.add("labels", texts);
  texts.clear();
  for (const image::LayerRef& layer : record.layers) {
    texts.push_back(text::cat(layer.id, "  ", bytes_text(layer.bytes)));
  }
  lines.add("layers", texts);
  lines.add("sessions", text::join(uses.sessions, " "));
  if (uses.has_runs) lines.add("in use", "by a run, an import or an export");
  return lines.take();
}

int show(const Invocation& given) {
  Result<image::Store> store = open_images();
  if (!store.ok()) return failed(store.error());
  Result<image::Record> record = store.value().find(given.words()[0]);
  if (!record.ok()) return failed(record.error());
  Result<image::Uses> uses = uses_of(store.value(), record.value());
  if (!uses.ok()) return failed(uses.error());
  return printed(print(given.has("json") ? image::details_json(record.value(), uses.value()) + "\n"
                                         : as_text(record.value(), uses.value())));
}

}  // namespace

constexpr Verb kImageLsVerb = {
    .name = "image ls",
    .summary = "List the images",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .examples = kExamples,
    .run = list,
};

constexpr Verb kImageShowVerb = {
    .name = "image show",
    .summary = "Show one image in full",
    .usage = kShowUsage,
    .details = kShowDetails,
    .flags = kShowFlags,
    .words = kOneImage,
    .examples = kShowExamples,
    .run = show,
};

}  // namespace sbx::cli
