// What every position of a kernel sees of an image, as the columns of a matrix: with it a convolution is a
// product. The matrix has a row for every channel and place in the kernel, a column for every output.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/convolution.h"

namespace weft::cpu {

// Part of the channels of one image, in elements.
template <class T> struct ImageView {
  T* data;
  int64_t channels, channel_stride, position_stride;
};

// The geometry with all spatial dimensions, the missing ones in front with size 1. `first` and `count`
// choose outputs along the first dimension there is.
struct ColumnsGrid {
  int64_t in[kMostSpatial], out[kMostSpatial], begin[kMostSpatial], end[kMostSpatial], kernel[kMostSpatial];
  int64_t stride[kMostSpatial], padding[kMostSpatial], dilation[kMostSpatial];
  int64_t taps, columns;

  ColumnsGrid(const ConvolutionShape& s, int64_t first, int64_t count) : taps(s.kernel_volume()), columns(1) {
    const int missing = kMostSpatial - s.spatial;
    for (int d = 0; d < kMostSpatial; ++d) {
      const bool there = d >= missing;
      const int from = d - missing;
      in[d] = there ? s.in[from] : 1;
      out[d] = there ? s.out[from] : 1;
      kernel[d] = there ? s.kernel[from] : 1;
      stride[d] = there ? s.stride[from] : 1;
      padding[d] = there ? s.padding[from] : 0;
      dilation[d] = there ? s.dilation[from] : 1;
      begin[d] = d == missing ? first : 0;
      end[d] = d == missing ? first + count : out[d];
      columns *= end[d] - begin[d];
    }
  }

  // Calls row(tap, column, position, low, high) for every place of the kernel and every line of outputs: of
  // the outputs beginning at `column`, those from `low` to `high` see the image, the first of them at
  // `position`, the next ones `stride[2]` further.
  template <class Row> void for_each_row(Row row) const {
    const int64_t width = end[2] - begin[2];
    int64_t tap = 0;
    for (int64_t k0 = 0; k0 < kernel[0]; ++k0) {
      for (int64_t k1 = 0; k1 < kernel[1]; ++k1) {
        for (int64_t k2 = 0; k2 < kernel[2]; ++k2, ++tap) {
          const int64_t shift = k2 * dilation[2] - padding[2];
          const int64_t low =
              std::clamp<int64_t>(shift >= 0 ? 0 : (-shift + stride[2] - 1) / stride[2], begin[2], end[2]);
          const int64_t last = in[2] - 1 - shift;
          const int64_t high = std::clamp<int64_t>(last < 0 ? 0 : last / stride[2] + 1, low, end[2]);
          int64_t column = 0;
          for (int64_t o0 = begin[0]; o0 < end[0]; ++o0) {
            const int64_t i0 = o0 * stride[0] + k0 * dilation[0] - padding[0];
            for (int64_t o1 = begin[1]; o1 < end[1]; ++o1, column += width) {
              const int64_t i1 = o1 * stride[1] + k1 * dilation[1] - padding[1];
              if (i0 < 0 || i0 >= in[0] || i1 < 0 || i1 >= in[1]) {
                row(tap, column, int64_t{0}, int64_t{0}, int64_t{0});
              } else {
                row(tap, column, (i0 * in[1] + i1) * in[2] + low * stride[2] + shift, low - begin[2], high - begin[2]);
              }
            }
          }
        }
      }
    }
  }
};

// columns (channels * taps, outputs), row-major: zero where the kernel sees the padding.
template <class T> void gather_columns(const ColumnsGrid& grid, ImageView<const T> image, T* columns) {
  const int64_t width = grid.end[2] - grid.begin[2], step = grid.stride[2] * image.position_stride;
  for (int64_t c = 0; c < image.channels; ++c) {
    const T* const channel = image.data + c * image.channel_stride;
    T* const rows = columns + c * grid.taps * grid.columns;
    grid.for_each_row([&](int64_t tap, int64_t column, int64_t position, int64_t low, int64_t high) {
      T* const to = rows + tap * grid.columns + column;
      const T* const from = channel + position * image.position_stride;
      std::fill(to, to + low, T{});
      if (step == 1) std::copy(from, from + (high - low), to + low);
      else
        for (int64_t i = low; i < high; ++i) to[i] = from[(i - low) * step];
      std::fill(to + high, to + width, T{});
    });
  }
}

// The other way: every element of the columns is added to the place of the image it was seen at.
template <class T> void add_columns(const ColumnsGrid& grid, const T* columns, ImageView<T> image) {
  const int64_t step = grid.stride[2] * image.position_stride;
  for (int64_t c = 0; c < image.channels; ++c) {
    T* const channel = image.data + c * image.channel_stride;
    const T* const rows = columns + c * grid.taps * grid.columns;
    grid.for_each_row([&](int64_t tap, int64_t column, int64_t position, int64_t low, int64_t high) {
      const T* const from = rows + tap * grid.columns + column;
      T* const to = channel + position * image.position_stride;
      if (step == 1)
        for (int64_t i = low; i < high; ++i) to[i - low] = static_cast<T>(to[i - low] + from[i]);
      else
        for (int64_t i = low; i < high; ++i) to[(i - low) * step] = static_cast<T>(to[(i - low) * step] + from[i]);
    });
  }
}

}  // namespace weft::cpu
