// Matrix products as the operations that contain one use them: a product of (batches of) matrices,
// a sum of outer products, and both added in place to a gradient that is already waiting.
#pragma once

#include "core/kernels/cpu/gemm.h"
#include "core/ops/functions.h"

namespace weft {

// op(a) @ op(b), where op transposes the last two dimensions if asked to. Leading dimensions are
// batches and broadcast; a 1-D `a` is one row for a 2-D `b`, which the result does not keep.
Tensor product(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed);
// Of (..., p) and (..., q), the (p, q) sum of a[r, :, None] * b[r, None, :] over all rows r.
Tensor sum_of_outer(const Tensor& a, const Tensor& b);
// input (..., in) @ weight (out, in)^T + bias, which may be a null handle.
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias);

// Note [Gradients of a weight that is used many times]
// A weight gathers one product per use. Where a gradient of the pass's own is already waiting at
// the weight, the next product is added into it (beta = 1) instead of becoming a tensor of its own
// that would have to be read once more.
void set_product(Backward& b, int i, const Tensor& x, bool x_transposed, const Tensor& y, bool y_transposed);
void set_sum_of_outer(Backward& b, int i, const Tensor& x, const Tensor& y);

// ---- for run() ----------------------------------------------------------------------------------

// The last two dimensions.
cpu::MatrixView matrix(const Tensor& t, bool transposed = false);

// All leading dimensions as rows, the last as columns. `copy` holds the values where strides forbid
// that.
struct Rows {
  int64_t count;
  cpu::MatrixView view;
  Tensor copy;
};
Rows rows_of(const Tensor& t);

// product() into a row-major tensor of the right shape, or added to it.
void run_product(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed, TensorImpl* c,
                 bool accumulate);

// Work from which the interpreter lock is worth releasing.
inline bool is_long_product(int64_t m, int64_t n, int64_t k) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= 128.0 * 128 * 128;
}

// Refuses complex numbers, which have no arithmetic yet.
void check_real(const char* operation, const Tensor& t);

}  // namespace weft
