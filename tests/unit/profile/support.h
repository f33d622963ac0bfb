// Support: a scratch directory with profile files, and shorthands for loading from it.
#pragma once

#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/profile/diagnostics.h"
#include "core/profile/profile.h"
#include "core/profile/yaml.h"

namespace sbx::profile::test {

/// Built with a sanitizer or without optimisation: measured times and sizes mean little.
#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
inline constexpr bool kIsSlowBuild = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kIsSlowBuild = true;
#else
inline constexpr bool kIsSlowBuild = false;
#endif
#else
inline constexpr bool kIsSlowBuild = false;
#endif

inline std::string read_text(const std::string& path) {
  const Result<std::string> text = fs::read_file(path, Bytes{16UL * 1024 * 1024});
  REQUIRE_MESSAGE(text.ok(), path);
  return text.value();
}

/// A host of our own: user's and system's directories, a project, an environment.
class Host {
 public:
  Host() : dir_(make()) {
    for (const char* each : {"/user", "/system", "/project", "/home", "/state"}) {
      REQUIRE(fs::mkdirs(path(each), 0700).ok());
    }
    env_["HOME"] = path("/home");
  }

  std::string path(const std::string& rel) const { return dir_.path() + rel; }

  void write(const std::string& rel, std::string_view text) const {
    std::ofstream file(path(rel), std::ios::binary);
    file << text;
    REQUIRE(file.good());
  }

  void set_env(const std::string& name, const std::string& value) { env_[name] = value; }

  LoadRequest request(const std::string& name_or_path) const {
    LoadRequest request;
    request.name_or_path = name_or_path;
    request.dirs = SearchDirs{path("/user"), path("/system")};
    request.state_dir = path("/state");
    request.env = [env = env_](const std::string& name) -> std::optional<std::string> {
      const auto found = env.find(name);
      return found == env.end() ? std::nullopt : std::optional(found->second);
    };
    return request;
  }

  /// Loads the text as a project's profile.
  Result<Profile> load_text(std::string_view text) const {
    write("/project/t.yaml", text);
    return load(request(path("/project/t.yaml")));
  }

  /// "LINE:COLUMN: message" of each mistake in the text.
  std::vector<std::string> mistakes(std::string_view text) const {
    write("/project/t.yaml", text);
    const auto found = check(request(path("/project/t.yaml")));
    REQUIRE(found.ok());
    std::vector<std::string> lines;
    for (const Diagnostic& each : found.value()) {
      lines.push_back(std::to_string(each.line) + ":" + std::to_string(each.column) + ": " +
                      each.message);
    }
    return lines;
  }

 private:
  static fs::TempDir make() {
    Result<fs::TempDir> dir = fs::TempDir::create("/tmp", "sbx-profile-");
    REQUIRE(dir.ok());
    return std::move(dir).value();
  }

  fs::TempDir dir_;
  std::map<std::string, std::string> env_;
};

inline Override set_key(std::string key, std::string value) {
  return {key, std::move(value), "--set " + key, Override::Mode::kSet};
}
inline Override add_to(std::string key, std::string value) {
  return {key, std::move(value), "--" + key, Override::Mode::kAdd};
}

}  // namespace sbx::profile::test
