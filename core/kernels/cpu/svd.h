// Singular value decompositions, by one-sided Jacobi rotations.
//
// Computed in float64 whatever the type of the elements, with the same bits for any number of
// threads and any instruction set. Singular values are accurate in proportion to the largest one;
// vectors are orthonormal to working precision, for singular matrices too.
#pragma once

#include <cstdint>

#include "core/math/dtype.h"

namespace weft::cpu {

enum class SvdFailure { None, NotFinite, NoConvergence };

struct SvdStatus {
  SvdFailure failure = SvdFailure::None;
  int64_t matrix = 0;  // the first one that failed
};

// A = u diag(s) vh for `batch` matrices of rows x columns, of Float32 or Float64. Everything is
// contiguous and row-major. With k = min(rows, columns): u is rows x k and vh k x columns, or, with
// `full`, rows x rows and columns x columns; both are null where only s, of k, is asked for.
SvdStatus svd(DType type, int64_t batch, int64_t rows, int64_t columns, const void* a, bool full, void* u, void* s,
              void* vh);

}  // namespace weft::cpu
