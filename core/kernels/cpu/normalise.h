// Normalisation: rows by their own mean and spread (layer, RMS and group norm), channels by those of the
// batch (batch norm), and the derivatives of both.
//
// Everything is Float32 or Float64, of one type, and contiguous where nothing else is said. Sums follow
// the fixed tree (core/math/reduction.h); statistics are those of its chunks, merged along it.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa/normalise_table.h"
#include "core/math/dtype.h"

namespace weft::cpu {

// mean and scale = 1 / sqrt(spread + eps) have one number per row. Rows are not empty.
void normalise_rows(DType type, const NormRows& shape, int64_t rows, const void* x, void* y, void* mean, void* scale);
// grad_weight and grad_bias may be null, both or one of them.
void normalise_rows_backward(DType type, const NormRows& shape, int64_t rows, const void* grad, const void* x,
                             const void* mean, const void* scale, void* grad_x, void* grad_weight, void* grad_bias);

// How the channels of a batch lie in memory: each in `runs` (batch, then places), or side by side as the
// columns of a matrix with `rows` rows.
struct Channels {
  int64_t channels;
  bool side_by_side;
  ChannelRuns runs;  // unless side by side; channel c begins at c * runs.length
  int64_t rows;      // if side by side

  int64_t count() const { return side_by_side ? rows : runs.runs * runs.length; }
};

// What a channel is multiplied with and moved by; null stands for 1 and 0.
struct ChannelFactors {
  const void* weight;
  const void* bias;
};

// With `variance` (of samples: over count - 1) the statistics are those of x and are written; otherwise mean
// and scale are read.
void normalise_channels(DType type, const Channels& shape, const void* x, ChannelFactors factors, void* y, void* mean,
                        void* scale, void* variance, double eps);
// of_batch: mean and scale were taken from x. grad_weight and grad_bias may be null.
void normalise_channels_backward(DType type, const Channels& shape, const void* grad, const void* x,
                                 ChannelFactors factors, const void* mean, const void* scale, bool of_batch,
                                 void* grad_x, void* grad_weight, void* grad_bias);

}  // namespace weft::cpu
