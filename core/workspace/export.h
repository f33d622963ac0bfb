// Export: a part of a session's merged tree as an archive.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/archive/archive.h"
#include "core/base/result.h"
#include "core/workspace/merged_tree.h"

namespace sbx::workspace {

/// A merged tree and where it is seen inside: without a leading '/', "" is the root.
struct MountedTree {
  std::string target;
  MergedTree* tree = nullptr;  ///< not owned
};

struct ExportReport {
  std::uint64_t files = 0;  ///< regular files and links; further names of a file count too
  std::uint64_t bytes = 0;  ///< of regular files, holes included
  std::uint64_t left_out_count = 0;
  std::vector<std::string> left_out;  ///< the first ones: FIFOs, sockets and devices, ...
  std::vector<std::string> changed;   ///< the first files that got shorter while they were read
};

/// Adds what is at `path` (as MountedTree::target) to `writer`, sorted: of a directory its content
/// under names relative to it, of a file or link that one object. Trees whose target lies below
/// `path` are seen there. Modes, times, hard links, holes and "user." attributes are kept, owners
/// are not. No link on the way to `path` is followed. kNotFound when there is nothing. Does not
/// commit. Blocks.
Result<ExportReport> export_tree(std::span<const MountedTree> trees,
                                 const std::string& path,
                                 archive::ArchiveWriter& writer);

}  // namespace sbx::workspace
