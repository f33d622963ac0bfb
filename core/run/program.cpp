// Program: choice of the profile, place of the script, argv and environment.
#include "core/run/program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/java_class.h"

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

// Placeholders in the words of language.compile and language.interpreter.
constexpr std::string_view kSource = "{source}";
constexpr std::string_view kProgram = "{program}";
constexpr std::string_view kClass = "{class}";

bool holds(const std::vector<std::string>& words, std::string_view placeholder) {
  return std::any_of(words.begin(), words.end(), [placeholder](const std::string& word) {
    return word.find(placeholder) != std::string::npos;
  });
}

/// The words with each placeholder replaced; what was put in is not looked at again.
std::vector<std::string> filled_in(const std::vector<std::string>& words,
                                   std::string_view source,
                                   std::string_view main_class) {
  const std::array<std::pair<std::string_view, std::string_view>, 3> values{
      {{kSource, source}, {kProgram, kCompiledProgram}, {kClass, main_class}}};
  std::vector<std::string> filled;
  filled.reserve(words.size());
  for (std::string_view rest : words) {
    std::string word;
    while (!rest.empty()) {
      const auto* const value =
          std::find_if(values.begin(), values.end(), [rest](const auto& each) {
            return rest.starts_with(each.first);
          });
      word += value == values.end() ? rest.substr(0, 1) : value->second;
      rest.remove_prefix(value == values.end() ? 1 : value->first.size());
    }
    filled.push_back(std::move(word));
  }
  return filled;
}

struct Names {
  std::string source;      // in /work; empty: the script's own
  std::string main_class;  // for {class}
};

/// A source is called by its own name or language.main, but for Java, where the text decides.
Result<Names> names_of(const Program& program,
                       const Script& script,
                       const profile::Language& language) {
  const bool is_file = program.kind == ProgramKind::kFile;
  Names names;
  if (!is_file) names.source = language.main.empty() ? "main" : language.main;
  if (!holds(language.compile, kClass) && !holds(language.interpreter, kClass)) return names;
  std::string text = script.code;
  if (is_file) {
    auto content = fs::read_file(program.text, kLongestScript);
    if (!content.ok()) return std::move(content).error().with_code(Errc::kUsage);
    text = std::move(content).value();
  }
  const std::string own = is_file ? program.text : names.source;
  const std::string ending = extension_of(language.main.empty() ? own : language.main);
  if (const auto found = java_class_of(text); found.has_value()) {
    // Longer ones are no file name: the compiler says so about the name that the file has.
    if (found->file.size() + ending.size() <= NAME_MAX) names.source = found->file + ending;
    names.main_class = found->qualified();
  } else {
    const std::size_t begin = own.rfind('/') + 1;  // npos + 1 is 0
    names.main_class = own.substr(begin, own.size() - begin - extension_of(own).size());
  }
  return names;
}

}  // namespace

