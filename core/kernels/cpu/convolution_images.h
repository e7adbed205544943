// A tile's part of a batch of float32 images, in the order in which a library wants it.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/convolution.h"

namespace weft::cpu {

// (n, c, p), (n, p, c), and (n, c / 16, p, 16): p counts the positions of an image.
enum class Order : int { planar, channels_last, blocked };
inline constexpr int64_t kChannelBlock = 16;

struct Part {
  int64_t channels, positions;  // of one whole image
  int64_t image, images;
  int64_t first, count;  // positions; all of them unless `images` is 1

  int64_t elements() const { return images * channels * count; }
};

// The part where it lies, or null where it has to be copied to be in that order.
float* where_it_lies(const Images& images, const Part& part, Order order);
void copy_part(const Images& from, const Part& part, Order order, float* to);
// The other way; `order` is planar or channels_last.
void copy_part_back(const float* from, Order order, const Part& part, const Images& to);

}  // namespace weft::cpu
