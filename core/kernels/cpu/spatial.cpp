#include "core/kernels/cpu/spatial.h"

#include <algorithm>

#include "core/kernels/cpu/convolution_columns.h"
#include "core/kernels/cpu/threads.h"
#include "core/math/types.h"

namespace weft::cpu {

namespace {

constexpr int64_t kPieceElements = 32768;

template <class Body> void for_each_outer(int64_t outer, int64_t elements, Body body) {
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, elements));
  parallel((outer + per_piece - 1) / per_piece, [&](int64_t piece) {
    const int64_t end = std::min(outer, (piece + 1) * per_piece);
    for (int64_t o = piece * per_piece; o < end; ++o) body(o);
  });
}

template <class Run> void with_floating(DType dtype, Run run) {
  if (dtype == DType::Float64) run(double{});
  else run(float{});
}

template <class Run> void with_element(int64_t item, Run run) {
  switch (item) {
    case 1: return run(uint8_t{});
    case 2: return run(uint16_t{});
    case 4: return run(uint32_t{});
    case 16: return run(Complex128{});
    default: return run(uint64_t{});
  }
}

template <class T>
void copy_nearest(const Resampling& how, int64_t outer, int64_t inner, const T* x, T* y) {
  for_each_outer(outer, how.out * inner, [&](int64_t o) {
    const T* const from = x + o * how.in * inner;
    T* to = y + o * how.out * inner;
    if (inner == 1) {
      for (int64_t i = 0; i < how.out; ++i) to[i] = from[how.position[i]];
      return;
    }
    for (int64_t i = 0; i < how.out; ++i, to += inner) std::copy_n(from + how.position[i] * inner, inner, to);
  });
}

// The weights in the type that is computed in.
template <class T> std::vector<T> weights_as(const Resampling& how) {
  return std::vector<T>(how.weight.begin(), how.weight.end());
}

template <class T>
void mix(const Resampling& how, int64_t outer, int64_t inner, const T* x, T* y) {
  const std::vector<T> weights = weights_as<T>(how);
  for_each_outer(outer, how.out * inner * how.taps, [&](int64_t o) {
    const T* const from = x + o * how.in * inner;
    T* to = y + o * how.out * inner;
    if (inner == 1) {
      const int64_t* position = how.position.data();
      const T* weight = weights.data();
      for (int64_t i = 0; i < how.out; ++i, position += how.taps, weight += how.taps) {
        T sum = weight[0] * from[position[0]];
        for (int64_t tap = 1; tap < how.taps; ++tap) sum += weight[tap] * from[position[tap]];
        to[i] = sum;
      }
      return;
    }
    for (int64_t i = 0; i < how.out; ++i, to += inner) {
      for (int64_t tap = 0; tap < how.taps; ++tap) {
        const T* const line = from + how.position[i * how.taps + tap] * inner;
        const T weight = weights[i * how.taps + tap];
        if (tap == 0)
          for (int64_t k = 0; k < inner; ++k) to[k] = weight * line[k];
        else
          for (int64_t k = 0; k < inner; ++k) to[k] += weight * line[k];
      }
    }
  });
}

}  // namespace

void resample(DType dtype, const Resampling& how, int64_t outer, int64_t inner, const void* x, void* y) {
  if (how.taps == 1) {
    return with_element(item_size(dtype), [&](auto zero) {
      using T = decltype(zero);
      copy_nearest<T>(how, outer, inner, static_cast<const T*>(x), static_cast<T*>(y));
    });
  }
  with_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    mix<T>(how, outer, inner, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void resample_gradient(DType dtype, const Resampling& how, int64_t outer, int64_t inner, const void* grad_y,
                       void* grad_x) {
  with_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> weights = weights_as<T>(how);
    for_each_outer(outer, (how.in + how.out * how.taps) * inner, [&](int64_t o) {
      const T* from = static_cast<const T*>(grad_y) + o * how.out * inner;
      T* const to = static_cast<T*>(grad_x) + o * how.in * inner;
      std::fill_n(to, how.in * inner, T{});
      for (int64_t i = 0; i < how.out; ++i, from += inner) {
        for (int64_t tap = 0; tap < how.taps; ++tap) {
          T* const line = to + how.position[i * how.taps + tap] * inner;
          const T weight = how.taps == 1 ? T{1} : weights[i * how.taps + tap];
          for (int64_t k = 0; k < inner; ++k) line[k] += weight * from[k];
        }
      }
    });
  });
}

void unfold(DType dtype, const ConvolutionShape& s, const void* images, void* columns) {
  with_element(item_size(dtype), [&](auto zero) {
    using T = decltype(zero);
    const ColumnsGrid grid(s, 0, s.out[0]);
    const int64_t volume = s.in_volume(), rows = grid.taps * grid.columns;
    for_each_outer(s.batch * s.in_channels, rows, [&](int64_t plane) {
      gather_columns<T>(grid, {static_cast<const T*>(images) + plane * volume, 1, volume, 1},
                        static_cast<T*>(columns) + plane * rows);
    });
  });
}

void fold(DType dtype, const ConvolutionShape& s, const void* columns, void* images) {
  with_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    const ColumnsGrid grid(s, 0, s.out[0]);
    const int64_t volume = s.in_volume(), rows = grid.taps * grid.columns;
    for_each_outer(s.batch * s.in_channels, rows, [&](int64_t plane) {
      T* const image = static_cast<T*>(images) + plane * volume;
      std::fill_n(image, volume, T{});
      add_columns<T>(grid, static_cast<const T*>(columns) + plane * rows, {image, 1, volume, 1});
    });
  });
}

}  // namespace weft::cpu
