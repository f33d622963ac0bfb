// Batch work: what a worker does with one order: its job from line to report.
#pragma once

#include "core/run/batch.h"
#include "core/run/batch_worker.h"

namespace sbx::run {

/// For BatchWorker::start(). `request` outlives it.
Work batch_work(const BatchRequest& request);

}  // namespace sbx::run
