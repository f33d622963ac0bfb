// image_archive_test: images in archives and directories, as several programs write them.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/process.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/record.h"

#include "tests/support/skip.h"
#include "tests/unit/image/import_support.h"
#include "tests/unit/image/tar_builder.h"

namespace sbx::image {

using test::ImportRoom;
using test::TarBuilder;

namespace {

std::string digest(std::string_view bytes) {
  Sha256 sum;
  sum.update(bytes);
  return "sha256:" + sum.hex();
}

/// What a program of the host makes of these bytes.
std::string filtered(const ImportRoom& room,
                     const std::vector<std::string>& argv,
                     std::string_view bytes) {
  const std::string in = room.write("filter.in", bytes);
  const std::string out = room.write("filter.out", "");
  const auto from = sys::open(in, O_RDONLY);
  const auto to = sys::open(out, O_WRONLY | O_TRUNC);
  SpawnOptions options;
  options.argv = argv;
  options.in = from.value().get();
  options.out = to.value().get();
  auto child = spawn(options);
  REQUIRE(child.ok());
  REQUIRE(child.value().wait().value() == 0);
  return fs::read_file(out, Bytes{1U << 20U}).value();
}

/// The parts of an OCI layout.
class Layout {
 public:
  std::string blob(const std::string& bytes) {
    const std::string id = digest(bytes);
    blobs_["blobs/sha256/" + id.substr(7)] = bytes;
    return id;
  }
  /// Of plain layers, each stored as it is in `stored`.
  std::string manifest(const std::vector<std::string>& plain,
                       const std::vector<std::string>& stored,
                       std::string_view architecture = host_architecture(),
                       std::string_view settings = "{}") {
    std::string diff_ids;
    std::string layers;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const std::string comma = i == 0 ? "" : ",";
      diff_ids += text::cat(comma, "\"", digest(plain[i]), "\"");
      layers += text::cat(comma,
                          R"({"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":")",
                          blob(stored[i]),
                          "\"}");
    }
    const std::string config = blob(text::cat(R"({"os":"linux","architecture":")",
                                              architecture,
                                              R"(","config":)",
                                              settings,
                                              R"(,"rootfs":{"type":"layers","diff_ids":[)",
                                              diff_ids,
                                              "]}}"));
    return blob(
        text::cat(R"({"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":")",
                  config,
                  R"("},"layers":[)",
                  layers,
                  "]}"));
  }
  void name(const std::string& id, const std::string& tag, std::string_view more = "") {
    entries_.push_back(text::cat(
        R"({"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":")",
        id,
        "\"",
        more,
        tag.empty()
            ? std::string()
            : text::cat(R"(,"annotations":{"org.opencontainers.image.ref.name":")", tag, "\"}"),
        "}"));
  }
  std::map<std::string, std::string> files() const {
    auto all = blobs_;
    all["index.json"] = text::cat("{\"manifests\":[", text::join(entries_, ","), "]}");
    all["oci-layout"] = R"({"imageLayoutVersion":"1.0.0"})";
    return all;
  }
  std::string tar() const {
    TarBuilder out;
    for (const auto& [path, bytes] : files())
      out.file(path, bytes);
    return out.end();
  }
  std::map<std::string, std::string>& blobs() { return blobs_; }

 private:
  std::map<std::string, std::string> blobs_;
  std::vector<std::string> entries_;
};

Layout simple() {
  const std::string layer = TarBuilder().dir("bin").file("bin/a", "1").end();
  Layout layout;
  layout.name(layout.manifest({layer}, {layer}), "v1");
  return layout;
}

