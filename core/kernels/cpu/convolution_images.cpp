#include "core/kernels/cpu/convolution_images.h"

#include <cstring>

#include "core/kernels/cpu/isa/spatial_table.h"

namespace weft::cpu {

namespace {

// Where image `n` of the part begins: for planar images, in the first channel.
float* beginning(const Images& images, const Part& part, int64_t n) {
  float* const image = reinterpret_cast<float*>(images.data) + (part.image + n) * part.channels * part.positions;
  return image + part.first * (images.channels_last ? part.channels : 1);
}

void copy_lines(const float* from, int64_t from_line, int64_t lines, int64_t length, float* to, int64_t to_line) {
  const size_t bytes = static_cast<size_t>(length) * sizeof(float);
  for (int64_t i = 0; i < lines; ++i) std::memcpy(to + i * to_line, from + i * from_line, bytes);
}

}  // namespace

float* where_it_lies(const Images& images, const Part& part, Order order) {
  const bool whole = part.count == part.positions;
  const bool one_order = part.channels == 1 || (whole && part.positions == 1);
  const bool as_wanted = order == Order::channels_last ? images.channels_last || one_order
                         : order == Order::planar      ? one_order || (!images.channels_last && whole)
                                                       : false;
  return as_wanted ? beginning(images, part, 0) : nullptr;
}

void copy_part(const Images& from, const Part& part, Order order, float* to) {
  const auto transpose = spatial_table().transpose;
  const int64_t channels = part.channels, count = part.count;
  for (int64_t n = 0; n < part.images; ++n, to += channels * count) {
    const float* const image = beginning(from, part, n);
    switch (order) {
      case Order::channels_last:
        if (from.channels_last) copy_lines(image, channels, count, channels, to, channels);
        else transpose(image, part.positions, channels, count, to, channels);
        break;
      case Order::planar:
        if (from.channels_last) transpose(image, channels, count, channels, to, count);
        else copy_lines(image, part.positions, channels, count, to, count);
        break;
      case Order::blocked:
        for (int64_t c = 0; c < channels; c += kChannelBlock) {
          float* const block = to + c * count;
          if (from.channels_last) copy_lines(image + c, channels, count, kChannelBlock, block, kChannelBlock);
          else transpose(image + c * part.positions, part.positions, kChannelBlock, count, block, kChannelBlock);
        }
    }
  }
}

void copy_part_back(const float* from, Order order, const Part& part, const Images& to) {
  const auto transpose = spatial_table().transpose;
  const int64_t channels = part.channels, count = part.count;
  for (int64_t n = 0; n < part.images; ++n, from += channels * count) {
    float* const image = beginning(to, part, n);
    if (order == Order::channels_last) {
      if (to.channels_last) copy_lines(from, channels, count, channels, image, channels);
      else transpose(from, channels, count, channels, image, part.positions);
    } else {
      if (to.channels_last) transpose(from, count, channels, count, image, channels);
      else copy_lines(from, count, channels, count, image, part.positions);
    }
  }
}

}  // namespace weft::cpu
