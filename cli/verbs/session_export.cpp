// Verb session export: a session's files as an archive.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "core/archive/archive.h"
#include "core/base/exit_code.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/scratch.h"
#include "core/session/layers.h"
#include "core/session/store.h"
#include "core/session/trees.h"
#include "core/workspace/beneath.h"
#include "core/workspace/export.h"
#include "core/workspace/path_selection.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx session export NAME [-o FILE|-] [--path PATH]"};
constexpr std::string_view kDetails =
    "Makes an archive of /work, or of another path inside. Its kind follows from the end of FILE: "
    ".tar, .tar.gz, .tgz, .tar.zst, .tar.xz or .zip. With - , and where standard output is no "
    "terminal, a tar stream goes to standard output. Hard links, holes, times and user attributes "
    "are kept (zip has none of these); owners are not, and FIFOs, sockets and devices are left "
    "out. Needs no sandbox.";
constexpr std::array<Flag, 2> kFlags = {{
    {'o', "output", "FILE", "Where to; - is standard output", {}, Repeat::kOnce, Complete::kFile},
    {.name = "path", .arg = "PATH", .help = "What to export; /work when not given"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx session export web -o web.tar.zst", "the workspace as an archive"},
    {"sbx session export web --path /home/sbx | tar -t", "what is in the home directory"},
}};

/// "", or what `archive::archive_format` knows.
Result<std::string> target_of(const Invocation& given) {
  const std::string* out = given.last("output");
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  if (out == nullptr || *out == "-") {
    if (!is_terminal) return std::string();
    return Error(Errc::kUsage, "an archive is nothing for a terminal")
        .with_hint("name a file with -o FILE.tar.zst, or use a pipe");
  }
  if (archive::archive_format(*out) != archive::ArchiveFormat::kNone) return *out;
  return Error(Errc::kUsage, text::cat("unknown kind of archive: ", text::escape(*out)))
      .with_hint("use .tar, .tar.gz, .tgz, .tar.zst, .tar.xz or .zip");
}

void warn(const workspace::ExportReport& report) {
  for (const std::string& path : report.left_out) {
    print_warning(text::cat(text::escape(path), " is left out: a FIFO, socket or device"));
  }
  if (report.left_out_count > report.left_out.size()) {
    print_warning(text::cat(report.left_out_count, " such objects are left out"));
  }
  for (const std::string& path : report.changed) {
    print_warning(text::cat(text::escape(path), " was changed while it was read"));
  }
}

/// Writes `trees` at `path` to a file that appears whole.
Status write_file(const std::vector<workspace::MountedTree>& trees,
                  const std::string& path,
                  const std::string& target,
                  const std::string& state_dir) {
  const std::size_t slash = target.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? target : target.substr(slash + 1);
  SBX_ASSIGN(const run::Scratch scratch, run::Scratch::create(parent, state_dir));
  SBX_ASSIGN(
      archive::ArchiveWriter writer,
      archive::ArchiveWriter::create(text::cat(scratch.path(), "/", name), archive::Holes::kYes));
  SBX_ASSIGN(const workspace::ExportReport report, workspace::export_tree(trees, path, writer));
  SBX_TRY(writer.commit());
  SBX_TRY(sys::renameat(scratch.fd(), name, scratch.parent_fd(), name));
  warn(report);
  return sys::fsync(scratch.parent_fd());
}

Status write_stream(const std::vector<workspace::MountedTree>& trees, const std::string& path) {
  SBX_ASSIGN(archive::ArchiveWriter writer,
             archive::ArchiveWriter::create_on(
                 STDOUT_FILENO, archive::ArchiveFormat::kTar, archive::Holes::kYes));
  SBX_ASSIGN(const workspace::ExportReport report, workspace::export_tree(trees, path, writer));
  SBX_TRY(writer.commit());
  warn(report);
  return {};
}

Status run_export(const Invocation& given) {
  SBX_ASSIGN(const std::string target, target_of(given));
  const std::string* text = given.last("path");
  SBX_ASSIGN(const std::string path,
             workspace::inside_path(text == nullptr ? "/work" : *text, "work"));
  SBX_ASSIGN(const Directories dirs, directories(State::kNeeded));
  SBX_ASSIGN(const session::Store store, session::Store::open(dirs.state));
  SBX_ASSIGN(const session::Listing listing, store.look(given.words()[0]));
  session::reach_files_of(listing.record);
  SBX_ASSIGN(session::SessionTrees trees, session::open_trees(store, listing.record, ""));
  for (const std::string& problem : trees.problems) {
    print_warning(text::escape(problem));
  }
  std::vector<workspace::MountedTree> mounted;
  for (session::SessionTree& tree : trees.trees) {
    mounted.push_back({tree.target, &tree.after});
  }
  if (target.empty()) return write_stream(mounted, path);
  return write_file(mounted, path, target, dirs.state);
}

int export_verb(const Invocation& given) {
  const Status done = run_export(given);
  return done.ok() ? kExitOk : failed(done.error());
}

}  // namespace

constexpr Verb kSessionExportVerb = {
    .name = "session export",
    .summary = "Make an archive of the workspace",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1, .name = "NAME"},
    .examples = kExamples,
    .run = export_verb,
};

}  // namespace sbx::cli