std::string docker_save(const std::string& layer, bool is_linked) {
  const std::string config = text::cat(R"({"os":"linux","architecture":")",
                                       host_architecture(),
                                       R"(","rootfs":{"diff_ids":[")",
                                       digest(layer),
                                       "\"]}}");
  const std::string name = digest(config).substr(7) + ".json";
  TarBuilder out;
  const std::string folder(64, 'a');
  out.dir(folder);
  if (is_linked) {
    out.symlink(folder + "/layer.tar", "../" + digest(layer).substr(7) + ".tar");
    out.file(digest(layer).substr(7) + ".tar", layer);
  } else {
    out.file(folder + "/VERSION", "1.0").file(folder + "/json", "{}");
    out.file(folder + "/layer.tar", layer);
  }
  out.file(name, config);
  out.file("manifest.json",
           text::cat(R"([{"Config":")",
                     name,
                     R"(","RepoTags":["x/y:v1"],"Layers":[")",
                     folder,
                     R"(/layer.tar"]}])"));
  return out.end();
}

void check_refused(const Result<Record>& record, const ImportRoom& room, std::string_view part) {
  REQUIRE(!record.ok());
  const std::string text = record.error().to_string();
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
  CHECK(room.layers().empty());
}

}  // namespace

TEST_CASE("image archive: an OCI archive, from a file and from a pipe, plain and compressed") {
  SKIP_UNLESS("image-ids");
  const std::string bytes = simple().tar();
  for (const bool is_piped : {false, true}) {
    for (const bool is_compressed : {false, true}) {
      CAPTURE(is_piped);
      CAPTURE(is_compressed);
      const ImportRoom room;
      const std::string source = is_compressed ? filtered(room, {"gzip", "-c"}, bytes) : bytes;
      const auto record = is_piped ? room.import_piped(source) : room.import(source);
      REQUIRE_MESSAGE(record.ok(), record.error().to_string());
      auto files = room.content(record.value());
      CHECK(files["bin/a"].text == "1");
      // Again: nothing is unpacked that is there.
      const auto again = is_piped ? room.import_piped(source) : room.import(source);
      REQUIRE(again.ok());
      CHECK(again.value().id == record.value().id);
      CHECK(again.value().layers[0].bytes == 1);
      CHECK(room.layers().size() == 1);
    }
  }
}

