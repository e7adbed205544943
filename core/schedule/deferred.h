// Recording now, computing when a value is needed.
#pragma once

#include "core/graph/dispatch.h"

namespace weft {

// The schedule to put into Context::schedule.
const Schedule& deferred_schedule();

// Computes everything recorded for this tensor. Called by ensure_value().
void force(TensorImpl* t);

}  // namespace weft
