// Softmax, log-softmax and log-sum-exp along one dim of strided memory, in one pass over each line.
//
// All sums are taken by the fixed tree (core/math/reduction.h). 16 bit floats are computed in
// float32. All types are floating.
#pragma once

#include "core/kernels/cpu/strided.h"
#include "core/math/dtype.h"

namespace weft::cpu {

enum class Softmax { Plain, Log };

// y may be x if the types and strides are the same. Computed in the wider of the two types.
void softmax(Softmax kind, DType in, DType out, Strided x, Strided y, int dim);

// From the gradient and the result y of softmax: y (g - sum(g y)), or g - exp(y) sum(g).
// grad_x may be grad if the types and strides are the same. grad and y have one type.
void softmax_backward(Softmax kind, DType in, DType out, Strided grad, Strided y, Strided grad_x, int dim);

// y has size 1 along dim. Lines must not be empty.
void log_sum_exp(DType in, DType out, Strided x, Strided y, int dim);

}  // namespace weft::cpu
