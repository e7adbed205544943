// Matrix products on strided memory: C = A B, or C += A B.
//
// Contract: the caller has checked the shapes; c does not overlap a or b; c's columns are adjacent.
// float16 and bfloat16 are computed in float32 and rounded once, the old C included. Integers wrap;
// for bool, + is "or" and * is "and".
//
// Note [The same bits for any number of threads]
// How a product is cut depends on its shape and strides only (gemm_split.h). One piece is one call,
// on one thread, of a library or of weft's own kernels; where a long sum is cut, the partial
// sums meet in a fixed tree.
#pragma once

#include <cstdint>

#include "core/math/dtype.h"

namespace weft::cpu {

struct MatrixView {
  const void* data;
  int64_t row_stride, col_stride;  // in elements
};

void gemm(DType dtype, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t c_row_stride,
          bool accumulate);

// `batch` products; the batch strides are in elements, and may be 0 for a and b.
void gemm_batched(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, MatrixView a, int64_t a_batch_stride,
                  MatrixView b, int64_t b_batch_stride, void* c, int64_t c_batch_stride, int64_t c_row_stride,
                  bool accumulate);

// Which library or kernel carries each dtype on this machine: one line, for benchmarks and reports.
const char* describe_products();

}  // namespace weft::cpu
