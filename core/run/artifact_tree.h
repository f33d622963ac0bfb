// Artifact tree: copies artifacts into a directory of the host, each file as a whole by rename.
#pragma once

#include "core/base/result.h"
#include "core/run/artifacts.h"

namespace sbx::run {

/// Writes all of `list` below the directory `dest`, manifest.json last. Links that lie in `dest`
/// are replaced or refused, never followed.
Status write_tree(int dest, const ArtifactRequest& request, ArtifactList& list);
/// The same without the manifest.
Status write_files(int dest, const ArtifactRequest& request, ArtifactList& list);
Status write_manifest(int dest, const ArtifactList& list);

/// Moves what write_files wrote below `from` to the same paths below `dest`, on the same file
/// system but for directories of `dest` that are mount points; treats links like write_tree. Short:
/// there is nothing to stop it.
Status move_files(int from, int dest, const ArtifactList& list);

/// Sets Artifact::saved_as where a name is taken by our own manifest.json.
void reserve_manifest_name(ArtifactList& list);

inline constexpr const char* kManifestName = "manifest.json";

}  // namespace sbx::run
