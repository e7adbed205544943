#include "core/kernels/cpu/convolution_portable.h"

#include <algorithm>

#include "core/kernels/cpu/convolution_columns.h"
#include "core/kernels/cpu/convolution_sums.h"
#include "core/kernels/cpu/convolution_tiles.h"
#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/scratch.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

constexpr int64_t kColumnsBytes = 256 << 10;  // what one block of columns may take

thread_local Scratch columns_scratch;

// One problem on elements of type T, cut into blocks of outputs along the first dimension.
template <class T> struct Problem {
  DType dtype;
  const ConvolutionShape& shape;
  int64_t in_channels, out_channels;  // per group
  int64_t depth;                      // products per output
  int64_t rows, blocks;               // outputs along the first dimension per block
  bool no_copy;                       // a kernel of one place that sees every position in order

  Problem(DType type, const ConvolutionShape& s)
      : dtype(type),
        shape(s),
        in_channels(s.in_channels / s.groups),
        out_channels(s.out_channels / s.groups),
        depth(in_channels * s.kernel_volume()),
        no_copy(s.kernel_volume() == 1) {
    for (int d = 0; d < s.spatial; ++d)
      no_copy = no_copy && s.stride[d] == 1 && s.padding[d] == 0 && s.in[d] == s.out[d];
    const int64_t row_bytes = depth * s.out_row() * static_cast<int64_t>(sizeof(T));
    rows = std::clamp<int64_t>(kColumnsBytes / row_bytes, 1, s.out[0]);
    blocks = (s.out[0] + rows - 1) / rows;
  }

  struct Block { int64_t first, count, columns; };
  Block block(int64_t index) const {
    const int64_t first = index * rows, count = std::min(rows, shape.out[0] - first);
    return {first, count, count * shape.out_row()};
  }
  T* columns_memory() const {
    const int64_t elements = depth * rows * shape.out_row();
    return reinterpret_cast<T*>(columns_scratch.at_least(static_cast<size_t>(elements) * sizeof(T)));
  }

  ImageView<T> in_view(const Images& x, int64_t image, int64_t group) const {
    return view(x, image, shape.in_channels, in_channels, shape.in_volume(), group);
  }
  // Outputs of the block: channels are rows, positions are columns.
  MatrixView out_matrix(const Images& y, int64_t image, int64_t group, const Block& b) const {
    const ImageView<T> v = view(y, image, shape.out_channels, out_channels, shape.out_volume(), group);
    return {v.data + b.first * shape.out_row() * v.position_stride, v.channel_stride, v.position_stride};
  }
  MatrixView weight_matrix(const void* weight, int64_t group) const {
    return {static_cast<const T*>(weight) + group * out_channels * depth, depth, 1};
  }
  // The columns of the block, as a copy or as they lie.
  MatrixView columns(const Images& x, int64_t image, int64_t group, const Block& b) const {
    const ImageView<T> v = in_view(x, image, group);
    if (no_copy) return {v.data + b.first * shape.in_row() * v.position_stride, v.channel_stride, v.position_stride};
    T* const memory = columns_memory();
    gather_columns<T>(ColumnsGrid(shape, b.first, b.count), {v.data, v.channels, v.channel_stride, v.position_stride},
                      memory);
    return {memory, b.columns, 1};
  }

 private:
  static ImageView<T> view(const Images& images, int64_t image, int64_t all_channels, int64_t channels, int64_t volume,
                           int64_t group) {
    T* const data = reinterpret_cast<T*>(images.data) + image * all_channels * volume;
    const int64_t first = group * channels;
    if (images.channels_last) return {data + first, channels, 1, all_channels};
    return {data + first * volume, channels, volume, 1};
  }
};

MatrixView transposed(const MatrixView& m) { return {m.data, m.col_stride, m.row_stride}; }

// c = a b into a matrix of either order.
void multiply_into(DType dtype, int64_t m, int64_t n, int64_t k, const MatrixView& a, const MatrixView& b,
                   const MatrixView& c, bool accumulate) {
  void* const to = const_cast<void*>(c.data);
  if (c.col_stride == 1) gemm(dtype, m, n, k, a, b, to, c.row_stride, accumulate);
  else gemm(dtype, n, m, k, transposed(b), transposed(a), to, c.col_stride, accumulate);
}

// Every channel = its bias, or 0, at `count` positions.
template <class T>
void start_from(const T* bias, ImageView<T> v, int64_t count) {
  for (int64_t c = 0; c < v.channels; ++c) {
    T* const channel = v.data + c * v.channel_stride;
    const T value = bias != nullptr ? bias[c] : T{};
    for (int64_t p = 0; p < count; ++p) channel[p * v.position_stride] = value;
  }
}

