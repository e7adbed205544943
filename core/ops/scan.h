// Running sums and products, in both directions, and the linear recurrence that differentiates them.
#pragma once

#include "core/ops/functions.h"

namespace weft {

Tensor running_sum(const Tensor& a, int64_t dim, bool reverse);
Tensor running_product(const Tensor& a, int64_t dim, bool reverse);
// h[i] = a[i] + coefficient[i] h[i - 1], beginning with h[0] = a[0]; from the other end when reversed.
Tensor linear_scan(const Tensor& a, const Tensor& coefficient, int64_t dim, bool reverse);
// result[i] = a[i - by], and `fill` where there is no such element. `by` is 1 or -1.
Tensor shift_along(const Tensor& a, int64_t dim, int64_t by, double fill);

}  // namespace weft
