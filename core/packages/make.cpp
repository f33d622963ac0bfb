// Make: see make.h.
#include "core/packages/make.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>
#include <utility>

#include "core/base/text.h"
#include "core/packages/drivers.h"
#include "core/packages/identity.h"
#include "core/profile/tool.h"
#include "core/run/run.h"

#include <nlohmann/json.hpp>

namespace sbx::packages {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kSource = "/run/sbx/packages/source";

std::string target_of(Kind kind) {
  return std::string(kind == Kind::kPip ? kPipTarget : kNpmMakingTarget);
}

/// The request in the driver's own language, in front of it.
std::string program_text(const MakeRequest& request) {
  Json json{{"target", target_of(request.kind)},
            {"source", kSource},
            {"wants", request.wants},
            {"packages", Json::array()},
            {"tree", nullptr}};
  if (request.pinned != nullptr) {
    for (const Package& each : request.pinned->packages) {
      json["packages"].push_back({{"file", each.file}, {"digest", each.digest}});
    }
    Json tree = Json::parse(request.pinned->tree, nullptr, false);
    if (!tree.is_discarded()) json["tree"] = std::move(tree);
  }
  // Letters and digits only, so that nothing in it can end the text that it is.
  const std::string data = text::base64(json.dump(-1, ' ', true, Json::error_handler_t::replace));
  if (request.kind == Kind::kPip) {
    return text::cat("import base64, json\nREQUEST = json.loads(base64.b64decode('",
                     data,
                     "'))\n",
                     pip_driver());
  }
  return text::cat("const REQUEST = JSON.parse(Buffer.from('",
                   data,
                   "', 'base64').toString('utf8'));\n",
                   npm_driver());
}

/// The job's root and interpreter, nothing of its mounts and variables, limits of our own.
Result<profile::Profile> maker_profile(const MakeRequest& request) {
  constexpr Bytes kMemory{std::uint64_t{2} << 30U};
  constexpr Bytes kOutput{std::uint64_t{64} << 20U};
  constexpr Millis kTimeout{30L * 60 * 1000};
  const profile::Profile& job = *request.profile;
  profile::Profile maker;
  maker.name = "packages";
  maker.isolation = job.isolation;
  maker.image = job.image;
  maker.language.interpreter = {interpreter_word(request.kind, job.language)};
  maker.language.main = request.kind == Kind::kPip ? "sbx-packages.py" : "sbx-packages.js";
  if (kind_of(job.language) == request.kind && !job.language.path.path.empty()) {
    maker.language.path = job.language.path;
    const std::string home = profile::process_env("HOME").value_or("");
    SBX_ASSIGN(maker.mounts, profile::tool_mounts(job.language.path, home));
  }
  const profile::HostPath& source = job.packages.source;
  maker.mounts.push_back(
      {source.path, std::string(kSource), profile::MountMode::kReadOnly, source.beneath});
  maker.mounts.push_back(
      {request.tree, target_of(request.kind), profile::MountMode::kReadWrite, {}});
  maker.limits.memory = kMemory;
  maker.limits.pids = 512;
  maker.limits.timeout = kTimeout;
  maker.limits.output = kOutput;
  maker.limits.open_files = 4096;
  return maker;
}

std::string last_line(std::string_view text) {
  text = text::trim(text);
  const std::size_t line = text.rfind('\n');
  return std::string(line == std::string_view::npos ? text : text.substr(line + 1)).substr(0, 500);
}

/// How to get a spec into the directory of archives.
std::string how_to_fill(const MakeRequest& request) {
  const std::string dir = text::escape(request.profile->packages.source.path);
  std::string specs;
  for (const std::string& want : request.wants) {
    specs += text::cat(" '", want, '\'');
  }
  return request.kind == Kind::kPip
             ? text::cat("fill it: pip download -d ", dir, specs)
             : text::cat(
                   "fill it: npm pack --pack-destination ", dir, specs, ", and what they need");
}

/// What the driver says went wrong, as ours.
Error failure(const MakeRequest& request, const std::string& code, const std::string& text) {
  const bool is_pip = request.kind == Kind::kPip;
  if (code == "no_pip" || code == "no_venv") {
    return Error(Errc::kUnsupported, text::cat("packages: Python's pip is not there: ", text))
        .with_hint("apt-get install python3-pip python3-venv");
  }
  if (code == "no_npm") {
    return Error(Errc::kUnsupported, "packages: npm is not there").with_hint("apt-get install npm");
  }
  const std::string what = text::cat("packages: ",
                                     is_pip ? "pip" : "npm",
                                     " with ",
                                     request.profile->packages.source.path,
                                     ": ",
                                     text);
  if (code == "not_found") return Error(Errc::kUsage, what).with_hint(how_to_fill(request));
  if (code == "digest") {
    return Error(Errc::kUsage, what)
        .with_hint("put the file back that was locked, or remove the lock file to choose anew");
  }
  return {Errc::kSystem, what};
}

std::optional<std::string> text_of(const Json& json, const char* key) {
  if (!json.is_object()) return std::nullopt;
  const auto at = json.find(key);
  if (at == json.end() || !at->is_string()) return std::nullopt;
  return at->get<std::string>();
}

/// The driver's answer. It comes from inside: it is checked as if anybody had written it.
Result<Locked> read_answer(const MakeRequest& request, const std::string& output) {
  const Json answer = Json::parse(output, nullptr, false);
  if (const auto code = text_of(answer, "error")) {
    return failure(request, *code, text_of(answer, "text").value_or(""));
  }
  const Error rubbish(Errc::kProtocol, "packages: what was made is not described as it should be");
  if (!answer.is_object() || !answer.contains("packages") || !answer["packages"].is_array()) {
    return rubbish;
  }
  Locked locked;
  locked.wants = request.wants;
  for (const Json& item : answer["packages"]) {
    Package package;
    package.name = text_of(item, "name").value_or("");
    package.version = text_of(item, "version").value_or("");
    // npm finds a tarball by its digest, whatever it is called.
    if (request.kind == Kind::kPip) package.file = text_of(item, "file").value_or("");
    package.digest = text_of(item, "digest").value_or("");
    package.place = text_of(item, "place").value_or("");
    locked.packages.push_back(std::move(package));
  }
  std::sort(locked.packages.begin(), locked.packages.end(), [](const Package& a, const Package& b) {
    return std::tie(a.name, a.version, a.place) < std::tie(b.name, b.version, b.place);
  });
  locked.site = text_of(answer, "site").value_or("");
  if (answer.contains("tree")) locked.tree = answer["tree"].dump();
  if (const Status sound = check(request.kind, locked); !sound.ok()) {
    return Error(sound.error()).prefixed(rubbish.message());
  }
  if (locked.packages.empty()) return rubbish;
  if (request.kind == Kind::kPip && locked.site.empty()) return rubbish;
  return locked;
}

}  // namespace

Result<Locked> make_tree(const MakeRequest& request) {
  run::Options options;
  SBX_ASSIGN(options.ready, maker_profile(request));
  options.program = {run::ProgramKind::kCode, program_text(request), {}};
  options.capture = true;
  options.state_dir = request.state_dir;
  options.private_dirs = request.private_dirs;
  options.env = [](const std::string& /*variable*/) { return std::optional<std::string>(); };
  options.warn_of_host = false;
  const run::Report report = run::attempt(options);
  if (report.outcome.cause == supervise::Cause::kInterrupted) {
    return sys_error("packages: interrupted while they were made", EINTR);
  }
  if (report.exit_status != 0) {
    std::string text =
        report.failure.has_value() ? report.failure->message : last_line(report.err.data);
    if (report.failure.has_value() && !report.err.data.empty()) {
      text += text::cat(": ", last_line(report.err.data));
    }
    return Error(Errc::kSystem, text::cat("packages: the sandbox that makes them: ", text))
        .with_hint(report.failure.has_value() ? report.failure->fix : std::string());
  }
  return read_answer(request, report.out.data);
}

}  // namespace sbx::packages
