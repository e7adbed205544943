// Softmax and its relatives, for the losses that are made of them.
#pragma once

#include "core/ops/functions.h"

namespace weft { Tensor log_softmax(const Tensor& a, int64_t dim); }  // namespace weft
