// Apt: see apt.h.
#include "core/kernel/apt.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/image/tool.h"
#include "core/kernel/tool_run.h"
#include "core/workspace/beneath.h"

namespace sbx::kernel {

namespace {

constexpr std::string_view kKernelPrefix = "linux-image-";
constexpr const char* kElsewhere =
    "give a package or a kernel that you have: sbx kernel install --from FILE";
constexpr const char* kUpdate = "as root: apt-get update; then try again";

bool is_package_char(char c) {
  constexpr std::string_view kAlso = "+-.";
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         kAlso.find(c) != std::string_view::npos;
}

Status check_package_name(std::string_view name) {
  constexpr std::size_t kLongest = 200;
  const bool is_name = !name.empty() && name.size() <= kLongest && name.front() != '-' &&
                       std::ranges::all_of(name, is_package_char);
  if (is_name) return {};
  return Error(Errc::kUsage, text::cat("\"", text::escape(name), "\" is no name of a package"))
      .with_hint("like linux-image-amd64; a file is given with --from FILE");
}

Result<std::string> find_program(std::string_view name) {
  if (auto path = image::find_tool(name)) return *std::move(path);
  return Error(Errc::kUnsupported, text::cat("there is no ", name, " on this host"))
      .with_hint(kElsewhere);
}

/// The first kernel in "a (= 1) | b, c".
std::string first_kernel(std::string_view depends) {
  for (const std::string_view part : text::split(depends, ',')) {
    for (const std::string_view choice : text::split(part, '|')) {
      const std::string_view word = text::trim(choice);
      const auto end = std::ranges::find_if_not(word, is_package_char);
      const std::string_view name = word.substr(0, static_cast<std::size_t>(end - word.begin()));
      if (name.starts_with(kKernelPrefix)) return std::string(name);
    }
  }
  return {};
}

Result<AptFields> show(const std::string& name) {
  SBX_TRY(check_package_name(name));
  SBX_ASSIGN(const std::string program, find_program("apt-cache"));
  SBX_ASSIGN(const Said said, run_tool({program, "show", "--no-all-versions", "--", name}, "/"));
  if (!said.has_succeeded()) {
    const std::string why = apt_message(said.err);
    return Error(Errc::kNotFound,
                 text::cat("apt knows no package ", name, why.empty() ? "" : ": ", why))
        .with_hint(text::cat(kUpdate, "; or ", kElsewhere));
  }
  return parse_apt_show(said.out);
}

/// Whether it is a kernel and no name for the newest one.
bool is_kernel(const AptFields& fields) {
  return fields.depends_on.empty() || fields.depends_on == fields.package.name;
}

}  // namespace

Result<AptFields> parse_apt_show(std::string_view printed) {
  AptFields out;
  for (const std::string_view line : text::split(printed, '\n')) {
    if (line.empty()) break;  // of the first version
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos || line.front() == ' ') continue;
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = text::trim(line.substr(colon + 2));
    if (key == "Package") out.package.name = value;
    if (key == "Version") out.package.version = value;
    if (key == "Size") {
      const auto size = parse_count(value);
      if (size.ok()) out.package.bytes = size.value();
    }
    if (key == "Depends") out.depends_on = first_kernel(value);
  }
  if (out.package.name.empty() || out.package.version.empty()) {
    return Error(Errc::kProtocol, "apt-cache does not say what the package is").with_hint(kUpdate);
  }
  return out;
}

std::string apt_message(std::string_view printed) {
  constexpr std::string_view kMark = "E: ";
  for (const std::string_view line : text::split(printed, '\n')) {
    if (line.starts_with(kMark)) return text::escape(text::trim(line.substr(kMark.size())));
  }
  const auto lines = text::split(text::trim(printed), '\n');
  return text::escape(lines.back());
}

Result<AptPackage> ask_apt(const std::string& name) {
  SBX_ASSIGN(AptFields fields, show(name));
  if (is_kernel(fields)) return std::move(fields.package);
  SBX_ASSIGN(AptFields kernel, show(fields.depends_on));
  return std::move(kernel.package);
}

Result<std::string> download(const AptPackage& package, const std::string& dir) {
  SBX_ASSIGN(const std::string program, find_program("apt-get"));
  // As root it would become a user who cannot write there, and warn; it checks what it gets either
  // way.
  SBX_ASSIGN(const Said said,
             run_tool({program,
                       "-q",
                       "-o",
                       "APT::Sandbox::User=root",
                       "download",
                       "--",
                       text::cat(package.name, "=", package.version)},
                      dir));
  if (!said.has_succeeded()) {
    return Error(Errc::kSystem,
                 text::cat("download ", package.name, ": apt-get: ", apt_message(said.err)))
        .with_hint(text::cat("when the archive has moved on: ", kUpdate));
  }
  SBX_ASSIGN(const UniqueFd fd, fs::open_dir(dir));
  SBX_ASSIGN(const std::vector<std::string> names, workspace::read_names(fd.get()));
  for (const std::string& each : names) {
    if (each.ends_with(".deb")) return text::cat(dir, "/", each);
  }
  return Error(Errc::kProtocol, text::cat("download ", package.name, ": apt-get left no file"));
}

}  // namespace sbx::kernel
