// Tests of pull: how skopeo is asked, what its words mean; no network.
#include "core/image/pull.h"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sbx;
using namespace sbx::image;

TEST_CASE("pull: a name without a transport is one of a registry") {
  struct Row {
    std::string_view ref;
    std::string_view source;
    std::string_view name;
  };
  for (const Row& row :
       {Row{"debian:12", "docker://debian:12", "debian:12"},
        Row{"h:5000/a/b@sha256:00", "docker://h:5000/a/b@sha256:00", "h:5000/a/b@sha256:00"},
        Row{"docker://quay.io/x", "docker://quay.io/x", "quay.io/x"},
        Row{"containers-storage:localhost/app",
            "containers-storage:localhost/app",
            "localhost/app"},
        Row{"oci:/tmp/layout:1", "oci:/tmp/layout:1", "tmp/layout:1"}}) {
    CAPTURE(row.ref);
    CHECK(skopeo_source(row.ref).value() == row.source);
    CHECK(pull_name(row.ref) == row.name);
  }
}

TEST_CASE("pull: what could be taken for a flag, or is no name, is refused") {
  for (const std::string_view ref : {"", "-x", "--help", "a b", "a\nb", "a\tb"}) {
    CAPTURE(ref);
    const auto source = skopeo_source(ref);
    REQUIRE(!source.ok());
    CHECK(source.error().code() == Errc::kUsage);
    CHECK(!source.error().hint().empty());
  }
  CHECK(!skopeo_source(std::string_view("a\0b", 3)).ok());
}

TEST_CASE("pull: of skopeo's last line only what it says is shown") {
  CHECK(skopeo_message("time=\"2026\" level=warning msg=\"first\"\n"
                       "time=\"2026\" level=fatal msg=\"Error \\\"x\\\": denied\"\n") ==
        "Error \"x\": denied");
  CHECK(skopeo_message("FATA[0000] no such thing") == "FATA[0000] no such thing");
  CHECK(skopeo_message("") == "");
  CHECK(skopeo_message("msg=\"not ended") == "not ended");
  CHECK(skopeo_message("msg=\"ends in a backslash\\") == "ends in a backslash\\");
}

TEST_CASE("pull: the size is the sum of the layers, when all of them say theirs") {
  CHECK(inspected_size(R"({"LayersData":[{"Size":3},{"Size":4}]})") == 7U);
  CHECK(inspected_size(R"({"LayersData":[]})") == 0U);
  for (const std::string_view text :
       {"",
        "[]",
        "{}",
        R"({"LayersData":{}})",
        R"({"LayersData":[1]})",
        R"({"LayersData":[{}]})",
        R"({"LayersData":[{"Size":-1}]})",
        R"({"LayersData":[{"Size":"3"}]})",
        R"({"LayersData":[{"Size":18446744073709551615},{"Size":2}]})"}) {
    CAPTURE(text);
    CHECK(!inspected_size(text).has_value());
  }
}