template <class T>
void forward(DType dtype, const ConvolutionShape& s, Images x, const T* weight, const T* bias, Images y) {
  const Problem<T> problem(dtype, s);
  parallel(s.batch * problem.blocks, [&](int64_t piece) {
    const int64_t image = piece / problem.blocks;
    const auto block = problem.block(piece % problem.blocks);
    for (int64_t group = 0; group < s.groups; ++group) {
      const MatrixView to = problem.out_matrix(y, image, group, block);
      if (bias != nullptr) {
        T* const data = static_cast<T*>(const_cast<void*>(to.data));
        start_from<T>(bias + group * problem.out_channels, {data, problem.out_channels, to.row_stride, to.col_stride},
                      block.columns);
      }
      multiply_into(dtype, problem.out_channels, block.columns, problem.depth, problem.weight_matrix(weight, group),
                    problem.columns(x, image, group, block), to, bias != nullptr);
    }
  });
}

template <class T>
void input_gradient(DType dtype, const ConvolutionShape& s, Images grad_y, const T* weight, const T* bias,
                    Images grad_x) {
  const Problem<T> problem(dtype, s);
  parallel(s.batch * s.groups, [&](int64_t piece) {
    const int64_t image = piece / s.groups, group = piece % s.groups;
    const ImageView<T> to = problem.in_view(grad_x, image, group);
    start_from<T>(bias != nullptr ? bias + group * problem.in_channels : nullptr, to, s.in_volume());
    const MatrixView filters = transposed(problem.weight_matrix(weight, group));
    for (int64_t index = 0; index < problem.blocks; ++index) {
      const auto block = problem.block(index);
      T* const columns = problem.columns_memory();
      gemm(dtype, problem.depth, block.columns, problem.out_channels, filters,
           problem.out_matrix(grad_y, image, group, block), columns, block.columns, false);
      add_columns<T>(ColumnsGrid(s, block.first, block.count), columns, to);
    }
  });
}

template <class T> void add_channel_sums(const MatrixView& grad, int64_t channels, int64_t positions, T* sums) {
  const T* const data = static_cast<const T*>(grad.data);
  for (int64_t c = 0; c < channels; ++c) {
    T sum{};
    for (int64_t p = 0; p < positions; ++p) sum += data[c * grad.row_stride + p * grad.col_stride];
    sums[c] += sum;
  }
}

template <class T>
void weight_gradient(DType dtype, const ConvolutionShape& s, Images x, Images grad_y, T* grad_weight, T* grad_bias) {
  const Problem<T> problem(dtype, s);
  const int64_t tiles = s.batch * problem.blocks, parts = parts_of_sum(s, tiles);
  const int64_t weights = s.weights(), line = weights + s.out_channels;
  Scratch memory;
  T* const sums = reinterpret_cast<T*>(memory.at_least(static_cast<size_t>(line * parts) * sizeof(T)));
  parallel(parts, [&](int64_t part) {
    T* const sum = sums + part * line;
    std::fill(sum, sum + line, T{});
    for (int64_t tile = part * tiles / parts; tile < (part + 1) * tiles / parts; ++tile) {
      const int64_t image = tile / problem.blocks;
      const auto block = problem.block(tile % problem.blocks);
      for (int64_t group = 0; group < s.groups; ++group) {
        const MatrixView grad = problem.out_matrix(grad_y, image, group, block);
        gemm(dtype, problem.out_channels, problem.depth, block.columns, grad,
             transposed(problem.columns(x, image, group, block)), sum + group * problem.out_channels * problem.depth,
             problem.depth, true);
        if (grad_bias == nullptr) continue;
        add_channel_sums<T>(grad, problem.out_channels, block.columns, sum + weights + group * problem.out_channels);
      }
    }
  });
  add_parts(sums, line, parts);
  std::copy_n(sums, weights, grad_weight);
  if (grad_bias != nullptr) std::copy_n(sums + weights, s.out_channels, grad_bias);
}

// Integers wrap, so their signs do not matter.
template <class Run> void with_element(DType dtype, Run run) {
  switch (item_size(dtype)) {
    case 1: return run(uint8_t{});
    case 2: return run(uint16_t{});
    case 4: return dtype == DType::Float32 ? run(float{}) : run(uint32_t{});
    default: return dtype == DType::Float64 ? run(double{}) : run(uint64_t{});
  }
}

}  // namespace

void portable_convolve(DType dtype, const ConvolutionShape& shape, Images x, const void* weight, const void* bias,
                       Images y) {
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    forward<T>(dtype, shape, x, static_cast<const T*>(weight), static_cast<const T*>(bias), y);
  });
}

void portable_input_gradient(DType dtype, const ConvolutionShape& shape, Images grad_y, const void* weight,
                             const void* bias, Images grad_x) {
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    input_gradient<T>(dtype, shape, grad_y, static_cast<const T*>(weight), static_cast<const T*>(bias), grad_x);
  });
}

void portable_weight_gradient(DType dtype, const ConvolutionShape& shape, Images x, Images grad_y, void* grad_weight,
                              void* grad_bias) {
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    weight_gradient<T>(dtype, shape, x, grad_y, static_cast<T*>(grad_weight), static_cast<T*>(grad_bias));
  });
}

}  // namespace weft::cpu
