// Statistics and scaling of neighbouring columns: channels that lie side by side, and the sums over rows
// that the gradients of a layer norm's weights are. A block takes the sum of every column at once, lane
// after lane of the fixed tree, with the lane in registers.
#include "core/kernels/cpu/isa/normalise_parts.h"

namespace weft::cpu::WEFT_ISA {
namespace {

template <class T> struct Columns {
  static constexpr int kVectors = static_cast<int>(kNormColumns) / kWidth<T>;

  // The lanes of `sums` sums over one chunk; take(row, column, accumulators) adds an element of each.
  template <int sums> struct Lanes {
    T lane[kLanes][sums][kNormColumns];

    template <int vectors, class Take> WEFT_FN void fill(ColumnBlock shape, int64_t column, Take take) {
      const int64_t lanes = smaller(shape.rows, kLanes);
      for (int64_t l = 0; l < lanes; ++l) {
        Vector<T> total[sums][vectors] = {};
        for (int64_t r = l; r < shape.rows; r += kLanes) {
#pragma GCC unroll 16
          for (int v = 0; v < vectors; ++v) {
            Vector<T> part[sums];
            take(r, column + v * kWidth<T>, part);
#pragma GCC unroll 2
            for (int s = 0; s < sums; ++s) total[s][v] = total[s][v] + part[s];
          }
        }
        for (int s = 0; s < sums; ++s) {
          for (int v = 0; v < vectors; ++v) store(&lane[l][s][column + v * kWidth<T>], total[s][v]);
        }
      }
    }

    // take_full reads whole vectors, take_part(count) the first `count` columns of one.
    template <class TakeFull, class TakePart>
    WEFT_FN void sum(ColumnBlock shape, T* const* results, TakeFull take_full, TakePart take_part) {
      int64_t column = 0;
      for (; column + 4 * kWidth<T> <= shape.width; column += 4 * kWidth<T>) fill<4>(shape, column, take_full);
      for (; column + kWidth<T> <= shape.width; column += kWidth<T>) fill<1>(shape, column, take_full);
      if (column < shape.width) fill<1>(shape, column, take_part);
      const int used = reduction::lanes_in_use(shape.rows);
      for (int64_t l = smaller(shape.rows, kLanes); l < used; ++l) {
        for (int s = 0; s < sums; ++s) {
          for (int64_t c = 0; c < shape.width; ++c) lane[l][s][c] = T(0);
        }
      }
      for (int half = used / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; ++l) {
          for (int s = 0; s < sums; ++s) {
            T* to = lane[l][s];
            const T* from = lane[l + half][s];
#pragma GCC ivdep
            for (int64_t c = 0; c < shape.width; ++c) to[c] = to[c] + from[c];
          }
        }
      }
      for (int s = 0; s < sums; ++s) {
        for (int64_t c = 0; c < shape.width; ++c) results[s][c] = lane[0][s][c];
      }
    }
  };

  WEFT_FN static Vector<T> at(const T* x, ColumnBlock shape, int64_t row, int64_t column) {
    return load(x + row * shape.step + column);
  }
  WEFT_FN static Vector<T> first(const T* x, ColumnBlock shape, int64_t row, int64_t column) {
    return load_partial(x + row * shape.step + column, shape.width - column, Vector<T>{});
  }

  static void moments(ColumnBlock shape, const void* x_data, void* mean_data, void* spread_data) {
    const T* x = static_cast<const T*>(x_data);
    T* mean = static_cast<T*>(mean_data);
    T* spread = static_cast<T*>(spread_data);
    alignas(64) T center[kNormColumns] = {};
    Lanes<1> lanes;
    T* to_mean[] = {mean};
    lanes.sum(
        shape, to_mean, [&](int64_t r, int64_t c, Vector<T>* part) { part[0] = at(x, shape, r, c); },
        [&](int64_t r, int64_t c, Vector<T>* part) { part[0] = first(x, shape, r, c); });
    for (int64_t c = 0; c < shape.width; ++c) center[c] = mean[c] = mean[c] / static_cast<T>(shape.rows);
    T* to_spread[] = {spread};
    const auto squared = [&](Vector<T> value, int64_t c, Vector<T>* part) {
      const Vector<T> distance = value - load(center + c);
      part[0] = distance * distance;
    };
    lanes.sum(
        shape, to_spread, [&](int64_t r, int64_t c, Vector<T>* part) { squared(at(x, shape, r, c), c, part); },
        [&](int64_t r, int64_t c, Vector<T>* part) { squared(first(x, shape, r, c), c, part); });
  }

