// Running sums, products and extremes along one dim of strided memory.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/strided.h"
#include "core/math/dtype.h"

namespace weft::cpu {

enum class Scan {
  Sum,        // out: int64 for integers and bool, else a float or complex type
  Prod,       // likewise
  LogAddExp,  // floats only
};

// y = scan of x along `dim`, in the order of Note [The fixed scan] (core/math/reduction.h). x and y
// have the same sizes; they may be the same memory if their types and strides are the same too.
void scan(Scan kind, DType in, DType out, Strided x, Strided y, int dim);

enum class Extreme { Largest, Smallest };

// The extreme up to each element and its index (int64): of equal ones the latest, and a NaN stays
// until a later NaN. All three have the same sizes.
void running_extreme(Extreme kind, DType type, Strided x, Strided values, Strided indices, int dim);

}  // namespace weft::cpu