Result<Script> read_script(const Options& options, const profile::LoadRequest& request) {
  Script script;
  switch (options.program.kind) {
    case ProgramKind::kNone:
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

Result<Placed> place_program(const Program& program,
                             const Script& script,
                             const profile::Profile& profile,
                             Inputs& inputs) {
  if (program.kind == ProgramKind::kCommand) return Placed{.argv = program.args};
  if (program.kind == ProgramKind::kNone) {
    if (!profile.image.empty()) return Placed();
    return Error(Errc::kUsage, "nothing to run").with_hint("sbx run FILE, -c CODE or -- CMD");
  }
  const profile::Language& language = profile.language;
  std::vector<std::string> command = language.interpreter;
  if (command.empty() && language.compile.empty()) command = shebang_words(script.first_line);
  if (program.kind != ProgramKind::kFile && command.empty() && language.compile.empty()) {
    return Error(Errc::kUsage, text::cat("profile ", profile.name, " does not say what runs code"))
        .with_hint("name one that has an interpreter, e.g. -p python or -p bash");
  }
  SBX_ASSIGN(const Names names, names_of(program, script, language));
  if (program.kind == ProgramKind::kFile) {
    SBX_TRY(inputs.add_script(program.text, names.source));
  } else {
    SBX_TRY(inputs.add_text(names.source, script.code));
  }
  const std::string source = text::cat(
      "/work/", program.kind == ProgramKind::kFile ? inputs.mounts().back().name : names.source);
  Placed placed;
  placed.is_profile_command = !language.interpreter.empty();
  placed.compile = filled_in(language.compile, source, names.main_class);
  placed.argv = filled_in(command, source, names.main_class);
  if (!placed.compile.empty() && placed.argv.empty()) {
    placed.argv = {std::string(kCompiledProgram)};
  } else if (placed.compile.empty() && !holds(command, kSource)) {
    placed.argv.push_back(source);
  }
  if (!language.path.path.empty()) {
    std::vector<std::string>& command_used = placed.compile.empty() ? placed.argv : placed.compile;
    command_used.front() = language.path.path;
  }
  placed.argv.insert(placed.argv.end(), program.args.begin(), program.args.end());
  return placed;
}

namespace {

/// Variables by name, in order of first mention.
class Variables {
 public:
  void set(const std::string& name, const std::string& value) {
    const auto found = std::find_if(
        all_.begin(), all_.end(), [&](const profile::EnvVar& var) { return var.name == name; });
    if (found != all_.end()) {
      found->value = value;
    } else {
      all_.push_back({name, value});
    }
  }

  /// One more item of a variable that is a list with colons.
  void add(const profile::ListItem& item) {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const profile::EnvVar& var) {
      return var.name == item.variable;
    });
    if (found == all_.end() || found->value.empty()) {
      set(item.variable, item.item);
    } else if (item.is_first) {
      found->value = text::cat(item.item, ':', found->value);
    } else {
      found->value = text::cat(found->value, ':', item.item);
    }
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    lines.reserve(all_.size());
    for (const profile::EnvVar& var : all_) {
      lines.push_back(text::cat(var.name, '=', var.value));
    }
    return lines;
  }

 private:
  std::vector<profile::EnvVar> all_;
};

void set_defaults(const profile::Profile& profile,
                  const ImageEnvironment* image,
                  Variables& variables) {
  // Its companions go first as well: java beside javac, what was installed into a venv.
  const std::string& tool = profile.language.path.path;
  variables.set("PATH",
                tool.empty() ? std::string(kInsidePath)
                             : text::cat(tool.substr(0, tool.rfind('/')), ':', kInsidePath));
  variables.set("HOME", image != nullptr ? image->home : "/home/sbx");
  if (image == nullptr) {
    variables.set("USER", "sbx");
    variables.set("LOGNAME", "sbx");
  }
  variables.set("SHELL", "/bin/sh");
  variables.set("LANG", "C.UTF-8");
}

/// The image's own, above those that a shipped profile has for the host's programs.
void set_of_image(const profile::Profile& profile,
                  const ImageEnvironment& image,
                  Variables& variables) {
  for (const profile::EnvVar& var : profile.env) {
    if (!profile.is_explicit("env." + var.name)) variables.set(var.name, var.value);
  }
  for (const std::string& line : image.env) {
    const std::size_t equals = line.find('=');
    if (equals == 0 || equals == std::string::npos) continue;
    variables.set(line.substr(0, equals), line.substr(equals + 1));
  }
}

}  // namespace

std::vector<std::string> make_environment(const profile::Profile& profile,
                                          const profile::EnvLookup& host,
                                          bool has_terminal,
                                          const ImageEnvironment* image) {
  Variables variables;
  set_defaults(profile, image, variables);
  if (has_terminal) variables.set("TERM", host("TERM").value_or("xterm"));
  if (image != nullptr) set_of_image(profile, *image, variables);
  for (const std::string& name : profile.env_pass) {
    if (const auto value = host(name); value.has_value()) variables.set(name, *value);
  }
  for (const profile::EnvVar& var : profile.env) {
    if (image == nullptr || profile.is_explicit("env." + var.name)) {
      variables.set(var.name, var.value);
    }
  }
  for (const profile::ListItem& each : profile.list_items) {
    variables.add(each);
  }
  return variables.lines();
}

}  // namespace sbx::run
