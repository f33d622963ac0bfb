// Tests of the documents of exported images and of their outer archive.
#include "core/image/oci_json.h"

#include <fcntl.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/image/blob_tar.h"

using namespace sbx;
using namespace sbx::image;

namespace {

Record some_record() {
  Record record;
  record.name = "Team/tools:2";
  record.architecture = "amd64";
  record.created_ns = 1'700'000'000'000'000'000;
  record.config.entrypoint = {"/bin/sh", "-c"};
  record.config.cmd = {"true"};
  record.config.env = {"PATH=/bin"};
  record.config.user = "app";
  record.config.workdir = "/srv";
  record.config.volumes = {"/data"};
  record.config.exposed_ports = {"80/tcp"};
  record.config.labels = {{"k", "v"}};
  record.config.stop_signal = "SIGINT";
  return record;
}

}  // namespace

TEST_CASE("oci json: names become what registries accept") {
  struct Row {
    const char* name;
    const char* repository;
    const char* tag;
  };
  const std::vector<Row> rows{{"debian", "debian", "latest"},
                              {"debian:12", "debian", "12"},
                              {"Team/Tools:V2", "team/tools", "V2"},
                              {"host:5000/a/b", "host:5000/a/b", "latest"},
                              {"host:5000/a/b:c", "host:5000/a/b", "c"},
                              {"a+b", "a-b", "latest"},
                              {"a@sha256:abc", "a", "latest"},
                              {"a..b", "a.b", "latest"},
                              {"a:", "a", "latest"},
                              {"x:-1", "x", "_1"}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Reference reference = reference_of(row.name);
    CHECK(reference.repository == row.repository);
    CHECK(reference.tag == row.tag);
  }
}

TEST_CASE("oci json: the configuration has all settings and the layers' digests") {
  const std::vector<std::string> diff_ids{"sha256:aa", "sha256:bb"};
  const std::string text = config_document(some_record(), diff_ids);
  CHECK(text == R"({"created":"2023-11-14T22:13:20Z","architecture":"amd64","os":"linux","config":)"
                R"({"User":"app","ExposedPorts":{"80/tcp":{}},"Env":["PATH=/bin"],)"
                R"("Entrypoint":["/bin/sh","-c"],"Cmd":["true"],"Volumes":{"/data":{}},)"
                R"("WorkingDir":"/srv","Labels":{"k":"v"},"StopSignal":"SIGINT"},)"
                R"("rootfs":{"type":"layers","diff_ids":["sha256:aa","sha256:bb"]},"history":)"
                R"([{"created":"2023-11-14T22:13:20Z","created_by":"sbx"},)"
                R"({"created":"2023-11-14T22:13:20Z","created_by":"sbx"}]})");
}

TEST_CASE("oci json: manifest, index and docker's manifest name their blobs") {
  const Blob config{kConfigType, "cc", 7};
  const std::vector<Blob> layers{{kLayerType, "11", 5}};
  CHECK(manifest_document(config, layers) ==
        R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",)"
        R"("config":{"mediaType":"application/vnd.oci.image.config.v1+json",)"
        R"("digest":"sha256:cc","size":7},"layers":[{"mediaType":)"
        R"("application/vnd.oci.image.layer.v1.tar","digest":"sha256:11","size":5}]})");
  CHECK(index_document(some_record(), {kManifestType, "mm", 9}) ==
        R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json",)"
        R"("manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",)"
        R"("digest":"sha256:mm","size":9,"platform":{"architecture":"amd64","os":"linux"},)"
        R"("annotations":{"org.opencontainers.image.ref.name":"2"}}]})");
  const std::vector<std::string> paths{"1.tar", "2.tar"};
  CHECK(docker_document(some_record(), "c.json", paths) ==
        R"([{"Config":"c.json","RepoTags":["team/tools:2"],"Layers":["1.tar","2.tar"]}])");
}

TEST_CASE("blob tar: a blob's name and length are put in when they are known") {
  auto dir = fs::TempDir::create("/tmp", "sbx-blob-tar-");
  REQUIRE(dir.ok());
  const std::string path = dir.value().path() + "/a.tar";
  {
    const auto file = sys::open(path, O_RDWR | O_CREAT, 0600);
    REQUIRE(file.ok());
    BlobTar tar(file.value().get());
    REQUIRE(tar.add_directory("d/").ok());
    REQUIRE(tar.begin().ok());
    REQUIRE(sys::write_all(file.value().get(), "hello").ok());
    REQUIRE(tar.end("d/blob", 5).ok());
    REQUIRE(tar.add("last", "").ok());
    REQUIRE(tar.finish().ok());
  }
  const std::string bytes = fs::read_file(path, Bytes{1U << 20U}).value();
  CHECK(bytes.size() == 512 + 1024 + 512 + 1024);
  CHECK(bytes.substr(512, 6) == "d/blob");
  CHECK(bytes.substr(512 + 124, 12) == std::string("00000000005\0", 12));
  CHECK(bytes.substr(1024, 6) == std::string("hello\0", 6));
}
