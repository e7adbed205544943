// How a convolution is cut: see Note [How a convolution is cut] in convolution.h.
#pragma once

#include <vector>

#include "core/kernels/cpu/convolution.h"

namespace weft::cpu {

// Whole images, or rows (steps along the first spatial dimension) of one image. As a convolution of its
// own, the tile has this padding along that dimension.
struct Tile {
  int64_t image, images;
  int64_t in_first, in_count;
  int64_t out_first, out_count;
  int64_t pad_before, pad_after;

  bool has_shape_of(const Tile& other) const {
    return images == other.images && in_count == other.in_count && out_count == other.out_count &&
           pad_before == other.pad_before && pad_after == other.pad_after;
  }
};

// Tiles that share no output, with the inputs each needs.
std::vector<Tile> tiles_of_output(const ConvolutionShape& shape);
// Tiles that share no input, with the outputs whose gradients each needs.
std::vector<Tile> tiles_of_input(const ConvolutionShape& shape);

// Tiles that share no output, for a sum over all of them: fewer and larger ones, as every one costs an addition.
std::vector<Tile> tiles_of_sum(const ConvolutionShape& shape);
// How many parts of the sum have memory of their own.
int64_t parts_of_sum(const ConvolutionShape& shape, int64_t tiles);

// Padding behind the input that makes the last output end where the kernel does.
int64_t padding_after(const ConvolutionShape& shape, int d);

}  // namespace weft::cpu
