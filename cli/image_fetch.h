// Image fetch: an import or a pull done by a child, while this process draws how far it has come
// and waits for signals, so that nothing half made stays when it is interrupted.
#pragma once

#include <functional>

#include "cli/verb.h"
#include "core/base/result.h"
#include "core/image/import.h"
#include "core/image/record.h"
#include "core/image/store.h"

namespace sbx::cli {

/// What a child does. What it sets in the progress is drawn.
using Fetch = std::function<Result<image::Record>(image::ImportProgress&)>;

/// Whether a bar is drawn; not where somebody else writes to the terminal.
enum class Bar : bool { kNo, kYes };

/// Does it, removes what nobody uses afterwards (also what an earlier, killed one left), prints the
/// image as a line or, with --json, as an object; --quiet draws nothing. The exit status; 128+N
/// when signal N ended it.
int fetch_image(const image::Store& store,
                const Invocation& given,
                const Fetch& fetch,
                Bar bar = Bar::kYes);

}  // namespace sbx::cli