TEST_CASE("image archive: layers compressed in every known way") {
  SKIP_UNLESS("image-ids");
  const std::string layer = TarBuilder().dir("bin").file("bin/a", std::string(100'000, 'c')).end();
  for (const char* program : {"gzip", "bzip2", "xz", "zstd", "lz4"}) {
    if (::access((std::string("/usr/bin/") + program).c_str(), X_OK) != 0 &&
        ::access((std::string("/bin/") + program).c_str(), X_OK) != 0) {
      continue;
    }
    CAPTURE(program);
    const ImportRoom room;
    const std::string stored = filtered(room, {program, "-q", "-c"}, layer);
    Layout layout;
    layout.name(layout.manifest({layer}, {stored}), "");
    const auto record = room.import(layout.tar());
    REQUIRE_MESSAGE(record.ok(), record.error().to_string());
    CHECK(record.value().layers[0].diff_id == digest(layer));
    CHECK(room.content(record.value())["bin/a"].size == 100'000);
    // The tar file of a root file system that is compressed is the same layer.
    const auto root = room.import(stored);
    REQUIRE_MESSAGE(root.ok(), root.error().to_string());
    CHECK(root.value().layers[0].id == record.value().layers[0].id);
    const auto cut = room.import(stored.substr(0, stored.size() - 12));
    CHECK(!cut.ok());
  }
}

TEST_CASE("image archive: a layout that is a directory; its files lead nowhere else") {
  SKIP_UNLESS("image-ids");
  const ImportRoom room;
  for (const char* name : {"layout", "layout/blobs", "layout/blobs/sha256"}) {
    REQUIRE(::mkdir(room.path(std::string("source/") + name).c_str(), 0755) == 0);
  }
  for (const auto& [path, bytes] : simple().files())
    room.write("layout/" + path, bytes);
  const auto record = room.import_path(room.path("source/layout"));
  REQUIRE_MESSAGE(record.ok(), record.error().to_string());
  CHECK(room.content(record.value())["bin/a"].text == "1");
  REQUIRE(::unlink(room.path("source/layout/index.json").c_str()) == 0);
  REQUIRE(::symlink("/etc/passwd", room.path("source/layout/index.json").c_str()) == 0);
  CHECK(!room.import_path(room.path("source/layout")).ok());
  const auto none = room.import_path(room.path("beside"));
  REQUIRE(!none.ok());
  CHECK(none.error().hint().find("tar -C ") == 0);
}

TEST_CASE("image archive: docker save, old and with links") {
  SKIP_UNLESS("image-ids");
  const std::string layer = TarBuilder().file("a", "1").end();
  for (const bool is_linked : {false, true}) {
    CAPTURE(is_linked);
    for (const bool is_piped : {false, true}) {
      const ImportRoom room;
      const std::string bytes = docker_save(layer, is_linked);
      const auto record = is_piped ? room.import_piped(bytes) : room.import(bytes);
      REQUIRE_MESSAGE(record.ok(), record.error().to_string());
      CHECK(room.content(record.value())["a"].text == "1");
    }
    const ImportRoom room;
    const std::string path = room.write("archive", docker_save(layer, is_linked));
    CHECK(room.import_path(path, "v1").ok());
    CHECK(room.import_path(path, "docker.io/x/y:v1").ok());
    const auto other = room.import_path(path, "v2");
    REQUIRE(!other.ok());
    CHECK(other.error().hint() == "there are: x/y:v1");
  }
}

TEST_CASE("image archive: the settings of the image are kept") {
  SKIP_UNLESS("image-ids");
  const ImportRoom room;
  Layout layout;
  const std::string layer = TarBuilder().end();
  layout.name(layout.manifest({layer},
                              {layer},
                              host_architecture(),
                              R"({"Entrypoint":["/e"],"Cmd":["c","d"],"Env":["A=b","=x","C"],)"
                              R"("User":"u:g","WorkingDir":"w","Volumes":{"/v":{},"/a":{}},)"
                              R"("ExposedPorts":{"80/tcp":{}},"Labels":{"k":"v"},)"
                              R"("StopSignal":"SIGINT"})"),
              "");
  const auto record = room.import(layout.tar());
  REQUIRE_MESSAGE(record.ok(), record.error().to_string());
  const Config& config = record.value().config;
  CHECK(config.entrypoint == std::vector<std::string>{"/e"});
  CHECK(config.cmd == std::vector<std::string>{"c", "d"});
  CHECK(config.env == std::vector<std::string>{"A=b"});
  CHECK(config.user == "u:g");
  CHECK(config.workdir == "/w");
  CHECK(config.volumes == std::vector<std::string>{"/a", "/v"});
  CHECK(config.exposed_ports == std::vector<std::string>{"80/tcp"});
  CHECK(config.labels.size() == 1);
  CHECK(config.stop_signal == "SIGINT");
}

TEST_CASE("image archive: this machine's platform of several, and a tag of several") {
  SKIP_UNLESS("image-ids");
  const std::string ours = TarBuilder().file("ours", "1").end();
  const std::string theirs = TarBuilder().file("theirs", "1").end();
  Layout layout;
  const std::string other = host_architecture() == "s390x" ? "amd64" : "s390x";
  const auto platform = [](std::string_view architecture) {
    return text::cat(R"(,"platform":{"os":"linux","architecture":")", architecture, "\"}");
  };
  layout.name(layout.manifest({theirs}, {theirs}, other), "a", platform(other));
  SUBCASE("none for this machine") {
    const ImportRoom room;
    check_refused(room.import(layout.tar()), room, "only for linux/" + other);
  }
  SUBCASE("one for this machine, and a note about it") {
    layout.name(layout.manifest({ours}, {ours}), "a", platform(host_architecture()));
    layout.name(layout.blob("{}"), "", R"(,"platform":{"os":"unknown","architecture":"unknown"})");
    const ImportRoom room;
    for (const bool is_piped : {false, true}) {
      const auto record = is_piped ? room.import_piped(layout.tar()) : room.import(layout.tar());
      REQUIRE_MESSAGE(record.ok(), record.error().to_string());
      CHECK(room.content(record.value()).contains("ours"));
      CHECK(room.layers().size() == 1);
    }
  }
  SUBCASE("several tags") {
    layout.name(layout.manifest({ours}, {ours}), "b", platform(host_architecture()));
    layout.name(layout.manifest({theirs}, {theirs}), "c", platform(host_architecture()));
    const ImportRoom room;
    check_refused(room.import(layout.tar()), room, "--tag");
    const auto record = room.import_path(room.write("archive", layout.tar()), "b");
    REQUIRE_MESSAGE(record.ok(), record.error().to_string());
    CHECK(room.content(record.value()).contains("ours"));
    check_refused(
        ImportRoom().import_path(room.path("source/archive"), "d"), ImportRoom(), "a, b, c");
  }
}

TEST_CASE("image archive: blobs that are missing, changed or not what the configuration says") {
  SKIP_UNLESS("image-ids");
  const std::string layer = TarBuilder().file("a", "1").end();
  const std::string other = TarBuilder().file("a", "2").end();
  for (const bool is_piped : {false, true}) {
    CAPTURE(is_piped);
    const auto import = [&](const ImportRoom& room, const std::string& bytes) {
      return is_piped ? room.import_piped(bytes) : room.import(bytes);
    };
    Layout whole = simple();
    for (const auto& blob : whole.blobs()) {
      const std::string& path = blob.first;
      CAPTURE(path);
      Layout missing = simple();
      missing.blobs().erase(path);
      const ImportRoom one;
      check_refused(import(one, missing.tar()), one, "missing");
      Layout changed = simple();
      changed.blobs()[path].back() ^= 1;
      const ImportRoom two;
      check_refused(import(two, changed.tar()), two, "digest");
    }
    Layout wrong;
    wrong.name(wrong.manifest({other}, {layer}), "");
    const ImportRoom room;
    check_refused(import(room, wrong.tar()), room, "the configuration says");
  }
}

TEST_CASE("image archive: what is no image, too much or of another kind is refused by name") {
  SKIP_UNLESS("image-ids");
  const auto refused = [](const std::string& bytes, std::string_view part) {
    const ImportRoom room;
    check_refused(room.import(bytes), room, part);
  };
  refused(TarBuilder().file("oci-layout", "{}").end(), "neither index.json nor manifest.json");
  refused(TarBuilder().file("index.json", "{}").end(), "names no image");
  refused(TarBuilder().file("index.json", "[").end(), "malformed index.json");
  refused(TarBuilder().file("index.json", "{}").file("index.json", "{}").end(), "twice");
  refused(TarBuilder().file("manifest.json", "[]").end(), "malformed manifest.json");
  refused(TarBuilder().file("manifest.json", R"([{"Config":"../x"}])").end(), "malformed");
  refused(TarBuilder().file("manifest.json", "[" + std::string(5U << 20U, ' ') + "]").end(),
          "too long");
  refused(TarBuilder().file("index.json", std::string(1'000'000, '[')).end(), "malformed");
  refused(TarBuilder().file("index.json", R"({"manifests":[{"digest":"sha512:00"}]})").end(),
          "sha512");
  refused(TarBuilder().dir("blobs").file("blobs/../../x", "{}").end(), "out of the archive");
  Layout artifact;
  artifact.name(
      artifact.blob(R"({"config":{"mediaType":"application/vnd.cncf.helm.config.v1+json"}})"), "");
  refused(artifact.tar(), "helm");
  Layout loop;
  const std::string index = loop.blob("{}");
  loop.name(index, "", R"(,"mediaType":"application/vnd.oci.image.index.v1+json")");
  refused(loop.tar(), "image");
}

TEST_CASE("image archive: a layer takes from those below what it does not say") {
  SKIP_UNLESS("image-ids");
  const std::string low =
      TarBuilder()
          .add({.name = "d", .type = '5', .mode = 0750, .uid = 3, .gid = 4, .mtime = 77})
          .add({.name = "d/f", .mode = 0640, .uid = 5, .gid = 6}, "content")
          .dir("gone")
          .file("gone/x")
          .end();
  const std::string high = TarBuilder()
                               .file("d/new", "1")
                               .hard_link("h", "d/f")
                               .hard_link("i", "d/f")
                               .file("gone/.wh..wh..opq", "")
                               .file(".wh.gone/..", "")
                               .end();
  const std::string fixed = TarBuilder()
                                .file("d/new", "1")
                                .hard_link("h", "d/f")
                                .hard_link("i", "d/f")
                                .file("gone/y", "")
                                .end();
  Layout layout;
  layout.name(layout.manifest({low, fixed}, {low, fixed}), "");
  for (const bool is_piped : {false, true}) {
    const ImportRoom room;
    const auto record = is_piped ? room.import_piped(layout.tar()) : room.import(layout.tar());
    REQUIRE_MESSAGE(record.ok(), record.error().to_string());
    REQUIRE(record.value().layers.size() == 2);
    auto files = room.content(record.value().layers[1].id);
    CHECK(files["d"].mode == (S_IFDIR | 0750U));
    CHECK(files["d"].uid == 3);
    CHECK(files["d"].mtime == 77);
    CHECK(files["h"].text == "content");
    CHECK(files["h"].uid == 5);
    CHECK(files["h"].mode == (S_IFREG | 0640U));
    CHECK(files["h"].inode == files["i"].inode);
    // The same layer alone is another one.
    const auto alone = room.import(TarBuilder().file("d/new", "1").end());
    REQUIRE(alone.ok());
    CHECK((room.content(alone.value())["d"].mode & 0777U) == 0755);
    const auto again = room.import(layout.tar());
    REQUIRE(again.ok());
    CHECK(again.value().id == record.value().id);
    CHECK(room.layers().size() == 3);
  }
  Layout bad;
  bad.name(bad.manifest({low, high}, {low, high}), "");
  const ImportRoom room;
  check_refused(room.import(bad.tar()), room, "..");
}

TEST_CASE("image archive: a layer twice is stacked once; one that hides all stands alone") {
  SKIP_UNLESS("image-ids");
  const std::string a = TarBuilder().file("a", "1").end();
  const std::string b = TarBuilder().file("b", "1").end();
  const std::string hides = TarBuilder().file("c", "1").file(".wh..wh..opq", "").end();
  const ImportRoom room;
  Layout twice;
  twice.name(twice.manifest({a, b, a}, {a, b, a}), "");
  const auto stacked = room.import(twice.tar());
  REQUIRE_MESSAGE(stacked.ok(), stacked.error().to_string());
  REQUIRE(stacked.value().layers.size() == 2);
  CHECK(stacked.value().layers[0].diff_id == digest(b));
  Layout hidden;
  hidden.name(hidden.manifest({a, hides, b}, {a, hides, b}), "");
  const auto alone = room.import(hidden.tar());
  REQUIRE_MESSAGE(alone.ok(), alone.error().to_string());
  REQUIRE(alone.value().layers.size() == 2);
  CHECK(alone.value().layers[0].diff_id == digest(hides));
}

TEST_CASE("image archive: bombs are over the budget") {
  SKIP_UNLESS("image-ids");
  const ImportRoom room;
  const std::string zeros = TarBuilder().file("a", std::string(40U << 20U, '\0')).end();
  const std::string in = room.write("bomb", zeros);
  const std::string out = room.write("bomb.gz", "");
  const auto from = sys::open(in, O_RDONLY);
  const auto to = sys::open(out, O_WRONLY | O_TRUNC);
  SpawnOptions options;
  options.argv = {"gzip", "-9", "-c"};
  options.in = from.value().get();
  options.out = to.value().get();
  auto child = spawn(options);
  REQUIRE((child.ok() && child.value().wait().value() == 0));
  Budget budget;
  budget.ratio = 100;
  check_refused(room.import_path(out, {}, budget), room, "100 times");
  budget.ratio = 2000;
  CHECK(room.import_path(out, {}, budget).ok());
}

}  // namespace sbx::image
