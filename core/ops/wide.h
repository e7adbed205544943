// For operations whose kernels exist for float32 and float64 only: 16 bit floats go through float32.
#pragma once

#include "core/math/dtype.h"

namespace weft {

inline DType wide_dtype(DType dtype) { return dtype == DType::Float64 ? DType::Float64 : DType::Float32; }

}  // namespace weft
