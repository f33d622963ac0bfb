// CronOptions: turns the flags of an unattended `sbx run` into what the engine understands.
#pragma once

#include <optional>

#include "cli/verb.h"
#include "core/base/result.h"
#include "core/run/cron.h"

namespace sbx::cli {

/// Nothing when none of the flags was given. kUsage names the flag that is wrong; the error of the
/// state directory when one is needed and `options` has none.
Result<std::optional<run::CronOptions>> cron_options_of(const Invocation& given,
                                                        const run::Options& options);

}  // namespace sbx::cli
