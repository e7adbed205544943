// Recording now, computing when a value is needed.
#pragma once

#include "core/graph/dispatch.h"

namespace weft {

// The schedule to put into Context::schedule.
const Schedule& deferred_schedule();
// Lets go of recorded nodes that have run or that nobody wants; happens by itself from time to time.
void forget_finished_records();

// Computes everything recorded for this tensor. Called by ensure_value().
void force(TensorImpl* t);

}  // namespace weft
