// Program: choice of the profile, place of the script, argv and environment.
#include "core/run/program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::run {

namespace {

constexpr std::size_t kShebangSize = 256;  // as much of a #! line as the kernel reads (execve(2))

std::string shebang_of(std::string_view text) {
  if (!text.starts_with("#!")) return {};
  return std::string(text::trim(text.substr(0, std::min(text.find('\n'), kShebangSize))));
}

/// ".py" of "dir/a.py"; empty for ".profile" and names without a dot.
std::string extension_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? std::string() : std::string(path.substr(dot));
}

Result<std::string> read_head(const std::string& path) {
  SBX_ASSIGN(const UniqueFd fd, sys::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  SBX_ASSIGN(const struct stat st, sys::fstat(fd.get()));
  if (!S_ISREG(st.st_mode)) return std::string();  // refused as an input, in better words
  std::array<char, kShebangSize> head{};
  SBX_ASSIGN(const std::size_t n, sys::read(fd.get(), head.data(), head.size()));
  return std::string(head.data(), n);
}

Result<Script> read_file_script(const Options& options, const profile::LoadRequest& request) {
  const std::string& path = options.program.text;
  Script script;
  auto head = read_head(path);
  if (!head.ok()) return std::move(head).error().with_code(Errc::kUsage);
  script.first_line = shebang_of(head.value());
  if (options.profile.has_value()) return script;
  auto named = profile::name_for_extension(extension_of(path), request);
  if (!named.has_value() && !script.first_line.empty()) {
    named = profile::name_for_shebang(script.first_line, request);
  }
  if (named.has_value()) {
    script.fallback = *named;
    return script;
  }
  script.fallback = "base";
  const bool is_executable = ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
  if (script.first_line.empty() && !is_executable && !request.env("SBX_PROFILE").has_value()) {
    return Error(Errc::kUsage, text::cat("cannot tell what ", path, " is to be run with"))
        .with_hint(
            text::cat("name a profile: sbx run -p PROFILE ", path, "; sbx profile ls shows all"));
  }
  return script;
}

/// The words of a #! line: interpreter and at most one argument, as the kernel cuts it.
std::vector<std::string> shebang_words(std::string_view line) {
  if (!line.starts_with("#!")) return {};
  const std::string_view rest = text::trim(line.substr(2));
  const std::size_t blank = rest.find_first_of(" \t");
  if (rest.empty()) return {};
  if (blank == std::string_view::npos) return {std::string(rest)};
  return {std::string(rest.substr(0, blank)), std::string(text::trim(rest.substr(blank)))};
}

}  // namespace

Result<Script> read_script(const Options& options, const profile::LoadRequest& request) {
  Script script;
  switch (options.program.kind) {
    case ProgramKind::kNone:
      return Error(Errc::kUsage, "nothing to run").with_hint("sbx run FILE, -c CODE or -- CMD");
    case ProgramKind::kCommand:
      script.fallback = "base";
      return script;
    case ProgramKind::kFile:
      return read_file_script(options, request);
    case ProgramKind::kCode:
      script.code = options.program.text;
      script.fallback = "python";
      return script;
    case ProgramKind::kStdin: {
      SBX_ASSIGN(script.code, sys::read_all(STDIN_FILENO, kLongestScript));
      script.first_line = shebang_of(script.code);
      script.fallback = "python";
      if (!script.first_line.empty() && !options.profile.has_value()) {
        script.fallback = profile::name_for_shebang(script.first_line, request).value_or("base");
      }
      return script;
    }
  }
  return Error(Errc::kInternal, "unknown kind of program");
}

Result<std::vector<std::string>> place_program(const Program& program,
                                               const Script& script,
                                               const profile::Profile& profile,
                                               Inputs& inputs) {
  if (program.kind == ProgramKind::kCommand) return program.args;
  std::vector<std::string> argv = profile.language.interpreter;
  if (argv.empty()) argv = shebang_words(script.first_line);
  std::string name;
  if (program.kind == ProgramKind::kFile) {
    SBX_TRY(inputs.add_script(program.text));
    name = inputs.mounts().back().name;
  } else {
    if (argv.empty()) {
      return Error(Errc::kUsage,
                   text::cat("profile ", profile.name, " does not say what runs code"))
          .with_hint("name one that has an interpreter, e.g. -p python or -p bash");
    }
    name = profile.language.main.empty() ? "main" : profile.language.main;
    SBX_TRY(inputs.add_text(name, script.code));
  }
  argv.push_back(text::cat("/work/", name));
  argv.insert(argv.end(), program.args.begin(), program.args.end());
  return argv;
}

std::vector<std::string> make_environment(const profile::Profile& profile,
                                          const profile::EnvLookup& host,
                                          bool has_terminal) {
  std::vector<profile::EnvVar> all{
      {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
      {"HOME", "/home/sbx"},
      {"USER", "sbx"},
      {"LOGNAME", "sbx"},
      {"SHELL", "/bin/sh"},
      {"LANG", "C.UTF-8"},
  };
  const auto set = [&](const std::string& name, const std::string& value) {
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const profile::EnvVar& var) { return var.name == name; });
    if (found != all.end()) {
      found->value = value;
    } else {
      all.push_back({name, value});
    }
  };
  if (has_terminal) set("TERM", host("TERM").value_or("xterm"));
  for (const std::string& name : profile.env_pass) {
    if (const auto value = host(name); value.has_value()) set(name, *value);
  }
  for (const profile::EnvVar& var : profile.env) {
    set(var.name, var.value);
  }
  std::vector<std::string> lines;
  lines.reserve(all.size());
  for (const profile::EnvVar& var : all) {
    lines.push_back(text::cat(var.name, '=', var.value));
  }
  return lines;
}

}  // namespace sbx::run
