// The softmax of attention, tile by tile, and its derivative.
#include "core/kernels/cpu/isa/attention_table.h"
#include "core/kernels/cpu/isa/reduce_lanes.h"
#include "core/math/exponential.h"

namespace weft::cpu::WEFT_ISA {
namespace {

using reduction::kChunk;

constexpr int kWhole = 16;

template <class T> struct Rows {
  // Row r's scores, scaled and masked. Returns how many columns, from the first on, it may see at all, rounded
  // up to whole vectors: what it may not see there is minus infinity.
  WEFT_FN static int prepare(const ScoreTile& tile, int64_t r, T* __restrict__ row) {
    const T scale = static_cast<T>(tile.scale), hidden = -math::infinity<T>();
    const int64_t reach = r + tile.causal + 1;
    const int columns = static_cast<int>(tile.columns);
    const int seen = reach < 0 ? 0 : reach < columns ? static_cast<int>(reach) : columns;
    const int whole = (seen + kWhole - 1) / kWhole * kWhole, count = whole < columns ? whole : columns;
    if (tile.added) {
      const T* __restrict__ mask = static_cast<const T*>(tile.added) + r * tile.mask_row_stride;
      for (int c = 0; c < count; ++c) row[c] = c < seen ? math::fma(row[c], scale, mask[c]) : hidden;
    } else if (tile.allowed) {
      const bool* __restrict__ mask = tile.allowed + r * tile.mask_row_stride;
      for (int c = 0; c < count; ++c) row[c] = mask[c] & (c < seen) ? row[c] * scale : hidden;
    } else {
      for (int c = 0; c < count; ++c) row[c] = c < seen ? row[c] * scale : hidden;
    }
    return count;
  }

  static void softmax(const ScoreTile& tile, void* scores, void* largest_data, void* sum_data, void* rescale_data) {
    T* __restrict__ largest = static_cast<T*>(largest_data);
    T* __restrict__ sum = static_cast<T*>(sum_data);
    T* __restrict__ rescale = static_cast<T*>(rescale_data);
    alignas(64) T totals[kTileQueries];
    for (int64_t r = 0; r < tile.rows; ++r) {
      T* row = static_cast<T*>(scores) + r * tile.columns;
      const int64_t seen = prepare(tile, r, row);
      const T top = reduction::Max::fold(largest[r], reduce_chunk<reduction::Max, T>(row, seen, T(0)));
      // Where nothing has been seen yet, every exponential is 0.
      const T shift = top == -math::infinity<T>() ? T(0) : top;
      for (int64_t c = 0; c < seen; ++c) row[c] = math::exp(row[c] - shift);
      for (int64_t c = seen; c < tile.columns; ++c) row[c] = T(0);
      totals[r] = reduce_chunk<reduction::Sum, T>(row, seen, T(0));
      rescale[r] = largest[r] - shift;
      largest[r] = top;
    }
    for (int64_t r = 0; r < tile.rows; ++r) {
      rescale[r] = math::exp(rescale[r]);
      sum[r] = sum[r] * rescale[r] + totals[r];
    }
  }

  static void backward(const ScoreTile& tile, void* scores, void* grads, const void* log_sum, const void* dots) {
    const T scale = static_cast<T>(tile.scale);
    for (int64_t r = 0; r < tile.rows; ++r) {
      T* row = static_cast<T*>(scores) + r * tile.columns;
      T* grad = static_cast<T*>(grads) + r * tile.columns;
      const int64_t seen = prepare(tile, r, row);
      const T shift = static_cast<const T*>(log_sum)[r], dot = static_cast<const T*>(dots)[r];
#pragma GCC ivdep
      for (int64_t c = 0; c < seen; ++c) {
        const T probability = math::exp(row[c] - shift);
        row[c] = probability;
        grad[c] = probability * (grad[c] - dot) * scale;
      }
      for (int64_t c = seen; c < tile.columns; ++c) row[c] = grad[c] = T(0);
    }
  }

  static void scale_rows(int64_t rows, int64_t columns, void* y_data, int64_t step, const void* factors) {
    for (int64_t r = 0; r < rows; ++r) {
      T* y = static_cast<T*>(y_data) + r * step;
      const T factor = static_cast<const T*>(factors)[r];
      for (int64_t c = 0; c < columns; ++c) y[c] = y[c] * factor;
    }
  }

  static void dots(int64_t rows, int64_t columns, const void* a_data, int64_t a_step, const void* b_data,
                   int64_t b_step, void* out) {
    alignas(64) T products[kChunk];
    for (int64_t r = 0; r < rows; ++r) {
      const T* a = static_cast<const T*>(a_data) + r * a_step;
      const T* b = static_cast<const T*>(b_data) + r * b_step;
      T total = T(0);
      for (int64_t c = 0; c < columns; c += kChunk) {
        const int64_t count = kChunk < columns - c ? kChunk : columns - c;
        for (int64_t i = 0; i < count; ++i) products[i] = a[c + i] * b[c + i];
        total = total + reduce_chunk<reduction::Sum, T>(products, count, T(0));
      }
      static_cast<T*>(out)[r] = total;
    }
  }

  static void finish(int64_t rows, const void* largest_data, const void* sum_data, void* inverse_data,
                     void* log_sum_data) {
    const T* __restrict__ largest = static_cast<const T*>(largest_data);
    const T* __restrict__ sum = static_cast<const T*>(sum_data);
    T* __restrict__ inverse = static_cast<T*>(inverse_data);
    T* __restrict__ log_sum = static_cast<T*>(log_sum_data);
    for (int64_t r = 0; r < rows; ++r) {
      const bool nothing = sum[r] == T(0);
      inverse[r] = nothing ? T(0) : T(1) / sum[r];
      log_sum[r] = nothing ? math::infinity<T>() : largest[r] + math::log(sum[r]);
    }
  }

  static constexpr AttentionRows kLoops = {softmax, backward, scale_rows, dots, finish};
};

}  // namespace

const AttentionTable& attention_table() {
  static constexpr AttentionTable table = {Rows<float>::kLoops, Rows<double>::kLoops};
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
