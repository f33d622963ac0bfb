// Root image: the image that a session is made of. What is needed of it goes into the session's
// record, so that the session outlives the image's name.
#pragma once

#include <string>

#include "core/backend/backend.h"
#include "core/base/result.h"
#include "core/profile/profile.h"
#include "core/run/program.h"
#include "core/session/lifecycle.h"
#include "core/session/record.h"

namespace sbx::session {

/// Makes `record` one of the image that `profile` names: its layers become the lowest ones, and the
/// profile takes over the image's working directory. Nothing to do without an image. The caller
/// holds the layers (hold_layers) until the record is on disk. Errors as run::use_image().
Status adopt_image(const std::string& state_dir,
                   const RootChange& change,
                   profile::Profile& profile,
                   Record& record);

/// For the backend; `layers_dir` ends with '/'. kProtocol when the record's image is rubbish.
Result<backend::ImageRoot> image_root_of(const Record& record, const std::string& layers_dir);

/// What the environment of programs begins with.
Result<run::ImageEnvironment> image_environment_of(const RootImage& image);

}  // namespace sbx::session
