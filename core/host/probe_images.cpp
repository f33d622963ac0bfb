// What images need: ids of their own, and the programs that get, make and pack them.
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include "core/base/text.h"
#include "core/confine/storage_ids.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

/// On PATH, or where administrators' programs are, which is not on everybody's.
std::optional<std::string> find_tool(const DoctorContext& context, std::string_view program) {
  if (auto path = find_in_path(context, program)) return path;
  for (const std::string_view dir : {"/usr/local/sbin", "/usr/sbin", "/sbin"}) {
    std::string path = text::cat(dir, "/", program);
    if (::access(text::cat(context.files.root, path).c_str(), X_OK) == 0) return path;
  }
  return std::nullopt;
}

/// Whether the program says its version; `package` has it.
Finding ask_version(const DoctorContext& context,
                    std::string_view program,
                    std::string_view package) {
  const std::string tried = text::cat("asked ", program, " for its version");
  const std::string fix = text::cat("as root: apt-get install ", package);
  const auto path = find_tool(context, program);
  if (!path) return missing(tried, text::cat("there is no ", program, " on PATH"), fix);
  const auto printed = run_helper({*path, "--version"}, kHelperDeadline);
  if (!printed.ok()) return missing(tried, printed.error());
  if (printed.value().status != 0) {
    return missing(tried, text::cat(*path, ": ", text::trim(printed.value().err)), fix);
  }
  const std::string_view first = text::split(printed.value().out, '\n').front();
  return works(text::cat(tried, ": ", text::escape(text::trim(first))));
}

}  // namespace

Finding check_images(const DoctorContext& /*context*/) {
  const std::string tried = "became root of 65,536 user ids of its own, as an import does";
  const auto ids = confine::storage_ids();
  if (!ids.ok()) return missing(tried, ids.error());
  // It changes owners there, which takes every id to be mapped.
  const Status done = confine::run_as_storage_root(ids.value(), "make a user namespace", [] {
    const bool is_whole = ::setresgid(65535, 65535, 0) == 0 && ::setresuid(65535, 65535, 0) == 0;
    return is_whole ? 0 : 1;
  });
  if (!done.ok()) return missing(tried, done.error());
  return works(text::cat(tried,
                         ids.value().kind == confine::StorageIds::Kind::kRange
                             ? ": a range of sbx"
                             : ": of /etc/subuid"));
}

Finding check_skopeo(const DoctorContext& context) {
  return ask_version(context, "skopeo", "skopeo");
}

Finding check_mmdebstrap(const DoctorContext& context) {
  return ask_version(context, "mmdebstrap", "mmdebstrap");
}

Finding check_image_files(const DoctorContext& context) {
  const std::string tried = "looked for mkfs.erofs and mke2fs";
  const auto erofs = find_tool(context, "mkfs.erofs");
  const auto ext4 = find_tool(context, "mke2fs");
  const std::string fix = "as root: apt-get install erofs-utils";
  if (erofs) return works(text::cat(tried, ": ", *erofs));
  if (!ext4) return missing(tried, "there is neither", fix);
  return weak(tried, text::cat("there is only ", *ext4, ", whose files are bigger"), fix);
}

}  // namespace sbx::host
