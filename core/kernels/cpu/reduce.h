// Reductions over any dims of a strided tensor.
//
// The result depends on the sequence of reduced elements only (Note [The fixed tree] in
// core/math/reduction.h). 16 bit floats are accumulated in float32, float32 in float32, float64 in
// float64, integers in int64 (wrapping).
#pragma once

#include <cstdint>

#include "core/kernels/cpu/strided.h"
#include "core/math/dtype.h"

namespace weft::cpu {

enum class Reduction {
  Sum,   // out: a float (complex) type, or int64 for integers and bool
  Mean,  // out: a float or complex type; the sum over the number of elements
  Prod,  // as Sum
  Amax,  // out = in; a NaN wins
  Amin,
  Any,  // out: bool
  All,
  CountNonzero,  // out: int64
  NanSum,        // as Sum; this and the next three for floats only
  SumOfSquares,
  SumOfAbs,
  EuclideanNorm,
  ArgMax,  // out: int64, the flat index of the first extreme; a NaN wins; not for empty sequences
  ArgMin,
  MaxWithIndex,  // out = in, and the indices as of ArgMax in out_index
  MinWithIndex,
};

// `outer` is the input: its data, and the sizes and strides of the dims that are kept. The results
// are written in row-major order of those dims. An empty sequence gives the identity of the kind.
// Sums and products are computed in the wider of `in` and `out`.
void reduce(Reduction kind, DType in, DType out, void* out_data, Strided outer, int reduced_ndim,
            const int64_t* reduced_sizes, const int64_t* reduced_strides, int64_t* out_index = nullptr);

enum class Spread { SumOfSquares, Variance, Deviation };

// Mean and spread around it, in two passes of the fixed tree. `mean` or `spread` may be null.
// Variance is the sum of squared distances over max(0, n - correction), Deviation its square root.
void moments(DType in, DType out, void* mean, void* spread, Spread kind, double correction, Strided outer,
             int reduced_ndim, const int64_t* reduced_sizes, const int64_t* reduced_strides);

}  // namespace weft::cpu
