// Images that change their size, and windows of images as columns.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernels/cpu/convolution.h"

namespace weft::cpu {

// How every output along one dimension is made of inputs: `taps` of them, with their weights.
struct Resampling {
  int64_t in, out, taps;
  std::vector<int64_t> position;  // out * taps
  std::vector<double> weight;     // out * taps; unused where taps is 1
};

// Of contiguous (outer, in, inner) memory: y (outer, out, inner) = weighted sums of x. With one tap the elements are
// copied, whatever they are; with more, Float32 and Float64.
void resample(DType dtype, const Resampling& how, int64_t outer, int64_t inner, const void* x, void* y);
// The other way: grad_x = what outputs give back to inputs. Float32 and Float64.
void resample_gradient(DType dtype, const Resampling& how, int64_t outer, int64_t inner, const void* grad_y,
                       void* grad_x);

// The windows of planar images as columns, and the images that columns add up to: (batch, channels, ...) and
// (batch, channels * kernel volume, outputs). Of the shape only the geometry and the input's channels count.
// Elements of any dtype are moved; added are Float32 and Float64.
void unfold(DType dtype, const ConvolutionShape& shape, const void* images, void* columns);
void fold(DType dtype, const ConvolutionShape& shape, const void* columns, void* images);

}  // namespace weft::cpu
