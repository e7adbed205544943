// Softmax and its relatives, for the operations that are made of them.
#pragma once

#include "core/ops/functions.h"

namespace weft {

Tensor softmax(const Tensor& a, int64_t dim);
Tensor log_softmax(const Tensor& a, int64_t dim);

}  // namespace weft
