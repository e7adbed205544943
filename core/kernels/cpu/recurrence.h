// The linear recurrence along one dim of strided memory.
#pragma once

#include "core/kernels/cpu/strided.h"
#include "core/math/dtype.h"

namespace weft::cpu {

// y[0] = x[0], y[i] = x[i] + a[i] y[i - 1] along `dim`, element after element. All three have the same
// sizes and one type, Float32 or Float64. y shares no memory with the others.
void linear_recurrence(DType type, Strided x, Strided a, Strided y, int dim);

}  // namespace weft::cpu
