// Pooling: the largest element or the average of windows of images, and the gradients.
//
// Contract: no size is 0; a channel's positions are fewer than 2^31; operands do not overlap. Indices are int64, a position within a channel's plane each.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernels/cpu/convolution.h"

namespace weft::cpu {

// Along one spatial dimension, output o sees the elements begin[o], begin[o] + step, ... before end[o].
struct WindowsAlong {
  std::vector<int64_t> begin, end;
  int64_t step = 1;
  // Windows follow each other `stride` apart, so that one place in all of them is a line with that step:
  // 0 where they do not.
  int64_t stride = 0;
  int64_t places = 1, offset = 0;  // of such windows: how many places, and where the first window begins
  std::vector<int64_t> counted;    // how many elements an average counts
  int64_t in = 1, out = 1;
};

// Averages may count padding, as far as windows reach into it.
WindowsAlong regular_windows(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                             bool count_padding);
WindowsAlong adaptive_windows(int64_t in, int64_t out);

struct PoolingShape {
  int64_t batch, channels;
  WindowsAlong along[kMostSpatial];  // missing dimensions in front, with one window over one element
  double divisor = 0;                // of every average; 0: the number of elements it counts

  int64_t in_volume() const { return along[0].in * along[1].in * along[2].in; }
  int64_t out_volume() const { return along[0].out * along[1].out * along[2].out; }
};

// y and indices in the order of x. NaN is larger than everything. Float32, Float64, Int64.
void pool_max(DType dtype, const PoolingShape& shape, Images x, Images y, int64_t* indices);

// Float32, Float64, Int64. A window without elements gives 0.
void pool_average(DType dtype, const PoolingShape& shape, Images x, Images y);
void pool_average_gradient(DType dtype, const PoolingShape& shape, Images grad_y, Images grad_x);

// ---- by indices into planes ---------------------------------------------------------------------

// `planes` lines of `in` elements, each with `out` indices. The caller has checked that indices are in range.
// wide = 0; wide[index] += narrow, in order.
void add_at_indices(DType dtype, int64_t planes, int64_t in, int64_t out, const void* narrow, const int64_t* indices,
                    void* wide);
// wide = 0; wide[index] = narrow: the last one stays.
void put_at_indices(DType dtype, int64_t planes, int64_t in, int64_t out, const void* narrow, const int64_t* indices,
                    void* wide);
// narrow = wide[index]
void take_at_indices(DType dtype, int64_t planes, int64_t in, int64_t out, const void* wide, const int64_t* indices,
                     void* narrow);
// The first index that is not in [0, in), or null.
const int64_t* find_index_outside(const int64_t* indices, int64_t count, int64_t in);

}  // namespace weft::cpu
