// Convolutions over one to three spatial dimensions, and their two gradients.
//
// Contract: the caller has checked shapes; no operand overlaps another; no size but that of the batch
// is 0. Weights are row-major (out_channels, in_channels / groups, kernel...).
//
// Note [How a convolution is cut]
// Work is cut into tiles of whole images or, where images are large, of rows of one image: by the
// problem's sizes only. A tile is one call, on one thread, of a library or of weft's own kernels, on a
// piece of memory that fits the second-level cache. Both want images with the channels last, so a tile
// of planar images is transposed on its way in and out while it lies in the cache, which costs a tenth
// of the tile's arithmetic. (Measured on two layers of 32 and 64 channels, forward and backward: 26.6 ms
// that way, 31.4 ms with activations kept channels-last between the layers; and planar results can be
// viewed as people are used to.) Gradients of weights are sums over tiles: a fixed number of parts add up
// their tiles in order, and the parts meet in a fixed tree. Hence the same bits for any number of
// threads.
#pragma once

#include <cstdint>

#include "core/math/dtype.h"

namespace weft::cpu {

inline constexpr int kMostSpatial = 3;

struct ConvolutionShape {
  int spatial;  // dimensions
  int64_t batch, groups, in_channels, out_channels;
  int64_t in[kMostSpatial], out[kMostSpatial], kernel[kMostSpatial];
  int64_t stride[kMostSpatial], padding[kMostSpatial], dilation[kMostSpatial];

  // How far the kernel reaches along a dimension.
  int64_t extent(int d) const { return (kernel[d] - 1) * dilation[d] + 1; }
  // Sizes of one channel, of one row of it (a step along the first dimension), of one filter's plane.
  int64_t in_volume() const { return in[0] * in_row(); }
  int64_t out_volume() const { return out[0] * out_row(); }
  int64_t in_row() const { return after_first(in); }
  int64_t out_row() const { return after_first(out); }
  int64_t kernel_volume() const { return kernel[0] * after_first(kernel); }
  int64_t weights() const { return out_channels * (in_channels / groups) * kernel_volume(); }
  double work() const {
    return static_cast<double>(batch) * static_cast<double>(out_volume()) * static_cast<double>(weights());
  }

 private:
  int64_t after_first(const int64_t* sizes) const {
    int64_t n = 1;
    for (int d = 1; d < spatial; ++d) n *= sizes[d];
    return n;
  }
};

// A batch of images without gaps: (batch, channels, ...), or (batch, ..., channels).
struct Images {
  char* data;
  bool channels_last;
};

// y = x * weight + bias, which may be null. Float32, Float64 and integers, which wrap.
void convolve(DType dtype, const ConvolutionShape& shape, Images x, const void* weight, const void* bias, Images y);

// The gradient of x, which is also the transposed convolution of grad_y; `bias` (of in_channels) is added
// to it and may be null.
void convolve_input_gradient(DType dtype, const ConvolutionShape& shape, Images grad_y, const void* weight,
                             const void* bias, Images grad_x);

// grad_bias may be null. Float32 and Float64.
void convolve_weight_gradient(DType dtype, const ConvolutionShape& shape, Images x, Images grad_y, void* grad_weight,
                              void* grad_bias);

}  // namespace weft::cpu