  static void apply(ColumnBlock shape, const void* x_data, void* y_data, const void* mean_data, const void* slope_data,
                    const void* shift_data) {
    const T* mean = static_cast<const T*>(mean_data);
    const T* slope = static_cast<const T*>(slope_data);
    const T* shift = static_cast<const T*>(shift_data);
    for (int64_t r = 0; r < shape.rows; ++r) {
      const T* x = static_cast<const T*>(x_data) + r * shape.step;
      T* y = static_cast<T*>(y_data) + r * shape.step;
#pragma GCC ivdep
      for (int64_t c = 0; c < shape.width; ++c) y[c] = math::fma(x[c] - mean[c], slope[c], shift[c]);
    }
  }

  static void sums(ColumnBlock shape, const void* g_data, const void* x_data, const void* mean_data, void* sum,
                   void* product_sum) {
    const T* g = static_cast<const T*>(g_data);
    const T* x = static_cast<const T*>(x_data);
    alignas(64) T center[kNormColumns] = {};
    for (int64_t c = 0; c < shape.width; ++c) center[c] = static_cast<const T*>(mean_data)[c];
    Lanes<2> lanes;
    T* results[] = {static_cast<T*>(sum), static_cast<T*>(product_sum)};
    const auto both = [&](Vector<T> from_g, Vector<T> from_x, int64_t c, Vector<T>* part) {
      part[0] = from_g;
      part[1] = from_g * (from_x - load(center + c));
    };
    lanes.sum(
        shape, results,
        [&](int64_t r, int64_t c, Vector<T>* part) { both(at(g, shape, r, c), at(x, shape, r, c), c, part); },
        [&](int64_t r, int64_t c, Vector<T>* part) { both(first(g, shape, r, c), first(x, shape, r, c), c, part); });
  }

  static void sums_of_rows(ColumnBlock shape, const void* g_data, const void* x_data, const void* mean_data,
                           const void* scale_data, void* sum, void* product_sum) {
    const T* g = static_cast<const T*>(g_data);
    const T* x = static_cast<const T*>(x_data);
    if (!x) {
      Lanes<1> lanes;
      T* results[] = {static_cast<T*>(sum)};
      return lanes.sum(
          shape, results, [&](int64_t r, int64_t c, Vector<T>* part) { part[0] = at(g, shape, r, c); },
          [&](int64_t r, int64_t c, Vector<T>* part) { part[0] = first(g, shape, r, c); });
    }
    const T* mean = static_cast<const T*>(mean_data);
    const T* scale = static_cast<const T*>(scale_data);
    Lanes<2> lanes;
    T* results[] = {static_cast<T*>(sum), static_cast<T*>(product_sum)};
    const auto both = [&](Vector<T> from_g, Vector<T> from_x, int64_t r, Vector<T>* part) {
      part[0] = from_g;
      part[1] = from_g * ((from_x - broadcast(mean[r])) * broadcast(scale[r]));
    };
    lanes.sum(
        shape, results,
        [&](int64_t r, int64_t c, Vector<T>* part) { both(at(g, shape, r, c), at(x, shape, r, c), r, part); },
        [&](int64_t r, int64_t c, Vector<T>* part) { both(first(g, shape, r, c), first(x, shape, r, c), r, part); });
  }

  static void backward(ColumnBlock shape, const void* g_data, const void* x_data, void* y_data, const void* mean_data,
                       const void* slope_data, const void* shift_data, const void* pull_data) {
    const T* mean = static_cast<const T*>(mean_data);
    const T* slope = static_cast<const T*>(slope_data);
    const T* shift = static_cast<const T*>(shift_data);
    const T* pull = static_cast<const T*>(pull_data);
    for (int64_t r = 0; r < shape.rows; ++r) {
      const T* g = static_cast<const T*>(g_data) + r * shape.step;
      const T* x = static_cast<const T*>(x_data) + r * shape.step;
      T* y = static_cast<T*>(y_data) + r * shape.step;
#pragma GCC ivdep
      for (int64_t c = 0; c < shape.width; ++c) {
        y[c] = slope[c] * math::fma(-(x[c] - mean[c]), pull[c], g[c] - shift[c]);
      }
    }
  }

  static constexpr NormColumnLoops kLoops = {moments, apply, sums, sums_of_rows, backward};
};

NormTable make_table() {
  NormTable table;
  set_norm_rows(table);
  set_norm_channels(table);
  table.columns_of_float = Columns<float>::kLoops;
  table.columns_of_double = Columns<double>::kLoops;
  return table;
}

}  // namespace

const NormTable& norm_table() {
  static const NormTable table = make_table();
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
