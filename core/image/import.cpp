// Import: see import.h.
//
// Theory of operation
//   1. The lock on the layers is held shared from before anything is made until the name is there.
//   2. A directory is made for the layers to come ("staging"); a crash leaves it to the sweep.
//   3. A fork that is root of the storage ids and can reach nothing but that directory reads the
//      source and unpacks layers into it (outer.h). What it reports is checked.
//   4. Layers that depend on those below them are completed, in a fork of the same kind that can
//      read those.
//   5. The file system is flushed, then the layers get the names that their content has, by rename.
//      One that is there already is left alone.
//   6. The record is written.
// Whatever fails, the staging directory goes.
#include "core/image/import.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/scope_exit.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/landlock.h"
#include "core/confine/storage_ids.h"
#include "core/image/canonical.h"
#include "core/image/layer_key.h"
#include "core/image/outer.h"
#include "core/image/worker.h"
#include "core/workspace/beneath.h"

namespace sbx::image {

namespace {

constexpr std::string_view kLayerPrefix = "img-";

Result<UniqueFd> open_source(const ImportRequest& request) {
  if (request.path == "-") return sys::dup(STDIN_FILENO);
  auto opened = sys::open(request.path, O_RDONLY | O_NOCTTY);
  if (!opened.ok()) return opened;
  SBX_ASSIGN(const struct stat st, sys::fstat(opened.value().get()));
  if (S_ISDIR(st.st_mode)) {
    return Error(Errc::kUsage,
                 text::cat(text::escape(request.path), " is a directory and no OCI layout"))
        .with_hint(text::cat(
            "tar -C ", text::escape(request.path), " -c . | sbx image import - ", request.name));
  }
  if (request.progress != nullptr && S_ISREG(st.st_mode)) {
    request.progress->total = static_cast<std::uint64_t>(st.st_size);
  }
  return opened;
}

Result<std::set<std::string>> present_layers(int layers) {
  SBX_ASSIGN(const UniqueFd dir, workspace::open_directory(layers, ""));
  SBX_ASSIGN(const std::vector<std::string> names, workspace::read_names(dir.get()));
  std::set<std::string> found;
  for (const std::string& name : names) {
    if (name.starts_with(kLayerPrefix)) found.insert(name);
  }
  return found;
}

class Import {
 public:
  Import(const Store& store, const ImportRequest& request, confine::StorageIds ids)
      : store_(store), request_(request), ids_(std::move(ids)) {}

  Result<Record> run() {
    SBX_ASSIGN(const UniqueFd source, open_source(request_));
    SBX_ASSIGN(const auto lock,
               workspace::LayersLock::take(store_.layers(), workspace::LayersLock::Mode::kShared));
    SBX_ASSIGN(workspace::NewLayer staging, workspace::NewLayer::begin(store_.layers()));
    const ScopeExit clean([&] { remove_stages(staging.fd()); });
    // Its owner inside has to be able to make entries in it.
    SBX_TRY(sys::fchown(staging.fd(), ids_.uids.front().outside, ids_.gids.front().outside));
    SBX_ASSIGN(const OuterReport report, read(source.get(), staging.fd()));
    SBX_TRY(report.status);
    SBX_ASSIGN(Record record, describe(report));
    SBX_TRY(publish(report, staging.fd(), record));
    record.id = identity(record);
    SBX_TRY(store_.put(record, lock));
    return record;
  }

 private:
  Result<OuterReport> read(int source, int staging) {
    OuterRequest outer;
    outer.source = source;
    outer.staging = staging;
    outer.budget = request_.budget;
    outer.tag = request_.tag;
    outer.progress = request_.progress;
    SBX_ASSIGN(outer.present, present_layers(store_.layers()));
    SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
    SBX_ASSIGN(ChildProcess child, confine::fork_as_storage_root(ids_, [&] {
                 pipe.r.reset();
                 ::signal(SIGPIPE, SIG_IGN);
                 ::umask(0);
                 // A kernel without it has the namespaces and the descriptors all the same.
                 (void)confine::landlock_only_beneath_in_child(std::span(&staging, 1), {});
                 return sys::write_all(pipe.w.get(), encode(read_source(outer))).ok() ? 0 : 1;
               }));
    pipe.w.reset();
    Worker worker("import", std::move(child), std::move(pipe.r));
    SBX_ASSIGN(const std::string text, worker.finish(kMaxOuterReport));
    return decode_outer_report(text);
  }

  Result<Record> describe(const OuterReport& report) {
    Record record;
    record.name = request_.name;
    record.created_ns = realtime_ns();
    record.source = request_.source;
    record.architecture = host_architecture();
    // What sbx wrote itself is here already, as the layer that it was written from.
    SBX_ASSIGN(const auto aliases, layer_aliases(store_.layers()));
    std::string chain;
    for (const StagedLayer& layer : report.staged) {
      std::string id = layer_id(chain, layer.diff_id, layer.report.depends_on_lower());
      if (const auto known = aliases.find(id); known != aliases.end()) id = known->second;
      record.layers.push_back({std::move(id), layer.diff_id, layer.report.bytes});
      chain = chain_id(chain, layer.diff_id);
    }
    return record;
  }

  Status publish(const OuterReport& report, int staging, const Record& record) {
    if (::syncfs(staging) != 0) return sys_error("flush the layers to the disk");
    for (std::size_t i = 0; i < report.staged.size(); ++i) {
      const Status renamed = sys::renameat(
          staging, report.staged[i].stage, store_.layers(), record.layers[i].id, RENAME_NOREPLACE);
      if (!renamed.ok() && renamed.error().sys_errno() != EEXIST) return renamed;
    }
    return sys::fsync(store_.layers());
  }

  /// What is left in the staging directory belongs to ids that this process may not have.
  void remove_stages(int staging) {
    const auto names = workspace::read_names(staging);
    if (!names.ok() || names.value().empty()) return;
    static_cast<void>(confine::run_as_storage_root(ids_, "clean up", [&] {
      for (const std::string& name : names.value()) {
        static_cast<void>(fs::remove_tree(staging, name));
      }
      return 0;
    }));
  }

  const Store& store_;
  const ImportRequest& request_;
  confine::StorageIds ids_;
};

}  // namespace

Result<Record> import_image(const Store& store, const ImportRequest& request) {
  SBX_TRY(check_name(request.name));
  SBX_ASSIGN(confine::StorageIds ids, confine::storage_ids());
  auto record = Import(store, request, std::move(ids)).run();
  if (record.ok()) return record;
  return std::move(record).error().prefixed(
      text::cat("import ", request.path == "-" ? "standard input" : text::escape(request.path)));
}

}  // namespace sbx::image
