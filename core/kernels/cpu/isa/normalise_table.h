// The inner loops of normalisation, one table per instruction set.
//
// Statistics of a sequence are taken chunk by chunk of the fixed tree: the chunk's mean, then the squared
// distances from that mean. One pass over memory, and no cancellation.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

// Rows of `channels` runs of `inner` elements, each row normalised by itself. A row belongs to one of
// `groups` groups, in turn; weight and bias have one number per group and channel, and may be null.
struct NormRows {
  int64_t channels, inner, groups;
  const void* weight;
  const void* bias;
  bool centered;  // the mean is subtracted
  double eps;
};

struct NormRowLoops {
  // Rows [first, last) of x into y; mean and scale have one number per row.
  void (*forward)(const NormRows& p, int64_t first, int64_t last, const void* x, void* y, void* mean, void* scale);
  // The gradient of x. `sums` may be null; else it receives, per row and channel, the sum of the gradient and
  // that of the gradient times the normalised input, which the gradients of bias and weight are made of.
  void (*backward)(const NormRows& p, int64_t first, int64_t last, const void* grad, const void* x, const void* mean,
                   const void* scale, void* grad_x, void* grad_sums, void* product_sums);
};

// The elements of one channel: `runs` runs of `length` elements, `step` elements apart.
struct ChannelRuns { int64_t runs, length, step; };

struct NormChannelLoops {
  // Mean and sum of squared distances from it.
  void (*moments)(ChannelRuns shape, const void* x, void* mean, void* spread);
  // y = (x - mean) slope + shift
  void (*apply)(ChannelRuns shape, const void* x, void* y, double mean, double slope, double shift);
  // Sums of g and of g (x - mean).
  void (*sums)(ChannelRuns shape, const void* g, const void* x, double mean, void* sum, void* product_sum);
  // y = (g - shift - (x - mean) pull) slope
  void (*backward)(ChannelRuns shape, const void* g, const void* x, void* y, double mean, double slope, double shift,
                   double pull);
};

inline constexpr int64_t kNormColumns = 64;  // side by side at most

// Columns of a matrix whose rows are `step` elements apart. For moments and sums at most one chunk of the fixed
// tree of rows, and kNormColumns columns.
struct ColumnBlock { int64_t rows, width, step; };

struct NormColumnLoops {
  void (*moments)(ColumnBlock shape, const void* x, void* mean, void* spread);
  void (*apply)(ColumnBlock shape, const void* x, void* y, const void* mean, const void* slope, const void* shift);
  // Sums of g and of g (x - mean).
  void (*sums)(ColumnBlock shape, const void* g, const void* x, const void* mean, void* sum, void* product_sum);
  // Sums of g and of g (x - mean) scale, with a mean and a scale for each row. x may be null: only sums of g.
  void (*sums_of_rows)(ColumnBlock shape, const void* g, const void* x, const void* mean, const void* scale, void* sum,
                       void* product_sum);
  void (*backward)(ColumnBlock shape, const void* g, const void* x, void* y, const void* mean, const void* slope,
                   const void* shift, const void* pull);
};

struct NormTable {
  NormRowLoops rows_of_float, rows_of_double;
  NormChannelLoops channels_of_float, channels_of_double;
  NormColumnLoops columns_of_float, columns_of_double;
};

WEFT_ISA_TABLE(NormTable, norm_table)

}  // namespace weft::cpu
